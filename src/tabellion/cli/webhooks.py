"""`tabellion webhooks`: the webhook endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, with_option
from tabellion.cli.options import Json, Place, group
from tabellion.cli.pipeline_tables import run_on_service
from tabellion.delivery import endpoints
from tabellion.delivery.deliveries import STATES
from tabellion.installed_pipelines import known_events
from tabellion.messages import Message
from tabellion.net import guard

if TYPE_CHECKING:
    from tabellion.engine.store import Store

webhooks = group(
    help="Add, list and change webhook endpoints. Each command has --json.",
    epilog="Examples: `tabellion webhooks add https://erp.example.com/hook` · `tabellion webhooks list --json` · "
    "`tabellion webhooks rotate we_12ab`",
)

EndpointId = Annotated[str, typer.Argument(help="The endpoint's id.", metavar="ID")]


@webhooks.command("add")
def add(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="The URL that receives the events.", metavar="URL")],
    event: Annotated[
        list[str] | None,
        typer.Option(help="Only this event; may be repeated. `none`: only what names this endpoint. [default: all]"),
    ] = None,
    environment: Place = None,
    json: Json = False,
) -> None:
    """Add an endpoint and print its secret once.

    Examples:

        tabellion webhooks add https://erp.example.com/hook

        tabellion webhooks add https://erp.example.com/hook --event document.failed
    """
    rules = guard.Rules.of(config_of(context).allow)

    events = tuple(event) if event else (endpoints.EVERYTHING,)

    async def add_endpoint(store: Store, _: str) -> endpoints.Endpoint:
        try:
            await guard.vet_url(url, rules)  # reject now an address that no delivery could be sent to
        except guard.Blocked as error:
            if error.reason != Message("net.not_public"):
                raise
            raise guard.Blocked(f"{error.reason} (server.allow opens your own networks)") from error
        return await endpoints.add(store, url, () if events == ("none",) else events, known=known_events())

    endpoint = run_on_service(context, environment, add_endpoint)
    facts = {"id": endpoint.id, "url": endpoint.url, "events": list(endpoint.events), "secret": endpoint.secret}
    output.print_result(json, facts, f"added {endpoint.id}: {endpoint.url}\nsecret (shown once): {endpoint.secret}")


@webhooks.command("list")
def show(context: typer.Context, environment: Place = None, json: Json = False) -> None:
    """List endpoints with the state of their deliveries.

    Example:

        tabellion webhooks list
    """
    listed = run_on_service(context, environment, lambda store, _: endpoints.list_endpoints(store))
    if json:
        output.as_json(listed)
    elif not listed:
        typer.echo("no endpoints yet: add one with `tabellion webhooks add URL`")
    else:
        headings = ("endpoint", "url", "events", "deliveries")
        rows = [
            (endpoint["id"], endpoint["url"], ", ".join(endpoint["events"]) or "none", _deliveries(endpoint))
            for endpoint in listed
        ]
        output.show(output.table("", headings, rows, whole=("endpoint",)))


def _deliveries(endpoint: Mapping[str, Any]) -> str:
    """How many there are in each state that has some, and why no more are sent."""
    counts = [f"{endpoint[state]} {state}" for state in STATES if endpoint[state]]
    disabled = f"; disabled: {endpoint['disabled_why']}" if endpoint["disabled_why"] else ""
    return (", ".join(counts) or "none") + disabled


@webhooks.command("rotate")
def rotate(context: typer.Context, id: EndpointId, environment: Place = None, json: Json = False) -> None:  # noqa: A002
    """Replace an endpoint's secret; the old one also signs for one more day.

    Example:

        tabellion webhooks rotate we_12ab
    """
    secret = run_on_service(context, environment, lambda store, _: endpoints.rotate(store, id))
    output.print_result(json, {"id": id, "secret": secret}, f"new secret of {id} (shown once): {secret}")


@webhooks.command("disable")
def disable(
    context: typer.Context,
    id: EndpointId,  # noqa: A002
    reason: Annotated[str, typer.Option(help="Reason, shown in the list and in delivery errors.")] = "disabled by hand",
    environment: Place = None,
    json: Json = False,
) -> None:
    """Stop sending to an endpoint.

    Example:

        tabellion webhooks disable we_12ab --reason "moves on Monday"
    """
    run_on_service(context, environment, lambda store, _: endpoints.disable(store, id, reason))
    output.print_result(
        json, {"id": id, "disabled": reason}, f"{id} is disabled; `tabellion webhooks enable {id}` enables it again"
    )


@webhooks.command("enable")
def enable(context: typer.Context, id: EndpointId, environment: Place = None, json: Json = False) -> None:  # noqa: A002
    """Enable a disabled endpoint.

    Example:

        tabellion webhooks enable we_12ab && tabellion retry webhooks --error "is disabled"
    """
    run_on_service(context, environment, lambda store, _: endpoints.enable(store, id))
    retry = f"tabellion retry webhooks --all{with_option(context, config_of(context))}"
    output.print_result(
        json, {"id": id, "disabled": None}, f"{id} is enabled; `{retry}` sends its failed deliveries again"
    )


@webhooks.command("remove")
def remove(context: typer.Context, id: EndpointId, environment: Place = None, json: Json = False) -> None:  # noqa: A002
    """Delete an endpoint and its pending deliveries.

    Example:

        tabellion webhooks remove we_12ab
    """
    run_on_service(context, environment, lambda store, _: endpoints.remove(store, id))
    output.print_result(json, {"id": id, "removed": True}, f"{id} removed")
