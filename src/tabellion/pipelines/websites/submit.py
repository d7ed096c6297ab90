"""Submits websites: one open job for each URL and type, and a limit for the backlog."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tabellion.engine import sql
from tabellion.engine.ids import new_id
from tabellion.engine.sql import NOW
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.websites import tables
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.states import INFO, OPEN, JobStatus
from tabellion.pipelines.websites.urls import complete_url, normalize_url

if TYPE_CHECKING:
    from tabellion.engine.store import Store

Reason = Literal["already_queued", "already_processing", "in_another_phase"]
WINDOW = 300.0  #: seconds of recent work from which the waiting time of a full backlog is estimated
PLACES = 10  #: that should be free when a refused caller comes back
SHORTEST_WAIT, LONGEST_WAIT = 5, 300  #: seconds
TRIES = 5  #: if the open job ends while we look at it


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job that has not ended."""

    id: str
    status: str
    in_progress: bool

    @property
    def reason(self) -> Reason:
        """Why a second one is refused."""
        if self.in_progress:
            return "already_processing"
        return "already_queued" if self.status == JobStatus.NOT_STARTED else "in_another_phase"


class AlreadyOpen(TabellionError):  # noqa: N818 - what happened
    """This website is being analysed already."""

    def __init__(self, job: OpenJob) -> None:
        self.job = job
        super().__init__(Message(f"website.{job.reason}", id=job.id, status=job.status))


class BacklogFull(TabellionError):  # noqa: N818 - what happened
    """As many jobs wait as may."""

    def __init__(self, limit: int, retry_after: int) -> None:
        self.limit, self.retry_after = limit, retry_after
        super().__init__(Message("website.backlog_full", n=limit, seconds=retry_after))


async def submit(
    store: Store, settings: WebsiteSettings, url: str, *, type: str | None = None,  # noqa: A002
    models: Sequence[str] = (), language: str = "en", by: str | None = None,
) -> str:  # fmt: skip
    """Adds a job and returns its id. Raises Blocked, UnknownName, AlreadyOpen or BacklogFull.

    One statement counts the backlog, up to its limit, and inserts the row; the unique index decides between two
    submissions at once.
    """
    kind = settings.get_type(type or settings.default_type)
    chosen = settings.choose_models(kind, models)
    normalized = normalize_url(url)
    waiting = sql.holds(INFO.states["ready"], store.dialect, "w")
    insert = f"""INSERT INTO {tables.JOBS} (id, url, normalized_url, type, models, language, submitted_by, created_at,
  updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, {NOW}, {NOW} WHERE
  (SELECT count(*) FROM (SELECT 1 FROM {tables.JOBS} AS w WHERE {waiting} LIMIT {int(settings.backlog)}) AS s)
  < {int(settings.backlog)}
ON CONFLICT (normalized_url, type) WHERE {_is_open()} DO NOTHING RETURNING id"""
    values = (new_id(), complete_url(url), normalized, kind.name, json.dumps(list(chosen)), language, by)
    for _ in range(TRIES):
        if rows := await store.database.fetch(insert, *values):
            await store.database.wake()
            return str(rows[0]["id"])
        if (found := await find_open(store, normalized, kind.name)) is not None:
            raise AlreadyOpen(found)
        if await _backlog(store, settings.backlog) >= settings.backlog:
            raise BacklogFull(settings.backlog, await _estimate_wait(store))
    raise BacklogFull(settings.backlog, SHORTEST_WAIT)


async def find_open(store: Store, normalized_url: str, type_name: str) -> OpenJob | None:
    """The open job of a website and type."""
    rows = await store.database.fetch(
        f"""SELECT id, status, "inProgress" FROM {tables.JOBS} WHERE normalized_url = $1 AND type = $2
  AND {_is_open()}""",
        normalized_url, type_name,
    )  # fmt: skip
    return OpenJob(rows[0]["id"], rows[0]["status"], bool(rows[0]["inProgress"])) if rows else None


async def _backlog(store: Store, cap: int) -> int:
    waiting = sql.holds(INFO.states["ready"], store.dialect, "w")
    rows = await store.database.fetch(
        f"SELECT count(*) AS n FROM (SELECT 1 FROM {tables.JOBS} AS w WHERE {waiting} LIMIT {int(cap)}) AS s"
    )
    return int(rows[0]["n"])


async def _estimate_wait(store: Store) -> int:
    """Seconds until some places are free, at the pace of the last minutes."""
    since = sql.later(str(-WINDOW), store.dialect)
    rows: list[Any] = await store.database.fetch(
        f"""SELECT count(*) AS n FROM (SELECT 1 FROM tabellion_attempts
  WHERE settled_at > {since} AND queue = '{INFO.queue}' AND outcome = 'done' LIMIT 10000) AS s"""
    )
    done = int(rows[0]["n"])
    wait = math.ceil(PLACES * WINDOW / done) if done else LONGEST_WAIT
    return min(max(wait, SHORTEST_WAIT), LONGEST_WAIT)


def _is_open() -> str:
    return f"status IN ({', '.join(repr(status.value) for status in OPEN)})"
