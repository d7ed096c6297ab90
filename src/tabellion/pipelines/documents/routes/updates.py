"""News of documents: one look at the database for everybody who watches, and none when nobody does."""

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

logger = logging.getLogger("tabellion.web")
EVERY = 0.25  #: seconds between two looks
OVERLAP = 2.0  #: seconds that each look reaches back before the last: commits become visible a little late
BATCH = 200  #: documents asked for in one statement
MOST = 1000  #: news in one statement
PAGES = 20  #: statements in one look; the rest comes with the next
ENDED = ("completed", "failed", "duplicate")


@dataclass(frozen=True, slots=True)
class DocumentUpdate:
    """Where a document stands now."""

    id: str
    status: str
    pages: int | None
    done_pages: int | None
    version: int
    at: float = field(compare=False)  #: when it came to stand there: seconds since 1970, by the database's clock
    created: float = field(compare=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come, unless somebody asks for it."""
        return self.status in ENDED

    @property
    def mark(self) -> str:
        """What tells this state from others of the same document."""
        return f"{self.status}.{self.done_pages or 0}.{self.version}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON tells it."""
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
        """Takes what is new to it."""
        for news in rows:
            mine = self.id == news.id if self.id is not None else news.status == "processing" or news.at >= self.since
            if mine and self._known.get(news.id) != news:
                self._known[news.id] = news
                self._waiting.put_nowait(news)
        if len(self._known) > 4 * MOST:
            ended = [one for one, news in self._known.items() if news.ended]
            for one in ended[: len(self._known) - 2 * MOST]:
                del self._known[one]

    async def next(self, within: float) -> DocumentUpdate | None:
        """The next news; None when there was none for so many seconds."""
        try:
            async with asyncio.timeout(within):
                return await self._waiting.get()
        except TimeoutError:
            return None


class Updates:
    """Whoever watches the documents of one database."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        self._store = store
        self._every = every
        self._watches: set[UpdateSubscription] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watch(self, id: str | None = None, since: float | None = None) -> AsyncIterator[UpdateSubscription]:  # noqa: A002
        """A watch on one document, which begins with where it stands, or on all from a time on."""
        began = await self._store.now() if since is None and id is None else since or 0.0
        one = UpdateSubscription(id, began)
        self._watches.add(one)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield one
        finally:
            self._watches.discard(one)

    async def close(self) -> None:
        """Ends looking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _look_on(self) -> None:
        while self._watches:
            try:
                await self._look(list(self._watches))
            except StoreError as error:
                logger.warning("watching documents: %s", type(error).__name__)
            await asyncio.sleep(self._every)

    async def _look(self, watches: Sequence[UpdateSubscription]) -> None:
        ids = sorted({watch.id for watch in watches if watch.id is not None})
        rows: list[DocumentUpdate] = []
        for start in range(0, len(ids), BATCH):
            rows += await self._fetch(_id_condition(len(ids[start : start + BATCH])), *ids[start : start + BATCH])
        general = [watch for watch in watches if watch.id is None]
        if general:
            seen, until = await self._recent(min(watch.since for watch in general) - OVERLAP)
            for watch in general:
                watch.see(seen)
                watch.since = max(watch.since, until)
        for watch in watches:
            if watch.id is not None:
                watch.see(rows)

    async def _recent(self, since: float) -> tuple[list[DocumentUpdate], float]:
        """What was uploaded, is running or has ended since; and until when that is all there is."""
        now = await self._store.now()
        created = await self._since("created_at", since)
        running = await self._fetch(f"status = 'processing' LIMIT {MOST}")
        ended = await self._since("completed_at", since)
        latest = {news.id: news for news in [*created, *running, *ended]}
        cut_off = [rows[-1] for rows in (created, ended) if len(rows) >= MOST * PAGES]
        until = min([now, *(min(news.at, news.created) for news in cut_off)])
        return sorted(latest.values(), key=lambda news: (news.at, news.id)), until

    async def _since(self, column: str, since: float) -> list[DocumentUpdate]:
        """Those whose time in this column lies behind another, page by page: many may have the very same."""
        edge = "to_timestamp(CAST($1 AS double precision))" if self._store.dialect == "postgresql" else "$1"
        found: list[DocumentUpdate] = []
        after, values = f"{column} >= {edge}", [since]
        for _ in range(PAGES):
            rows = await self._fetch(f"{after} ORDER BY {column}, id LIMIT {MOST}", *values)
            found += rows
            if len(rows) < MOST:
                break
            after = f"({column}, id) > (SELECT d.{column}, d.id FROM tabellion_documents AS d WHERE d.id = $1)"
            values = [rows[-1].id]  # type: ignore[list-item]
        return found

    async def _fetch(self, where: str, *values: Any) -> list[DocumentUpdate]:
        d = self._store.dialect
        last = "coalesce(completed_at, started_at, created_at)"
        rows = await self._store.database.fetch(
            f"""SELECT id, status, pages, done_pages, version, {sql.epoch(last, d)} AS at,
  {sql.epoch("created_at", d)} AS created FROM tabellion_documents WHERE {where}""",
            *values,
        )
        return [
            DocumentUpdate(
                row["id"],
                row["status"],
                row["pages"],
                row["done_pages"],
                row["version"],
                float(row["at"]),
                float(row["created"]),
            )
            for row in rows
        ]


def _id_condition(count: int) -> str:
    return f"id IN ({', '.join(f'${place}' for place in range(1, count + 1))})"
