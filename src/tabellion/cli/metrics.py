"""`tabellion metrics`: the figures of databases for Prometheus, where no `tabellion up` serves them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tabellion.cli.load import config_of, find_environment, pipelines_of, present, queues_of
from tabellion.engine.log import log_to_stderr
from tabellion.installed_pipelines import gates_of
from tabellion.monitor.metrics.database_metrics import DatabaseReader
from tabellion.monitor.metrics.exposition import Exposition, require_client
from tabellion.monitor.metrics.metric import Sample
from tabellion.monitor.metrics.scraping import EnvironmentScrape
from tabellion.monitor.overview import Overview
from tabellion.monitor.overview_feed import OverviewFeed
from tabellion.sla import targets_of, views_of

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.pipeline import Pipeline

LONGEST = 10.0  #: seconds for one scrape


def metrics(
    context: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="Serve them here. [default: print them once]")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to serve them on, without a key.")] = "127.0.0.1",
    environment: Annotated[
        list[str] | None, typer.Option("--environment", "-e", help="Only this environment; may be repeated.")
    ] = None,
) -> None:
    """Print or serve the metrics of the databases: queues, workers, gates, spend.

    `tabellion up` serves them at /api/metrics; this is for queues of your own that have no API. One process is enough
    for all workers. It is read-only.

    Examples:

        tabellion --queues shop.queues metrics

        tabellion --queues shop.queues metrics --port 9463

        tabellion metrics --with documents | grep oldest
    """
    require_client()
    config = config_of(context)
    queues, pipelines = queues_of(context, config), pipelines_of(context, config)
    places = [find_environment(config, name) for name in environment or []] or list(config.environments)
    for place in places:
        present(place)
    log_to_stderr(config.log_level, as_json=config.log_json)
    if port is None:
        asyncio.run(_print(config, places, queues, pipelines))
    else:
        asyncio.run(_serve(config, places, queues, pipelines, host, port))


@contextlib.asynccontextmanager
async def _scrapes(
    config: Config, places: Sequence[Environment], queues: Sequence[Queue], pipelines: Sequence[Pipeline]
) -> AsyncIterator[list[EnvironmentScrape]]:
    gate_settings = gates_of(config, pipelines)
    async with contextlib.AsyncExitStack() as stack:
        scrapes = []
        stores = {place.url: place.store(read_only=True) for place in (*places, *filter(None, [config.gates_at]))}
        for store in stores.values():
            stack.push_async_callback(store.close)
        for place in places:
            views = views_of(config, pipelines, queues, place)
            targets = targets_of(config, pipelines, views, place)
            gates_at = stores[config.gates_at.url] if config.gates_at is not None else None
            overview = Overview(
                place.name, stores[place.url], views, gate_settings=gate_settings, gates_at=gates_at, targets=targets
            )
            sources = [source for pipeline in pipelines if (source := pipeline.metrics(config, place)) is not None]
            reader = DatabaseReader(stores[place.url], OverviewFeed(overview).picture, sources)
            scrapes.append(EnvironmentScrape(place.name, reader))
            stack.push_async_callback(scrapes[-1].close)
        yield scrapes


async def _read(scrapes: Iterable[EnvironmentScrape]) -> list[Sample]:
    read = await asyncio.gather(*(scrape.samples() for scrape in scrapes))
    return [sample for samples in read for sample in samples]


async def _print(
    config: Config, places: Sequence[Environment], queues: Sequence[Queue], pipelines: Sequence[Pipeline]
) -> None:
    async with _scrapes(config, places, queues, pipelines) as scrapes:
        body, _ = Exposition(process=False).write(await _read(scrapes))
    typer.echo(body.decode(), nl=False)


async def _serve(
    config: Config, places: Sequence[Environment], queues: Sequence[Queue], pipelines: Sequence[Pipeline], host: str,
    port: int,
) -> None:  # fmt: skip
    from tabellion.monitor.metrics.listener import metrics_listener

    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with _scrapes(config, places, queues, pipelines) as scrapes:

        def read() -> list[Sample]:  # in a thread of the listener
            return asyncio.run_coroutine_threadsafe(_read(scrapes), loop).result(LONGEST)

        with metrics_listener(host, port, read):
            await stopped.wait()
