"""What people do with a job: retry it where it failed or from the start, or cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabellion.engine import controls
from tabellion.errors import StoreError, TabellionError
from tabellion.messages import Message
from tabellion.pipelines.websites import lookup, states, tables
from tabellion.pipelines.websites.queues import models_queue, phase_queue
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.states import ENDED, PHASES, JobStatus
from tabellion.pipelines.websites.submit import AlreadyOpen, find_open

if TYPE_CHECKING:
    from tabellion.engine.store import Store

TRIES = 5  #: if a job moves to its next phase while it is being cancelled


class WrongState(TabellionError):  # noqa: N818 - what it is
    """The job is not in a state for this."""


async def retry(store: Store, settings: WebsiteSettings, id_: str, *, from_start: bool = False) -> None:
    """Puts a failed job back into the phase that failed, or into the first; all its counters start again.

    Raises WrongState for a job that has not failed, AlreadyOpen if its website has another open job.
    """
    row = await lookup.get_row(store, id_)
    if row is None or row["status"] != JobStatus.FAILED:
        raise WrongState(Message("website.not_failed"))
    failed = next((place for place in range(len(PHASES)) if lookup.state_of(row, place) == "failed"), 0)
    phase = PHASES[failed]
    try:
        if phase is states.ANALYSIS and not from_start:
            children = await store.database.fetch(
                f"SELECT id FROM {tables.ANALYSES} WHERE job_id = $1 AND status = 'failed'", id_
            )
            await controls.restart(store, models_queue(settings), [child["id"] for child in children])
        moved = await controls.restart(store, phase_queue(settings, phase), [id_])
        if from_start and phase is not states.INFO and moved:
            await _move_to_start(store, id_, phase)
    except StoreError as error:
        if error.rule != "unique":
            raise
        found = await find_open(store, row["normalized_url"], row["type"])
        if found is None:
            raise
        raise AlreadyOpen(found) from None
    if not moved:
        raise WrongState(Message("website.not_failed"))


async def _move_to_start(store: Store, id_: str, phase: states.WebsitePhase) -> None:
    """Moves a job that waits for a later phase back to its first one, unless a worker has just taken it."""
    await store.database.fetch(
        f"""UPDATE {tables.JOBS} SET status = '{JobStatus.NOT_STARTED}'
WHERE id = $1 AND status = '{phase.status}' AND "inProgress" = FALSE""",
        id_,
    )
    await store.database.wake()


async def cancel(store: Store, settings: WebsiteSettings, id_: str, by: str = "") -> None:
    """Stops a job wherever it is: it fails with this as its reason, and its worker stops. Raises WrongState."""
    for _ in range(TRIES):
        row = await lookup.get_row(store, id_)
        if row is None or row["status"] in ENDED:
            raise WrongState(Message("website.ended"))
        phase = next(phase for phase in PHASES if phase.status == row["status"])
        if await controls.cancel(store, phase_queue(settings, phase), id_, "cancelled", by):
            children = await store.database.fetch(
                f"SELECT id FROM {tables.ANALYSES} WHERE job_id = $1 AND status IN ('ready', 'running')", id_
            )
            for child in children:
                await controls.cancel(store, models_queue(settings), child["id"], "cancelled", by)
            return
    raise WrongState(Message("website.moving"))
