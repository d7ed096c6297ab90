"""tabellion read: documents to JSON on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.cli.read import _Progress, _readings
from tabellion.reading.sandbox import ReaderLost, Sandbox
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


def run(*words: str | bytes, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as people do."""
    command = [sys.executable, "-m", "tabellion", "read", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(command, cwd=folder, text=True, timeout=100, check=False, **streams)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, good and bad."""
    new_folder = tmp_path_factory.mktemp("documents")
    (new_folder / "a.pdf").write_bytes(papers.pdf(INVOICE))
    (new_folder / "b.pdf").write_bytes(papers.pdf((*INVOICE[:-1], "Total 99.00 GBP")))
    (new_folder / "bad.pdf").write_bytes(b"%PDF-1.7 cut")
    (new_folder / "notes.txt").write_text("not a document")
    return new_folder


def test_one_file_is_one_object(folder: Path) -> None:
    """Indented JSON on standard output, nothing else, exit code 0."""
    done = run("a.pdf", folder=folder)
    output = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (output["file"], output["type"], output["fields"]["total"]["value"]) == ("a.pdf", "invoice", "120.00")


def test_several_files_are_json_lines_in_order(folder: Path) -> None:
    """One line each; exit code 6 when some could not be read, and the others are there."""
    done = run("a.pdf", "bad.pdf", "b.pdf", "missing.pdf", folder=folder)
    output = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 6
    assert [one["file"] for one in output] == ["a.pdf", "bad.pdf", "b.pdf", "missing.pdf"]
    assert [one.get("error", {}).get("code") for one in output] == [None, "pdf_damaged", None, "file_missing"]
    assert output[2]["fields"]["total"]["value"] == "99.00"


def test_folders_are_read_and_results_written(folder: Path, tmp_path: Path) -> None:
    """A folder means its documents; --out writes a file for each."""
    done = run(str(folder), "--out", str(tmp_path / "out"), folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (6, "", "skipped 1 files that are not documents\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.json", "b.json", "bad.json"]
    assert json.loads((tmp_path / "out" / "b.json").read_text())["fields"]["total"]["value"] == "99.00"


def test_pages_are_rendered_with_their_boxes(folder: Path, tmp_path: Path) -> None:
    """--draw writes an image that a person can check, and prints its path."""
    done = run("a.pdf", "--draw", str(tmp_path), folder=folder)
    (drawn,) = json.loads(done.stdout)["drawn"]
    assert Path(drawn).read_bytes().startswith(b"\x89PNG")


def test_an_unknown_type_is_reported_before_anything_is_read(folder: Path) -> None:
    """Exit code 3, and the known types."""
    done = run("a.pdf", "--type", "invoise", folder=folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert "invoise" in done.stderr
    assert "invoice" in done.stderr


def test_wrong_arguments_are_usage_errors(folder: Path, tmp_path: Path) -> None:
    """A wrong option and an empty folder exit with 2."""
    assert run("a.pdf", "--ocr", "sometimes", folder=folder).returncode == 2
    assert run(str(tmp_path), folder=folder).returncode == 2


def test_documents_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """Each gets a unique name, even beside a numbered one, for its JSON and for its images."""
    for name in ("x/inv-2.pdf", "x/inv.pdf", "y/inv.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(papers.pdf((name, *INVOICE)))
    done = run("x/inv-2.pdf", "x/inv.pdf", "y/inv.pdf", "--out", "o", "--draw", "o", folder=tmp_path)
    body = {path.name: json.loads(path.read_text()) for path in (tmp_path / "o").glob("*.json")}
    assert done.returncode == 0, done.stderr
    assert {name: one["file"] for name, one in body.items()} == {
        "inv-2.json": "x/inv-2.pdf", "inv.json": "x/inv.pdf", "inv-3.json": "y/inv.pdf",
    }  # fmt: skip
    pictures = [picture for one in body.values() for picture in one["drawn"]]
    assert sorted(pictures) == ["o/inv-1.png", "o/inv-2-1.png", "o/inv-3-1.png"]
    assert len(list((tmp_path / "o").iterdir())) == 6


def test_subfolders_are_read_by_content(tmp_path: Path) -> None:
    """Documents without an extension are found; the rest is counted, except hidden files."""
    for name in ("b", "sub/a.pdf", ".hidden/c.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(papers.pdf(INVOICE))
    (tmp_path / "sub" / "x.txt").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    done = run(".", folder=tmp_path)
    assert [json.loads(line)["file"] for line in done.stdout.splitlines()] == ["b", "sub/a.pdf"]
    assert (done.returncode, done.stderr) == (0, "skipped 2 files that are not documents\n")


def test_a_document_comes_from_standard_input(folder: Path, tmp_path: Path) -> None:
    """- is standard input; its JSON and its image have a name too."""
    with (folder / "a.pdf").open("rb") as stream:
        done = run("-", "--out", "o", "--draw", "o", folder=tmp_path, stdin=stream)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "o" / "stdin.json").read_text())["fields"]["total"]["value"] == "120.00"
    assert (tmp_path / "o" / "stdin-1.png").exists()


@pytest.mark.parametrize("option", ["--out", "--draw"])
def test_an_invalid_output_folder_is_reported_before_anything_is_read(option: str, folder: Path) -> None:
    """One line, exit code 5, nothing printed."""
    done = run("a.pdf", option, "notes.txt", folder=folder)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == f"error: {option} notes.txt: cannot be used as a folder (File exists)\n"


def test_a_full_disk_is_one_line(folder: Path) -> None:
    """Output that cannot be written is an error with a code, not a traceback."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no full device")
    with Path("/dev/full").open("w") as full:
        done = run("a.pdf", folder=folder, stdout=full)
    assert (done.returncode, done.stderr) == (5, "error: No space left on device\n")


def test_a_closed_pipe_is_not_an_error(folder: Path) -> None:
    """`tabellion read … | head -1` ends quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = run("a.pdf", "b.pdf", folder=folder, stdout=closed)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_that_are_not_text_are_printed_and_written(tmp_path: Path) -> None:
    """A name that is not UTF-8 is escaped in the JSON."""
    if sys.platform == "darwin":
        pytest.skip("this system has no such names")
    name = b"bad\xff.pdf"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(papers.pdf(INVOICE))
    done = run(name, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.fsencode(json.loads(done.stdout)["file"]) == name
    assert run(name, "--out", "o", folder=tmp_path).returncode == 0
    (written,) = (tmp_path / "o").iterdir()
    assert os.fsencode(json.loads(written.read_bytes())["file"]) == name


def test_the_number_of_pending_results_is_bounded() -> None:
    """However many documents there are, few results wait to be taken."""
    taken: list[int] = []

    def sources() -> Iterator[tuple[Path, bytes]]:
        for number in range(50):
            taken.append(number)
            yield Path(f"{number}.pdf"), b""

    with Sandbox(size=2) as sandbox, _Progress(50) as progress:
        readings = _readings(sandbox, progress, sources(), {})
        assert next(readings).file == "0.pdf"
        assert len(taken) == 4
        assert [reading.file for reading in readings] == [f"{number}.pdf" for number in range(1, 50)]


def test_a_killed_reader_costs_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported as that document's error, and the others are read."""

    def read(source: bytes, **options: Any) -> None:
        raise ReaderLost("killed")

    monkeypatch.setattr("tabellion.cli.read.read_one", read)
    with Sandbox(size=1) as sandbox, _Progress(1) as progress:
        (reading,) = _readings(sandbox, progress, [(Path("a.pdf"), b"")], {})
    assert reading.error == {"code": "reader_crashed", "message": "killed"}
