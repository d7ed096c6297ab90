"""`tabellion gates`: shows, changes and resets the gates of models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, cast

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, load_pipelines, present
from tabellion.cli.options import Json
from tabellion.engine.gates import row as gate_row
from tabellion.engine.gates.state import GateEdits, GateSettings, GateState
from tabellion.errors import ConfigurationError, NotMigrated
from tabellion.installed_pipelines import gates_of
from tabellion.monitor.gates import GateReport, picture


def gates(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The gate to show or to change.", metavar="GATE")] = None,
    rate: Annotated[float | None, typer.Option(help="Set the rate in calls per second; it adapts from there.")] = None,
    min_rate: Annotated[float | None, typer.Option(help="Minimum rate.")] = None,
    max_rate: Annotated[float | None, typer.Option(help="Maximum rate.")] = None,
    budget: Annotated[float | None, typer.Option(help="Dollars per day (UTC).")] = None,
    profile: Annotated[str | None, typer.Option(help="adaptive or classic.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Close the circuit breaker.")] = False,
    json: Json = False,
) -> None:
    """Show every gate, or change one in all workers at once.

    Examples:

        tabellion gates

        tabellion gates gemini --rate 10 --max-rate 50

        tabellion gates gemini --budget 25

        tabellion gates gemini --reset
    """
    options = {"rate": rate, "min_rate": min_rate, "max_rate": max_rate, "budget": budget, "profile": profile}
    changes = cast("GateEdits", {key: value for key, value in options.items() if value is not None})
    if (changes or reset) and name is None:
        raise typer.BadParameter("name the gate: tabellion gates GATE --rate 10")
    config = config_of(context)
    pictures = asyncio.run(_run(config, gates_of(config, load_pipelines(context, config)), name, changes, reset))
    if json:
        output.as_json(pictures)
    elif not pictures:
        typer.echo("no gates yet: a gate appears when a model is called or the configuration names it")
    else:
        headings = ("gate", "state", "rate", "calls", "429s", "failures", "spent today")
        rows = [
            (
                gate["gate"],
                gate["state"],
                f"{gate['rate']:.2f}/s",
                gate["calls"],
                gate["throttled"],
                gate["failed"],
                _money(gate),
            )
            for gate in pictures
        ]
        output.show(output.table("", headings, rows))
        for gate in pictures:
            if gate["reason"]:
                typer.echo(f"{gate['gate']}: {gate['reason']} (in {output.duration(gate['reopens_in'])})")


def _money(gate: GateReport) -> str:
    spent = f"${gate['spent']:,.2f}"
    return spent if gate["budget"] is None else f"{spent} of ${gate['budget']:,.2f}"


async def _run(
    config: Any, settings: Mapping[str, GateSettings], name: str | None, changes: GateEdits, reset: bool
) -> list[GateReport]:
    async with present(config.gates_at).connect(read_only=not (changes or reset)) as store:
        known = await _load_gates(store, settings)
        if name is not None and name not in known:
            hint = f"known: {', '.join(map(repr, known))}" if known else "there are no gates yet"
            raise ConfigurationError(f"unknown gate {name!r}; {hint}")
        if name is not None and (changes or reset):
            row = gate_row.GateRow(store, name, settings.get(name, GateSettings()))
            await row.edit(changes, reset=reset)
            known = await _load_gates(store, settings)
        return [picture(gate, state, now) for gate, (state, now) in known.items() if name in (None, gate)]


async def _load_gates(store: Any, settings: Any) -> dict[str, Any]:
    """Every gate with its state; without a register, the configured ones in their initial state."""
    try:
        return await gate_row.gates(store, settings)
    except NotMigrated:
        now = await store.now()
        return {name: (GateState.load(gate_settings, None), now) for name, gate_settings in sorted(settings.items())}
