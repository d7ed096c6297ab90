"""`tabellion read`: documents to JSON, on this machine, with no key and no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tabellion.reading.reader import Reading
    from tabellion.reading.sandbox import Sandbox

ENDINGS = {".pdf", ".png", ".jpg", ".jpeg", ".webp", ".gif", ".tif", ".tiff", ".bmp"}


def read(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Documents, or folders of them.", metavar="FILE…")],
    type: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option("--type", "-t", help="invoice, receipt, deed, a type of yours or its file. [default: found out]"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Ask this model too, e.g. gemini.")] = None,
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

    One object for one file, JSON Lines for several. Exit code 6 when some could not be read.

    Examples:

        tabellion read invoice.pdf

        tabellion read scans/ --out read/ --draw read/

        tabellion read *.jpg --type receipt | jq .fields.total.value

        tabellion read contract.pdf --words --model gemini
    """
    from tabellion.reading.sandbox import Sandbox

    if ocr not in ("auto", "never", "always"):
        raise typer.BadParameter(f"--ocr {ocr}: say auto, never or always")
    paths = list(_documents(files))
    if not paths:
        raise typer.BadParameter("no documents: the folders hold none of " + ", ".join(sorted(ENDINGS)))
    with Sandbox(size=jobs) as sandbox, _Progress(len(paths)) as progress:
        sandbox.warm()  # it starts while we look for the configuration
        from tabellion.cli.load import config_of

        config = config_of(context)
        options = {"type": type, "model": model, "ocr": ocr, "password": password, "words": words, "config": config}
        failed = 0
        for place, reading in enumerate(_readings(sandbox, progress, paths, options)):
            failed += reading.error is not None
            told = reading.told(words=words)
            if draw is not None and reading.error is None:
                told["drawn"] = _drawn(reading, paths[place], draw, sandbox, password)
            _say(told, out, alone=len(paths) == 1, taken=paths[:place])
    if failed:
        raise typer.Exit(6)


def _documents(files: Sequence[Path]) -> Iterator[Path]:
    """The files themselves, and the documents of folders."""
    for file in files:
        if file.is_dir():
            yield from sorted(one for one in file.iterdir() if one.suffix.lower() in ENDINGS)
        else:
            yield file


def _readings(
    sandbox: Sandbox, progress: _Progress, paths: Sequence[Path], options: dict[str, Any]
) -> Iterator[Reading]:
    """Each document in the order it was given, several being read at a time."""
    from concurrent.futures import ThreadPoolExecutor

    from tabellion.document import read as read_one

    pool = ThreadPoolExecutor(sandbox.size)
    try:
        pending = [
            pool.submit(read_one, str(path), sandbox=sandbox, progress=progress.page(path), **options) for path in paths
        ]
        for future in pending:
            yield future.result()
            progress.done()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class _Progress:
    """A bar on standard error where a person watches; nothing elsewhere."""

    def __init__(self, count: int) -> None:
        import sys

        self._count = count
        self._bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)

    def __enter__(self) -> _Progress:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("reading", total=self._count)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def page(self, path: Path) -> Any:
        """Told of each page of this document."""
        if self._bar is None:
            return None
        from tabellion.monitor.log import printable

        name = printable(path.name)[:40]

        def tell(number: int, count: int) -> None:
            self._bar.update(self._task, description=f"{name} {number}/{count}" if count > 1 else name)

        return tell

    def done(self) -> None:
        """One document more."""
        if self._bar is not None:
            self._bar.advance(self._task)


def _say(told: dict[str, Any], out: Path | None, *, alone: bool, taken: Sequence[Path]) -> None:
    import json

    if out is None:
        typer.echo(json.dumps(told, ensure_ascii=False, indent=2 if alone else None))
        return
    out.mkdir(parents=True, exist_ok=True)
    target = _target(Path(told["file"]), taken)
    (out / f"{target}.json").write_text(json.dumps(told, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _target(path: Path, taken: Sequence[Path]) -> str:
    """The document's own name; with a number where an earlier one has it."""
    same = sum(other.stem == path.stem for other in taken)
    return f"{path.stem}-{same + 1}" if same else path.stem


def _drawn(reading: Reading, path: Path, folder: Path, sandbox: Sandbox, password: str | None) -> list[str]:
    """Pictures of the pages that fields stand on, and of the first."""
    from tabellion.reading.draw import draw

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for page in reading.pages:
        boxes = {name: one.box for name, one in reading.fields.items() if one.box and one.page == page.number}
        if page.source == "failed" or (not boxes and page.number > 1):
            continue
        target = folder / f"{path.stem}-{page.number}.png"
        picture = draw(path, page.number, boxes=boxes, rotation=page.rotation, sandbox=sandbox, password=password)
        target.write_bytes(picture)
        made.append(str(target))
    return made
