"""Updates of documents: one query for all watchers, and none while nobody watches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabellion.engine import sql
from tabellion.engine.store import Store
from tabellion.errors import StoreError
from tabellion.monitor.watching import PolledFeed
from tabellion.pipelines.documents.lookup import ENDED

logger = logging.getLogger("tabellion.web")
EVERY = 0.25  #: seconds between two queries
OVERLAP = 2.0  #: seconds by which queries overlap: commits become visible a little late
BATCH = 200  #: documents per statement
MOST = 1000  #: updates per statement
PAGES = 20  #: statements per look; the rest follow with the next


@dataclass(frozen=True, slots=True)
class DocumentUpdate:
    """The current state of a document."""

    id: str
    status: str
    pages: int | None
    done_pages: int | None
    version: int
    at: float = field(compare=False)  #: when it entered this state: seconds since 1970, by the database's clock
    created: float = field(compare=False)

    @property
    def ended(self) -> bool:
        """Whether no more updates will follow, unless it is read again."""
        return self.status in ENDED

    @property
    def mark(self) -> str:
        """A key that differs between states of the same document."""
        return f"{self.status}.{self.done_pages or 0}.{self.version}"

    def as_dict(self) -> dict[str, Any]:
        """The update as JSON."""
        return {
            "id": self.id, "status": self.status, "version": self.version,
            "progress": {"done": self.done_pages, "pages": self.pages},
        }  # fmt: skip


class UpdateSubscription:
    """One watcher: of one document, or of all."""

    def __init__(self, id: str | None, since: float) -> None:  # noqa: A002
        self.id = id
        self.since = since
        self._known: dict[str, DocumentUpdate] = {}
        self._waiting: asyncio.Queue[DocumentUpdate] = asyncio.Queue()

    def see(self, rows: Iterable[DocumentUpdate]) -> None:
        """Queues the updates that are new to this watcher."""
        for update in rows:
            mine = (
                self.id == update.id
                if self.id is not None
                else update.status == "processing" or update.at >= self.since
            )
            if mine and self._known.get(update.id) != update:
                self._known[update.id] = update
                self._waiting.put_nowait(update)
        if len(self._known) > 4 * MOST:
            ended = [id_ for id_, update in self._known.items() if update.ended]
            for id_ in ended[: len(self._known) - 2 * MOST]:
                del self._known[id_]

    async def next(self, within: float) -> DocumentUpdate | None:
        """The next update; None if there is none within so many seconds."""
        try:
            async with asyncio.timeout(within):
                return await self._waiting.get()
        except TimeoutError:
            return None


class Updates(PolledFeed):
    """The watchers of the documents of one database."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        super().__init__(every)
        self._store = store
        self._watches: set[UpdateSubscription] = set()

    @contextlib.asynccontextmanager
    async def watch(self, id: str | None = None, since: float | None = None) -> AsyncIterator[UpdateSubscription]:  # noqa: A002
        """Watches one document, starting with its current state, or all from a time on."""
        began = await self._store.now() if since is None and id is None else since or 0.0
        subscription = UpdateSubscription(id, began)
        self._watches.add(subscription)
        try:
            async with self.poll():
                yield subscription
        finally:
            self._watches.discard(subscription)

    async def _look(self) -> None:
        try:
            await self._inform(list(self._watches))
        except StoreError as error:
            logger.warning("watching documents: %s", type(error).__name__)

    async def _inform(self, watches: Sequence[UpdateSubscription]) -> None:
        ids = sorted({watch.id for watch in watches if watch.id is not None})
        rows: list[DocumentUpdate] = []
        for start in range(0, len(ids), BATCH):
            rows += await self._fetch(_id_condition(len(ids[start : start + BATCH])), *ids[start : start + BATCH])
        general = [watch for watch in watches if watch.id is None]
        if general:
            recent, until = await self._recent(min(watch.since for watch in general) - OVERLAP)
            for watch in general:
                watch.see(recent)
                watch.since = max(watch.since, until)
        for watch in watches:
            if watch.id is not None:
                watch.see(rows)

    async def _recent(self, since: float) -> tuple[list[DocumentUpdate], float]:
        """Documents uploaded, running or ended since; and the time until which they are complete."""
        now = await self._store.now()
        created = await self._since("created_at", since)
        running = await self._fetch(f"status = 'processing' LIMIT {MOST}")
        ended = await self._since("completed_at", since)
        latest = {update.id: update for update in [*created, *running, *ended]}
        cut_off = [rows[-1] for rows in (created, ended) if len(rows) >= MOST * PAGES]
        until = min([now, *(min(update.at, update.created) for update in cut_off)])
        return sorted(latest.values(), key=lambda update: (update.at, update.id)), until

    async def _since(self, column: str, since: float) -> list[DocumentUpdate]:
        """Documents whose time in this column is later, page by page: many may have the same time."""
        edge = sql.moment("$1", self._store.dialect)
        found: list[DocumentUpdate] = []
        after = f"{column} >= {edge}"
        values: list[float | str] = [since]
        for _ in range(PAGES):
            rows = await self._fetch(f"{after} ORDER BY {column}, id LIMIT {MOST}", *values)
            found += rows
            if len(rows) < MOST:
                break
            last = rows[-1]  # its values, not its row: that may be deleted or read again meanwhile
            after = f"({column}, id) > ({edge}, $2)"
            values = [last.created if column == "created_at" else last.at, last.id]
        return found

    async def _fetch(self, where: str, *values: Any) -> list[DocumentUpdate]:
        d = self._store.dialect
        last = "coalesce(completed_at, started_at, created_at)"
        rows = await self._store.database.fetch(
            f"""SELECT id, status, pages, done_pages, version, {sql.epoch(last, d)} AS at,
  {sql.epoch("created_at", d)} AS created FROM tabellion_documents WHERE {where}""",
            *values,
        )
        return [DocumentUpdate(**row) for row in rows]


def _id_condition(count: int) -> str:
    return f"id IN ({', '.join(f'${place}' for place in range(1, count + 1))})"
