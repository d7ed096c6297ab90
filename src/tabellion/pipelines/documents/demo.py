"""The demo: sample documents submitted, watched until they have ended, and told about."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tabellion.engine.log import printable
from tabellion.errors import Busy, Unreachable
from tabellion.pipelines.documents import lookup
from tabellion.pipelines.documents.intake import NotTaken, take_in

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.documents.settings import Settings

Result = TypeVar("Result")

SAMPLES = Path(__file__).parent / "samples"  #: invented letters, receipts and scans, copies, and some that are broken
LANGUAGES = ("en", "fr", "qc", "de")
EVERY = 0.2  #: seconds between two looks
WIDTHS = (10, 28, 8, 24, 12, 60)  #: status, file, type, vendor, total, what a person should know
ORDER = ("queued", "processing", "completed", "duplicate", "failed", "refused")


@dataclass
class Summary:
    """What became of the samples."""

    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    names: dict[str, str] = field(default_factory=dict)  #: document -> what the file is called
    states: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  #: file -> why
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many stand where."""
        found = Counter(self.states.values()) + Counter({"refused": len(self.refused)})
        return {status: found[status] for status in ORDER if found[status]}

    def line(self) -> str:
        """Why it was rejected, as a sentence."""
        said = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        return f"{len(self.names) + len(self.refused)} sample documents: {said}"

    def text(self) -> str:
        """What became of each, and of all."""
        lines = ["  ".join(map(_cut, row, WIDTHS)).rstrip() for row in self.rows]
        return "\n".join([*lines, f"{self.line()} ({self.seconds:.1f} s)"])


def samples() -> list[tuple[str, bytes]]:
    """Names and contents of the documents, by language; copies come after what they are copies of."""

    def order(file: Path) -> tuple[int, str]:
        language = file.name.partition("-")[0]
        return LANGUAGES.index(language) if language in LANGUAGES else len(LANGUAGES), file.name

    return [(file.name, file.read_bytes()) for file in sorted(SAMPLES.iterdir(), key=order)]


async def run(store: Store, settings: Settings, *, live: bool) -> Summary:
    """Submits the samples and returns when the last of them has ended."""
    summary = Summary()
    with _show_status(live) as show:
        for name, content in await asyncio.to_thread(samples):
            try:
                taken = await _patiently(take_in, store, settings, content, name=name)
            except NotTaken as error:
                summary.refused[name] = str(error)
                continue
            summary.names[taken.id], summary.states[taken.id] = name, taken.status
            show(summary.line())
        while True:
            found = await _patiently(lookup.states, store, summary.names)
            summary.states |= {id_: str(one["status"]) for id_, one in found.items()}
            show(summary.line())
            if all(status in lookup.ENDED for status in summary.states.values()):
                break
            await asyncio.sleep(EVERY)
    summary.seconds = time.monotonic() - summary.began
    summary.rows = [await _row(store, id_, name) for id_, name in summary.names.items()]
    summary.rows += [("refused", name, "", "", "", why) for name, why in summary.refused.items()]
    return summary


async def _patiently(question: Callable[..., Awaitable[Result]], *args: Any, **options: Any) -> Result:
    """Asks again where the database does not answer for a moment: that is no reason to end the service."""
    while True:
        try:
            return await question(*args, **options)
        except (Unreachable, Busy):
            await asyncio.sleep(EVERY)


async def _row(store: Store, id_: str, name: str) -> tuple[str, ...]:
    document = await _patiently(lookup.get, store, id_)
    if document is None:
        return "deleted", name, "", "", "", ""
    fields: dict[str, Any] = document["fields"]
    said = {field: str(fields[field]["value"]) if field in fields else "" for field in ("vendor", "total", "currency")}
    error = document["error"] or {}
    why = str(error.get("message", "")) or "; ".join(str(one.get("message", one)) for one in document["reasons"])
    total = f"{said['total']} {said['currency']}".strip()
    return document["status"], name, document["type"] or "", said["vendor"], total, why


def _cut(text: str, width: int) -> str:
    shown = printable(text)
    return shown.ljust(width) if len(shown) <= width else f"{shown[: width - 1]}…"


@contextlib.contextmanager
def _show_status(live: bool) -> Iterator[Any]:
    """A line that is written again and again where a person watches; nothing elsewhere."""
    if not live:
        yield lambda line: None
        return
    from rich.console import Console
    from rich.status import Status

    with Status("", console=Console(highlight=False)) as status:
        yield status.update
