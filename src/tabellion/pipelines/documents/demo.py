"""The demo: submits sample documents, watches them until they have ended, and summarises the results."""

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
from tabellion.pipelines.documents.local_files import FileRejected, submit_local
from tabellion.reading.sample_files import sample_files

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.documents.settings import Settings

Result = TypeVar("Result")

LANGUAGES = ("en", "fr", "qc", "de")
EVERY = 0.2  #: seconds between two looks
WIDTHS = (10, 28, 8, 24, 12, 60)  #: status, file, type, vendor, total, remarks
ORDER = ("queued", "processing", "completed", "duplicate", "failed", "rejected")


@dataclass
class DemoSummary:
    """The results of the samples."""

    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    names: dict[str, str] = field(default_factory=dict)  #: document -> file name
    states: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)  #: file -> reason
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """The number of documents by status."""
        found = Counter(self.states.values()) + Counter({"rejected": len(self.rejected)})
        return {status: found[status] for status in ORDER if found[status]}

    def line(self) -> str:
        """The totals, as one line."""
        counts = ", ".join(f"{count} {status}" for status, count in self.counts().items())
        return f"{len(self.names) + len(self.rejected)} sample documents: {counts}"

    def text(self) -> str:
        """A line for each document, and the totals."""
        lines = ["  ".join(map(_cut, row, WIDTHS)).rstrip() for row in self.rows]
        return "\n".join([*lines, f"{self.line()} ({self.seconds:.1f} s)"])


def samples() -> list[tuple[str, bytes]]:
    """Names and contents of the documents, by language; copies come after their originals."""

    def order(file: Path) -> tuple[int, str]:
        language = file.name.partition("-")[0]
        return LANGUAGES.index(language) if language in LANGUAGES else len(LANGUAGES), file.name

    return [(file.name, file.read_bytes()) for file in sorted(sample_files(), key=order)]


async def run(store: Store, settings: Settings, *, live: bool) -> DemoSummary:
    """Submits the samples and returns when the last of them has ended."""
    summary = DemoSummary()
    with _show_status(live) as show:
        for name, content in await asyncio.to_thread(samples):
            try:
                submitted = await _retry_while_unreachable(submit_local, store, settings, content, name=name)
            except FileRejected as error:
                summary.rejected[name] = str(error)
                continue
            summary.names[submitted.id], summary.states[submitted.id] = name, submitted.status
            show(summary.line())
        while True:
            current = await _retry_while_unreachable(lookup.states, store, summary.names)
            summary.states |= {id_: str(state["status"]) for id_, state in current.items()}
            show(summary.line())
            if all(status in lookup.ENDED for status in summary.states.values()):
                break
            await asyncio.sleep(EVERY)
    summary.seconds = time.monotonic() - summary.began
    summary.rows = [await _row(store, id_, name) for id_, name in summary.names.items()]
    summary.rows += [("rejected", name, "", "", "", why) for name, why in summary.rejected.items()]
    return summary


async def _retry_while_unreachable(question: Callable[..., Awaitable[Result]], *args: Any, **options: Any) -> Result:
    """Retries while the database does not answer: a short outage must not end the service."""
    while True:
        try:
            return await question(*args, **options)
        except (Unreachable, Busy):
            await asyncio.sleep(EVERY)


async def _row(store: Store, id_: str, name: str) -> tuple[str, ...]:
    document = await _retry_while_unreachable(lookup.get, store, id_)
    if document is None:
        return "deleted", name, "", "", "", ""
    fields: dict[str, Any] = document["fields"]
    values = {
        field: str(fields[field]["value"]) if field in fields else "" for field in ("vendor", "total", "currency")
    }
    error = document["error"] or {}
    why = str(error.get("message", "")) or "; ".join(
        str(reason.get("message", reason)) for reason in document["reasons"]
    )
    total = f"{values['total']} {values['currency']}".strip()
    return document["status"], name, document["type"] or "", values["vendor"], total, why


def _cut(text: str, width: int) -> str:
    shown = printable(text)
    return shown.ljust(width) if len(shown) <= width else f"{shown[: width - 1]}…"


@contextlib.contextmanager
def _show_status(live: bool) -> Iterator[Any]:
    """Updates a status line where a person watches; does nothing elsewhere."""
    if not live:
        yield lambda line: None
        return
    from rich.console import Console
    from rich.status import Status

    with Status("", console=Console(highlight=False)) as status:
        yield status.update
