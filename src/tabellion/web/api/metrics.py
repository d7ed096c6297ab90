"""/api/metrics: everything that is measured, for Prometheus."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.monitor.metrics.metric import Sample
from tabellion.web.auth import LOCAL
from tabellion.web.environment import ServedEnvironment
from tabellion.web.routing import Guarded

router = APIRouter(route_class=Guarded, tags=["monitor"])
TEXT = {"schema": {"type": "string"}}
FORMATS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": TEXT, "application/openmetrics-text": TEXT}, "description": "The metrics."}
}


@router.get("/api/metrics", responses=FORMATS, response_class=Response, summary="Get the metrics")
async def metrics(request: Request) -> Response:
    """Queues, workers, gates, spend, review and pipelines, in the text format of Prometheus.

    A key reads its own environment. While a database does not answer, `tabellion_database_up` is 0.
    """
    state = request.app.state
    is_everything = request.state.holder.id == LOCAL
    served: dict[str, ServedEnvironment] = state.auth.environments
    environments = list(served.values()) if is_everything else [request.state.environment]
    names = {environment.name for environment in environments}
    samples: list[Sample] = [sample for sample in state.process_samples() if _is_of(sample, names)]
    for read in await asyncio.gather(*(environment.scrape.samples() for environment in environments)):
        samples += read
    body, media = state.exposition.write(samples, request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": media})


def _is_of(sample: Sample, environments: set[str]) -> bool:
    """Whether a sample of this process is about these environments, or about none."""
    return sample.labels.get("environment") in (*environments, "", None)
