"""`tabellion fake-model`: a model server for tests, demos and load, with no key and no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tabellion.models.fake.address import ServerAddress

PORT = 8178


def fake_model(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = PORT,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    rate: Annotated[float | None, typer.Option(help="Requests per second; above that, answer 429.")] = None,
    latency: Annotated[
        str | None, typer.Option(help="Delay before each answer in seconds: 3, 0.5-2, or exp:1.5 (exponential).")
    ] = None,
    knobs: Annotated[str, typer.Option(help="Faults injected into every request, e.g. 503=0.1,truncate=5%.")] = "",
    seed: Annotated[int, typer.Option(help="Seed for random failures and delays.")] = 0,
    log: Annotated[Path | None, typer.Option(help="A file that gets one JSON line per request.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Run a fake model server that speaks the Gemini and OpenAI protocols.

    It prints one line that a shell can evaluate, and serves until Ctrl-C. A model's name, the header x-fake or
    --knobs make it misbehave: gemini-2.5-flash@429, gpt-4o-mini@latency=0.5,truncate.

    Examples:

        tabellion fake-model

        tabellion fake-model --port 0 --rate 20 --latency 0.5-2 --log requests.jsonl

        curl -X PUT localhost:8178/fake -d '{"rate": 5, "knobs": "503=0.1"}'
    """
    from tabellion import extras

    with extras.explain_missing("fake"):
        from tabellion.models.fake.server import Options, run

    def print_address(address: ServerAddress, _: object) -> None:
        from json import dumps

        typer.echo(dumps(address.as_json()) if json else address.line)

    run(Options(port, host, rate, latency, knobs, seed, str(log) if log else None), print_address)
