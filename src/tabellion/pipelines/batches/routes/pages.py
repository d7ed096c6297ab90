"""/batches: the list, and one batch with its chunks, errors and gate."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.pipelines.batches import states
from tabellion.pipelines.batches.routes.batches import find_batch
from tabellion.pipelines.batches.served import served_batches
from tabellion.web.environment import ServedEnvironment
from tabellion.web.pages.page import PageRoute, page

router = APIRouter(route_class=PageRoute)
#: One line of a file, as the form shows it.
EXAMPLE = (
    '{"pi": "pi1", "current_tip": "bafy…", "refs": '
    '[{"filename": "1.jpg.ref.json", "staging_key": "refs/1.jpg.ref.json", "cdn_url": "https://…/asset/1"}]}'
)
#: The queues that a batch passes through, in this order, and the one that delivers its callbacks.
QUEUES = (
    states.FETCHING_QUEUE, states.REFS_QUEUE, states.PUBLISHING_QUEUE, states.REPORTS_QUEUE, states.COMPLETION_QUEUE,
    states.WEBHOOKS_QUEUE,
)  # fmt: skip


@router.get("/batches", response_class=Response)
async def show_list(request: Request) -> Response:
    """The list; its script keeps it up to date."""
    settings = served_batches(request).settings
    return page(
        request, "batches.html", also=("batch", "dashboard"), spoken=True, example=EXAMPLE,
        chunk_size=settings.chunk_size,
    )  # fmt: skip


@router.get("/batches/{batch_id}", response_class=Response)
async def show_batch(request: Request, batch_id: str) -> Response:
    """One batch: its script keeps progress, chunks, errors and the gate up to date."""
    served = served_batches(request)
    batch = await find_batch(served, batch_id)
    return page(
        request, "batch.html", also=("batches", "dashboard"), spoken=True, batch=batch,
        phases=["", *(phase.value for phase in states.ChunkPhase)],
        data={"id": batch["id"], "gate": served.settings.gate, "queues": _queues(request), "batch": batch},
    )  # fmt: skip


def _queues(request: Request) -> list[str]:
    """The names of the queues that this environment has."""
    environment: ServedEnvironment = request.state.environment
    known = {view.name for view in environment.monitor.overview.views}
    return [name for name in QUEUES if name in known]
