"""`tabellion read`: reads documents into JSON on this machine, without a key or a network."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from tabellion.cli.output import Bar
from tabellion.document import read as read_one
from tabellion.engine.log import printable
from tabellion.errors import Permanent
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.reader import Reading
from tabellion.reading.sandbox import ReaderLost, Sandbox
from tabellion.reading.sniff import open_source

STANDARD_INPUT = Path("-")
ENDINGS = {".pdf", ".png", ".jpg", ".jpeg", ".webp", ".gif", ".tif", ".tiff", ".bmp"}


def read(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(help="Files, folders (recursively), or - for standard input.", metavar="FILE"),
    ],
    type: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option("--type", "-t", help="A type's name (invoice, receipt, deed, …) or its file. [default: detected]"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Also ask this model, e.g. gemini.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write one JSON file per document here.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Add the text and every word with its box.")] = False,
    draw: Annotated[
        Path | None, typer.Option("--draw", help="Write pictures of the pages with their boxes here.")
    ] = None,
    ocr: Annotated[str, typer.Option("--ocr", help="auto, never or always.")] = "auto",
    password: Annotated[
        str | None, typer.Option("--password", envvar="TABELLION_PDF_PASSWORD", help="Opens encrypted PDFs.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Documents at a time. [default: one per core]")
    ] = None,
) -> None:
    """Read documents into JSON: pages, and fields with value, confidence, box and reasons.

    One object for one file, JSON Lines for several. Exit code 6 if some could not be read.

    Examples:

        tabellion read invoice.pdf

        tabellion read scans/ --out read/ --draw read/

        tabellion read *.jpg --type receipt | jq .fields.total.value

        tabellion read contract.pdf --words --model gemini
    """
    if ocr not in ("auto", "never", "always"):
        raise typer.BadParameter(f"--ocr {ocr}: must be auto, never or always")
    for option, folder in (("--out", out), ("--draw", draw)):
        _make_folder(option, folder)
    paths, skipped = _documents(files)
    if skipped:
        typer.echo(f"skipped {skipped} files that are not documents", err=True)
    if not paths:
        raise typer.BadParameter("no documents: the folders contain no PDFs or images")
    # One byte more than allowed, so that it is rejected as too large.
    standard_input = sys.stdin.buffer.read(Limits().bytes + 1) if STANDARD_INPUT in paths else b""
    sources = [(path, standard_input if path == STANDARD_INPUT else path) for path in paths]
    names = _Names()
    with Sandbox(size=jobs) as sandbox, _Progress(len(paths)) as progress:
        sandbox.warm()  # it starts while the configuration is loaded
        from tabellion.cli.load import config_of

        config = config_of(context)
        options = {"type": type, "model": model, "ocr": ocr, "password": password, "words": words, "config": config}
        failed = 0
        for (path, source), reading in zip(sources, _readings(sandbox, progress, sources, options), strict=True):
            failed += reading.error is not None
            result = reading.as_dict(words=words)
            target = names.free("stdin" if path == STANDARD_INPUT else path.stem)
            if draw is not None and reading.error is None:
                result["drawn"] = _draw_pages(reading, source, draw / target, sandbox, password)
            _write_result(result, out / f"{target}.json" if out is not None else None, is_only=len(paths) == 1)
    if failed:
        raise typer.Exit(6)


def _make_folder(option: str, folder: Path | None) -> None:
    """Creates the folder before anything is read, so that nothing is read in vain."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Permanent(f"{option} {folder}: cannot be used as a folder ({error.strerror})") from None


def _documents(files: Sequence[Path]) -> tuple[list[Path], int]:
    """The files and the documents in folders, without hidden ones; and the number of skipped files."""
    documents: list[Path] = []
    skipped: list[object] = []
    for file in files:
        if not file.is_dir():
            documents.append(file)
            continue
        for folder, subfolders, names in os.walk(file, onerror=skipped.append):
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for path in (Path(folder, name) for name in sorted(names) if not name.startswith(".")):
                (documents if path.suffix.lower() in ENDINGS or _readable(path) else skipped).append(path)
    return documents, len(skipped)


def _readable(path: Path) -> bool:
    """Whether a file with another ending, or none, is a document by its content."""
    try:
        with open_source(path, Limits()):
            return True
    except (Unreadable, OSError):
        return False


def _readings(
    sandbox: Sandbox, progress: _Progress, sources: Iterable[tuple[Path, Path | bytes]], options: dict[str, Any]
) -> Iterator[Reading]:
    """The readings in the order of the sources; several are read at a time."""

    def read(path: Path, source: Path | bytes) -> Reading:
        try:
            return read_one(source, name=str(path), sandbox=sandbox, progress=progress.page(path), **options)
        except ReaderLost as error:  # only this document fails
            return Reading(str(path), error={"code": "reader_crashed", "message": str(error)})

    pool = ThreadPoolExecutor(sandbox.size)
    pending: deque[Future[Reading]] = deque()
    waiting = iter(sources)
    try:
        while True:
            # Only as many as keep the children busy: pending results fill the memory.
            while len(pending) < 2 * sandbox.size and (item := next(waiting, None)) is not None:
                pending.append(pool.submit(read, *item))
            if not pending:
                return
            yield pending.popleft().result()
            progress.advance()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class _Progress(Bar):
    """The progress of reading so many documents."""

    def __init__(self, count: int) -> None:
        super().__init__("reading")
        self(0, count)

    def page(self, path: Path) -> Any:
        """A callback for the pages of this document."""
        if self._bar is None:
            return None

        name = printable(path.name)[:40]

        def show(number: int, count: int) -> None:
            self._bar.update(self._task, description=f"{name} {number}/{count}" if count > 1 else name)

        return show

    def advance(self) -> None:
        """Counts one more document."""
        if self._bar is not None:
            self._bar.advance(self._task)


class _Names:
    """Unique names for output files: documents of several folders may have the same name."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def free(self, stem: str) -> str:
        """The document's name; with a number if it is already used."""
        name, number = stem, 1
        while name.casefold() in self._used:
            number += 1
            name = f"{stem}-{number}"
        self._used.add(name.casefold())
        return name


def _write_result(result: dict[str, Any], target: Path | None, *, is_only: bool) -> None:
    text = json.dumps(result, ensure_ascii=False, indent=2 if is_only or target is not None else None)
    if target is None:
        typer.echo(text)
    else:
        _write(target, (text + "\n").encode("utf-8", "backslashreplace"))


def _write(target: Path, content: bytes) -> None:
    """Writes a file atomically."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _draw_pages(
    reading: Reading, source: Path | bytes, target: Path, sandbox: Sandbox, password: str | None
) -> list[str]:  # fmt: skip
    """Writes pictures of the pages that have fields, and of the first; returns their paths."""
    from tabellion.reading.draw import draw

    paths = []
    for page in reading.pages:
        boxes = {name: field.box for name, field in reading.fields.items() if field.box and field.page == page.number}
        if page.source == "failed" or (not boxes and page.number > 1):
            continue
        picture = draw(source, page.number, boxes=boxes, rotation=page.rotation, sandbox=sandbox, password=password)
        path = target.with_name(f"{target.name}-{page.number}.png")
        _write(path, picture)
        paths.append(str(path))
    return paths
