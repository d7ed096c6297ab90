"""A running application with the pipeline of batches, its images, and a receiver of callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.settings import BatchSettings, settings_of
from tests.pipelines.batches.material import Reader, settings_in, work
from tests.web.live import Live

Answer = Any
PUBLIC = "https://93.184.216.34"  #: an address that needs no name server, and that tests never connect to


class LiveBatches(Live):
    """The application of the tests, with batches instead of documents."""

    def batch_settings(self, model: Reader | None = None, **changes: Any) -> BatchSettings:
        """Those of the application, with the model of the tests."""
        served = settings_of(self.config)
        ours = settings_in(self.folder, model, **({"orchestrators": served.orchestrators} | changes))
        return replace(ours, staging=served.staging, content=served.content)

    def work(self, model: Reader | None = None, **changes: Any) -> None:
        """Works until nothing is left to do."""
        work(next(iter(self.urls.values())), self.batch_settings(model, **changes))

    def process(self, body: Any, **options: Any) -> Answer:
        """Sends a chunk as the orchestrator does: without a key, from this machine."""
        return self.ask("POST", "/process", **({"key": None, "json": body} | options))

    def status(self, batch: str = "b1", chunk: str = "0", **options: Any) -> Answer:
        """Asks for the status of a chunk."""
        return self.get(f"/status/{batch}/{chunk}", **({"key": None} | options))

    def submit(self, body: Any, **options: Any) -> Answer:
        """Submits a batch as an operator."""
        return self.ask("POST", "/api/batches", **({"key": self.key("operator"), "json": body} | options))

    def submit_lines(self, lines: bytes, query: str = "", **options: Any) -> Answer:
        """Submits a batch as JSONL."""
        headers = {"Content-Type": "application/x-ndjson"}
        return self.ask(
            "POST", f"/api/batches{query}", key=self.key("operator"), content=lines, headers=headers, **options
        )

    def count(self, table: str) -> int:
        """Returns how many rows a table has."""
        return int(self.sql(f"SELECT count(*) AS n FROM {table}")[0]["n"])


@contextmanager
def live_batches(folder: Path, urls: Mapping[str, str], **changes: Any) -> Iterator[LiveBatches]:
    """The application, running within a block."""
    one = LiveBatches(folder, urls, pipelines=[PIPELINE], **changes)
    try:
        one.start()
        yield one
    finally:
        one.stop()


def batches_section(**options: Any) -> dict[str, Any]:
    """Returns what configures the pipeline."""
    return {"sections": {"batches": options}}
