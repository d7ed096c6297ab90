"""tabellion read: documents to JSON on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reading import papers

INVOICE = (
    "Northern Tool Hire Ltd",
    "4 Mill Road",
    "LS1 4AB Leeds",
    "",
    "Invoice No A-77",
    "Invoice date 14 March 2026",
    "Total 120.00 GBP",
)


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command as people run it."""
    command = [sys.executable, "-m", "tabellion", "read", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, good and bad."""
    made = tmp_path_factory.mktemp("documents")
    (made / "a.pdf").write_bytes(papers.pdf(INVOICE))
    (made / "b.pdf").write_bytes(papers.pdf((*INVOICE[:-1], "Total 99.00 GBP")))
    (made / "bad.pdf").write_bytes(b"%PDF-1.7 cut")
    (made / "notes.txt").write_text("not a document")
    return made


def test_one_file_is_one_object(folder: Path) -> None:
    """Indented JSON on standard output, nothing else, exit code 0."""
    done = run("a.pdf", folder=folder)
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (told["file"], told["type"], told["fields"]["total"]["value"]) == ("a.pdf", "invoice", "120.00")


def test_several_files_are_json_lines_in_their_order(folder: Path) -> None:
    """One line each; exit code 6 when some could not be read, and the others are there."""
    done = run("a.pdf", "bad.pdf", "b.pdf", "missing.pdf", folder=folder)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 6
    assert [one["file"] for one in told] == ["a.pdf", "bad.pdf", "b.pdf", "missing.pdf"]
    assert [one.get("error", {}).get("code") for one in told] == [None, "pdf_damaged", None, "file_missing"]
    assert told[2]["fields"]["total"]["value"] == "99.00"


def test_folders_are_read_and_results_written(folder: Path, tmp_path: Path) -> None:
    """A folder stands for its documents; --out writes a file for each."""
    done = run(str(folder), "--out", str(tmp_path / "out"), folder=tmp_path)
    assert (done.returncode, done.stdout) == (6, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.json", "b.json", "bad.json"]
    assert json.loads((tmp_path / "out" / "b.json").read_text())["fields"]["total"]["value"] == "99.00"


def test_pages_are_drawn_with_their_boxes(folder: Path, tmp_path: Path) -> None:
    """--draw writes a picture that a person can check, and says where."""
    done = run("a.pdf", "--draw", str(tmp_path), folder=folder)
    (drawn,) = json.loads(done.stdout)["drawn"]
    assert Path(drawn).read_bytes().startswith(b"\x89PNG")


def test_a_type_that_is_not_there_is_said_before_anything_is_read(folder: Path) -> None:
    """Exit code 3, and the types there are."""
    done = run("a.pdf", "--type", "invoise", folder=folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert "invoise" in done.stderr
    assert "invoice" in done.stderr


def test_mistakes_of_the_command_are_usage(folder: Path, tmp_path: Path) -> None:
    """A wrong option and an empty folder exit with 2."""
    assert run("a.pdf", "--ocr", "sometimes", folder=folder).returncode == 2
    assert run(str(tmp_path), folder=folder).returncode == 2
