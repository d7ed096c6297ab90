"""/api/webhooks: the webhook endpoints."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.delivery import endpoints
from tabellion.installed_pipelines import known_events
from tabellion.messages import Message
from tabellion.net import guard
from tabellion.web.answers import answer
from tabellion.web.environment import ServedEnvironment
from tabellion.web.openapi import body_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, parse_body

router = APIRouter(route_class=Guarded, tags=["webhooks"])


class EndpointRequest(Strict):
    """A new webhook endpoint."""

    url: str = Field(min_length=1, max_length=2048, description="The URL to send to; http or https, public.")
    events: list[str] = Field(
        default=[endpoints.EVERYTHING], max_length=10,
        description=f"Of {', '.join(known_events())}; `*` is all, none is only what names the endpoint.",
    )  # fmt: skip


class EndpointResponse(endpoints.ListedEndpoint):
    """A webhook endpoint, without its secret."""


class Endpoints(Answer):
    """All webhook endpoints."""

    webhooks: list[EndpointResponse]


class NewEndpoint(Answer):
    """A new webhook endpoint, with its secret, which is shown only once."""

    id: str
    url: str
    events: list[str]
    secret: str


@router.get("/api/webhooks", response_model=Endpoints, summary="List webhook endpoints")
async def list_webhooks(request: Request) -> Response:
    """Every endpoint without its secret, with the state of its deliveries."""
    environment: ServedEnvironment = request.state.environment
    await endpoints.SCHEMA.prepare(environment.store)
    return answer(Endpoints(webhooks=await endpoints.list_endpoints(environment.store)))


@router.post(
    "/api/webhooks", status_code=201, response_model=NewEndpoint, openapi_extra=body_of(EndpointRequest),
    summary="Add a webhook endpoint",
)  # fmt: skip
async def add(request: Request) -> Response:
    """Adds an endpoint. The response contains its secret, which is shown only once."""
    environment: ServedEnvironment = request.state.environment
    requested = await parse_body(request, EndpointRequest, request.app.state.limits)
    known = [*known_events(), endpoints.EVERYTHING]
    for index, event in enumerate(requested.events):
        if event not in known:
            raise Problem(422, "value_invalid", Message("problem.event"), field=f"/events/{index}",
                          expected=Message("expected.one_of", names=known))  # fmt: skip
    try:
        await guard.vet_url(requested.url, request.app.state.rules)
    except guard.Blocked as error:
        raise Problem(422, "url_blocked", str(error), field="/url", reason=error.reason,
                      fix=Message("fix.public_url")) from None  # fmt: skip
    except guard.HostUnreachable as error:
        raise Problem(422, "url_failed", str(error), field="/url",
                      fix=Message("fix.check_host")) from None  # fmt: skip
    await endpoints.SCHEMA.prepare(environment.store)
    endpoint = await endpoints.add(environment.store, requested.url, requested.events)
    return answer(
        NewEndpoint(id=endpoint.id, url=endpoint.url, events=list(endpoint.events), secret=endpoint.secret), 201
    )


@router.delete("/api/webhooks/{id}", status_code=204, summary="Remove a webhook endpoint")
async def remove(request: Request, id: str) -> Response:  # noqa: A002
    """Removes an endpoint and its pending deliveries."""
    environment: ServedEnvironment = request.state.environment
    await endpoints.SCHEMA.prepare(environment.store)
    try:
        await endpoints.remove(environment.store, id)
    except endpoints.EndpointError:
        raise Problem(404, "not_found", Message("problem.no_such_endpoint"), field="id") from None
    return Response(status_code=204)
