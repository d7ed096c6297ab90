"""/api/queues: the queues and their rows; pause, resume, retry and release."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from tabellion.accounts import audit
from tabellion.answers import Answer, Doc
from tabellion.engine import controls
from tabellion.engine.queue import Queue
from tabellion.engine.recovery import releasing
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.primary_key import can_be_key
from tabellion.errors import DeclarationError
from tabellion.messages import Message
from tabellion.monitor import failures
from tabellion.monitor import rows as listing
from tabellion.monitor.failures import ErrorGroups
from tabellion.monitor.fingerprint import DIGITS
from tabellion.monitor.overview import QueuePicture
from tabellion.monitor.rows import QueueRow
from tabellion.monitor.view import QueueView
from tabellion.web import cursors
from tabellion.web.answers import answer
from tabellion.web.environment import ServedEnvironment
from tabellion.web.openapi import body_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, Whole, parse_body

router = APIRouter(route_class=Guarded, tags=["monitor"])
logger = logging.getLogger("tabellion.web")
QueueInPath = Annotated[str, Path(min_length=1, max_length=200, description="The queue's name.")]
RowKey = Annotated[str, Field(min_length=1, max_length=200)]


class Pause(Strict):
    """Why a queue is paused."""

    reason: str = Field(default="", max_length=500, description="Shown to everyone who looks at the queue.")


class Retry(Strict):
    """Which failed rows are to be tried again: those of one fingerprint, or those of these keys."""

    fingerprint: str | None = Field(default=None, pattern=f"^[0-9a-f]{{{DIGITS}}}$")
    keys: list[RowKey] | None = Field(default=None, min_length=1, max_length=1000)


class Release(Strict):
    """Which running rows are to be put back to ready: these keys, or all that no live worker holds."""

    keys: list[RowKey] | None = Field(default=None, min_length=1, max_length=200)
    orphans: bool = Field(default=False, description="Every running row that no live worker holds.")
    force: bool = Field(
        default=False,
        description="With keys: also rows that a live worker holds; its claim ends, its result is rejected.",
    )


class Queues(Answer):
    """Every queue of the environment."""

    at: str
    queues: list[QueuePicture]


class QueueRows(Answer):
    """One page of the rows of a state."""

    rows: list[QueueRow]
    next: Annotated[str | None, Doc("The cursor of the next page; null: this is the last page.")]


class Retried(Answer):
    """How many rows are ready again."""

    queue: str
    retried: int


class UnreleasedRow(Answer):
    """A row that was named and not released."""

    key: str
    reason: Annotated[
        releasing.UnreleasedReason,
        Doc("`held`: by a live worker; `parked`: retry it; `rejected`: the table refuses `ready`."),
    ]
    worker: Annotated[str | None, Doc("Who holds it.")]
    note: Annotated[str | None, Doc("What its handler said last.")]


class RowsReleased(Answer):
    """The rows that are ready again, and those that are not."""

    queue: str
    released: Annotated[list[str], Doc("Their keys.")]
    kept: list[UnreleasedRow]


class Paused(Answer):
    """Whether a queue can be claimed from."""

    queue: str
    paused: bool
    reason: str | None


@router.get("/api/queues", response_model=Queues, summary="List queues")
async def queues(request: Request) -> Response:
    """Every queue with its counts, the age of its oldest row and its recent throughput."""
    environment: ServedEnvironment = request.state.environment
    picture = await environment.monitor.picture()
    return answer(Queues(at=picture["at"], queues=picture["queues"]))


@router.get("/api/queues/{name}", response_model=QueuePicture, summary="Get a queue")
async def show(request: Request, name: QueueInPath) -> Response:
    """One queue with its counts and recent throughput."""
    environment: ServedEnvironment = request.state.environment
    view = get_queue_view(environment, name)
    picture = await environment.monitor.picture()
    return answer(next(item for item in picture["queues"] if item["name"] == view.name))


@router.get("/api/queues/{name}/rows", response_model=QueueRows, summary="List the rows of a state")
async def rows(
    request: Request,
    name: QueueInPath,
    state: Annotated[listing.RowPlace, Query(description="`waiting`: ready but not due yet.")] = "ready",
    cursor: Annotated[str | None, Query(description="The `next` value of the previous page.")] = None,
    limit: Annotated[Whole, Query(ge=1, le=200, description="Rows per page.")] = 50,
) -> Response:
    """Rows with their register entries: in queue order, or with the last key first."""
    environment, queue = _find_queue(request, name)
    await _bind_queue(environment, queue)
    question = {"queue": name, "state": state}
    key = await cursors.signing_key(request)
    after = cursors.place(key, environment.name, question, cursor) if cursor is not None else None
    try:
        page, following = await listing.rows(environment.store, get_queue_view(environment, name), state, after, limit)
    except listing.RowGone:
        raise Problem(
            422, "cursor_invalid", Message("problem.row_gone"), field="cursor",
            expected=Message("expected.cursor_of_rows"), fix=Message("fix.no_cursor"),
        ) from None  # fmt: skip
    next_cursor = cursors.make_cursor(key, environment.name, question, following) if following is not None else None
    return answer(QueueRows(rows=page, next=next_cursor))


@router.get("/api/queues/{name}/errors", response_model=ErrorGroups, summary="Group failed rows by error")
async def errors(request: Request, name: QueueInPath) -> Response:
    """One group per fingerprint: the error without what differs between rows, such as ids, numbers and paths."""
    environment, queue = _find_queue(request, name)
    await _bind_queue(environment, queue)
    return answer(await failures.groups(environment.store, queue))


@router.post(
    "/api/queues/{name}/pause", response_model=Paused, openapi_extra=body_of(Pause, required=False),
    summary="Pause a queue",
)  # fmt: skip
async def pause(request: Request, name: QueueInPath) -> Response:
    """Workers stop claiming from the queue; running jobs continue."""
    environment, queue = _find_queue(request, name)
    options = await parse_body(request, Pause, request.app.state.limits, empty=True)
    await controls.pause(environment.store, queue, options.reason)
    await _record(request, "paused", queue, reason=options.reason)
    return answer(Paused(queue=queue.name, paused=True, reason=options.reason or None))


@router.post("/api/queues/{name}/resume", response_model=Paused, summary="Resume a queue")
async def resume(request: Request, name: QueueInPath) -> Response:
    """Workers claim from the queue again."""
    environment, queue = _find_queue(request, name)
    await controls.resume(environment.store, queue)
    await _record(request, "resumed", queue)
    return answer(Paused(queue=queue.name, paused=False, reason=None))


@router.post("/api/queues/{name}/retry", response_model=Retried, openapi_extra=body_of(Retry), summary="Retry rows")
async def retry(request: Request, name: QueueInPath) -> Response:
    """Makes failed rows ready again, with all counters reset; the response says how many."""
    environment, queue = _find_queue(request, name)
    selection = await parse_body(request, Retry, request.app.state.limits)
    if (selection.fingerprint is None) == (selection.keys is None):
        raise Problem(422, "value_invalid", Message("problem.rows_unnamed"), field="/fingerprint",
                      expected=Message("expected.fingerprint_or_keys"), fix=Message("fix.one_of_two"))  # fmt: skip
    bound = await _bind_queue(environment, queue)
    if selection.fingerprint is not None:
        count = await failures.retry(environment.store, queue, selection.fingerprint)
    else:
        _check_keys(bound, selection.keys or [])
        count = await controls.restart(environment.store, queue, selection.keys)
    await _record(request, "retried", queue, rows=count, fingerprint=selection.fingerprint, keys=selection.keys)
    return answer(Retried(queue=queue.name, retried=count))


@router.post(
    "/api/queues/{name}/release", response_model=RowsReleased, openapi_extra=body_of(Release), summary="Release rows"
)
async def release(request: Request, name: QueueInPath) -> Response:
    """Puts rows that are running without a live claim back to ready; the attempt does not count."""
    environment, queue = _find_queue(request, name)
    selection = await parse_body(request, Release, request.app.state.limits)
    if (selection.keys is None) == (not selection.orphans):
        raise Problem(422, "value_invalid", Message("problem.release_unnamed"), field="/keys",
                      expected=Message("expected.keys_or_orphans"), fix=Message("fix.one_of_two"))  # fmt: skip
    if selection.force and selection.orphans:
        raise Problem(422, "value_invalid", Message("problem.release_force"), field="/force",
                      expected=Message("expected.force_with_keys"), fix=Message("fix.send_keys"))  # fmt: skip
    bound, by = await _bind_queue(environment, queue), request.state.holder.actor
    if selection.keys is None:
        outcome = await releasing.release_orphans(environment.store, queue, by=by)
    else:
        _check_keys(bound, selection.keys)
        outcome = await releasing.release_rows(environment.store, queue, selection.keys, force=selection.force, by=by)
    named = None if selection.keys is None else outcome.released  # orphans may be too many to list
    await _record(
        request, "rows_released", queue, rows=len(outcome.released), keys=named, force=selection.force or None
    )
    kept: list[UnreleasedRow] = [
        {"key": row.key, "reason": row.reason, "worker": row.worker, "note": row.note} for row in outcome.kept
    ]
    return answer(RowsReleased(queue=queue.name, released=outcome.released, kept=kept))


def get_queue_view(environment: ServedEnvironment, name: str) -> QueueView:
    """The queue of this name; raises a Problem if it is unknown."""
    for view in environment.monitor.overview.views:
        if view.name == name:
            return view
    raise Problem(404, "not_found", Message("problem.no_such_queue"), field="name", fix=Message("fix.list_queues"))


def _find_queue(request: Request, name: str) -> tuple[ServedEnvironment, Queue]:
    environment: ServedEnvironment = request.state.environment
    return environment, get_queue_view(environment, name).queue


async def _bind_queue(environment: ServedEnvironment, queue: Queue) -> Bound:
    try:
        return await environment.store.bind(queue)
    except DeclarationError as error:
        detail = Message("problem.declaration", text="; ".join(problem.what for problem in error.problems))
        raise Problem(409, "queue_unusable", detail, fix=Message("fix.declaration")) from None


def _check_keys(bound: Bound, keys: list[str]) -> None:
    """Rejects keys of the wrong type."""
    for index, key in enumerate(keys):
        if not can_be_key(bound.key, key):
            raise Problem(422, "value_invalid", Message("problem.key_invalid"), field=f"/keys/{index}",
                          expected=Message("expected.key", type=bound.key.type))  # fmt: skip


async def _record(request: Request, action: str, queue: Queue, *, reason: str = "", **facts: Any) -> None:
    """Records the action in the audit log, and refreshes the overview."""
    environment: ServedEnvironment = request.state.environment
    details = {name: value for name, value in facts.items() if value is not None}
    entry = audit.AuditEntry(
        action, request.state.holder.actor, reason=reason or None, more={"queue": queue.name, **details}
    )
    await environment.store.database.transact([audit.bind_entry(environment.store.dialect, entry)])
    logger.info("%s: %s %s", request.state.holder.actor, action, queue.name)
    environment.monitor.forget(queue.name)
