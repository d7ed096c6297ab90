"""OCR: files of the extraction queue, read page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabellion import extras
from tabellion.extractions import keys as extraction_keys
from tabellion.pipeline import Key, Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.engine.schema import Schema
    from tabellion.engine.store import Store
    from tabellion.extractions.served import ServedExtractions
    from tabellion.monitor.view import QueueView
    from tabellion.pipeline import Background
    from tabellion.web.blueprint import Blueprint


class OcrPipeline(Pipeline):
    """The pipeline of OCR."""

    name = "ocr"
    title = "OCR"
    extras = extras.SERVICE
    keys: Mapping[str, Key] = {
        "ocr.model": (str, "the model that reads pages (local)"),
        "ocr.workers": (int, "documents that one worker process reads at once (4)"),
        "ocr.pages": (
            str,
            "which pages are looked at: auto (those without good text of their own), always or never (auto)",
        ),
        "ocr.boost": (str, "who mends the text: auto (the model that read it), local or never (auto)"),
        "ocr.lease": ((int, float), "seconds after which the document of a dead worker is ready again (60)"),
        "ocr.stale_after": (
            (int, float),
            "seconds after which a row that a program outside the register left running is taken over (600)",
        ),
        "ocr.timeout": ((int, float), "seconds that one attempt at a document may take (3600)"),
        "ocr.model_deadline": ((int, float), "seconds that one call of the model may take (120)"),
        **extraction_keys.KEYS,
    }
    choices: Mapping[str, Sequence[str]] = {
        "ocr.pages": ("auto", "always", "never"),
        "ocr.boost": ("auto", "local", "never"),
    }
    variables: Mapping[str, str] = {
        "TABELLION_OCR_WORKERS": "ocr.workers",
        "OCR_WORKER_COUNT": "ocr.workers",
        "TABELLION_OCR_MODEL": "ocr.model",
        **extraction_keys.VARIABLES,
    }

    def check(self, config: Config) -> None:
        """Refuses a model that nobody provides, and files in places that are none."""
        from tabellion.extractions.storage import files_of
        from tabellion.pipelines.ocr import configured

        configured.chosen_model(config)
        files_of(config)

    def schemas(self) -> Sequence[Schema]:
        """The table that it shares with the pipelines that fetch the files."""
        from tabellion.extractions import tables

        return (tables.SCHEMA,)

    def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
        """One."""
        with extras.explain_missing(self.extras):
            from tabellion.pipelines.ocr import configured

            return configured.queues_of(config, environment)

    def views(self, config: Config, environment: Environment | None = None) -> Sequence[QueueView]:
        """With the page of a row."""
        from tabellion.monitor.view import QueueView

        return [QueueView(queue, page="/extractions/{}") for queue in self.queues(config, environment)]

    def blueprint(self) -> Blueprint:
        """What all pipelines on the table show of it."""
        from tabellion.extractions.blueprint import EXTRACTIONS
        from tabellion.web.blueprint import Blueprint

        return Blueprint(shared=(EXTRACTIONS,), main_queue=self.name)

    def serve(self, config: Config, environment: str, store: Store) -> ServedExtractions:
        """Its table and files in one environment."""
        from tabellion.extractions.served import serve

        return serve(config, environment, store)

    async def demo(self, run: Background, *, live: bool) -> tuple[str, Mapping[str, Any]]:
        """Sample files, and what became of each."""
        from tabellion.pipelines.ocr import configured, demo

        return await demo.run(run.store, configured.settings_of(run.config, run.environment), live=live)

    def close(self) -> None:
        """Ends the reading that is under way: nobody waits for it any more."""
        from tabellion.reading.default_sandbox import close_default_sandbox

        close_default_sandbox()


PIPELINE = OcrPipeline()
