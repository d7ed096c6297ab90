"""tabellion export: files, pipes, formats, and exit codes for scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.cli.project import Project
from tests.pipelines.documents.results import LEASE
from tests.pipelines.documents.rows import insert

ROOT = Path(__file__).parents[2]
PROGRAM = """
from tabellion.cli import app, main
from tabellion.pipelines.documents.commands.export import export

app.command("export")(export)
main()
"""


@pytest.fixture(autouse=True)
def types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A custom type."""
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "lease.yaml").write_text(LEASE)
    monkeypatch.setenv("TABELLION_TYPES", str(tmp_path / "types"))


def test_a_range_is_exported_to_a_file(project: Project, tmp_path: Path) -> None:
    """The file's extension decides the format; a line, or JSON, says what was written."""
    insert(project.url, {"id": "01", "fields": {"rent": "12.50"}}, {"id": "02", "created_at": 0.0})
    result = project.run("export", "--since", "2024-02-28", "--until", "2024-02-28", "-o", str(tmp_path / "a.csv"))
    assert (result.exit_code, result.stdout) == (
        0,
        f"{tmp_path}/a.csv: 1 document, {_size(tmp_path / 'a.csv')} bytes\n",
    )
    assert "12.50" in (tmp_path / "a.csv").read_text()
    body = project.json("export", "-o", str(tmp_path / "a.parquet"))
    assert (body["format"], body["documents"], body["failed"]) == ("parquet", 2, 0)
    assert body["bytes"] == _size(tmp_path / "a.parquet")
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT id, rent FROM '{tmp_path}/a.parquet' ORDER BY id").fetchall()
    assert [(one, None if rent is None else float(rent)) for one, rent in found] == [("01", 12.5), ("02", None)]


def _size(path: Path) -> int:
    return path.stat().st_size


def test_standard_output_has_only_the_documents(lite: Project) -> None:
    """So that it can be piped."""
    insert(lite.url, {"id": "01", "fields": {"rent": "12.50"}}, {"id": "02", "status": "failed"})
    result = lite.run("export", "--format", "jsonl")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["01"]
    assert lite.run("export").stdout.startswith("id,name,sha256,")
    both = lite.run("export", "--format", "jsonl", "--status", "failed", "--status", "completed", "--type", "lease")
    assert len(both.stdout.splitlines()) == 2
    assert lite.run("export", "--format", "parquet").stdout_bytes.startswith(b"PAR1")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--format", "xlsx"), "csv, jsonl, parquet"), (("--since", "yesterday"), "2024-02-29"),
     (("--status", "done"), "unknown status 'done'"), (("--json",), "--out"),
     (("--since", "2024-03-01", "--until", "2024-02-01"), "the range is empty")],
)  # fmt: skip
def test_invalid_arguments_are_usage_errors(lite: Project, words: tuple[str, ...], said: str) -> None:
    """Exit code 2, with a hint; nothing is written."""
    result = lite.run("export", *words)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_database_without_documents_is_exit_code_4(lite: Project, tmp_path: Path) -> None:
    """No file is left."""
    before = sorted(tmp_path.iterdir())
    assert lite.run("export", "-o", str(tmp_path / "a.csv")).exit_code == 4
    assert [path for path in sorted(tmp_path.iterdir()) if path not in before] == []


def test_a_broken_row_is_exit_code_6(lite: Project, tmp_path: Path) -> None:
    """The others are written, and each problem is a line on standard error."""
    insert(lite.url, {"id": "01"}, {"id": "02", "result": "{broken"})
    result = lite.run("export", "-o", str(tmp_path / "a.jsonl"))
    assert result.exit_code == 6
    assert "error: 02: its row cannot be exported" in result.stderr
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1


def test_a_missing_type_is_a_warning(lite: Project) -> None:
    """Its fields are exported as text."""
    insert(lite.url, {"id": "01", "found_type": "vanished", "fields": {"colour": "red"}})
    result = lite.run("export")
    assert result.exit_code == 0
    assert "unknown document type 'vanished'" in result.stderr
    assert "red" in result.stdout


def test_a_closed_pipe_is_not_an_error(lite: Project) -> None:
    """Exit code 0 and no message."""
    insert(lite.url, *({"id": f"{n:04}", "fields": {"tenant": "x" * 4000}} for n in range(200)))
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--config", str(lite.folder / "tabellion.toml"), "export", "-f", "jsonl"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), errors) == (0, b"")
