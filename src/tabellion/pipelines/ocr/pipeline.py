"""The OCR pipeline: reads the files of the extraction queue page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabellion import extras
from tabellion.extractions import keys as extraction_keys
from tabellion.extractions.queues import ExtractionQueue, register
from tabellion.pipeline import Key, Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.engine.schema import Schema
    from tabellion.engine.store import Store
    from tabellion.extractions.served import ServedExtractions
    from tabellion.pipeline import Background
    from tabellion.web.blueprint import Blueprint


class OcrPipeline(Pipeline):
    """The plugin that `tabellion.pipelines` registers."""

    name = "ocr"
    title = "OCR"
    extras = extras.SERVICE
    catalogues = ("tabellion.pipelines.ocr", "tabellion.extractions")
    row_pages: Mapping[str, str] = {"extraction_queue": "/extractions/{}"}
    keys: Mapping[str, Key] = {
        "ocr.model": (str, "the model that reads pages (local)"),
        "ocr.processes": (int, "worker processes for OCR, each with its own id (1)"),
        "ocr.workers": (int, "documents that one worker process reads at once (4; 1 if ocr.processes is set)"),
        "ocr.pages": (
            str,
            "which pages are read by OCR: auto (those without good text of their own), always or never (auto)",
        ),
        "ocr.boost": (str, "what corrects the text: auto (the model that read it), local or never (auto)"),
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
        "OCR_WORKER_COUNT": "ocr.processes",
        "TABELLION_OCR_MODEL": "ocr.model",
        **extraction_keys.VARIABLES,
    }

    def check(self, config: Config) -> None:
        """Rejects an unknown model and an invalid `extractions.open`."""
        from tabellion.extractions.storage import files_of
        from tabellion.pipelines.ocr.settings import chosen_model

        chosen_model(config)
        files_of(config)

    def schemas(self) -> Sequence[Schema]:
        """The table, shared with the pipelines that fetch files."""
        from tabellion.extractions import tables

        return (tables.SCHEMA,)

    def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
        """The OCR queue."""
        with extras.explain_missing(self.extras):
            from tabellion.pipelines.ocr.queues import queues_of

            return queues_of(config, environment)

    def worker_defaults(self, config: Config) -> Mapping[str, Any]:
        """A slot for each document that is read at once, and the configured number of processes."""
        from tabellion.pipelines.ocr.settings import documents_at_once

        processes = config.section("ocr").get("processes")
        return {
            "concurrency": documents_at_once(config),
            **({"processes": processes} if processes is not None else {}),
        }

    def blueprint(self) -> Blueprint:
        """The routes and pages that all pipelines on the table share."""
        from tabellion.extractions.blueprint import EXTRACTIONS
        from tabellion.web.blueprint import Blueprint

        return Blueprint(shared=(EXTRACTIONS,), main_queue=self.name)

    def serve(self, config: Config, environment: str, store: Store) -> ServedExtractions:
        """The state of the web application for one environment."""
        from tabellion.extractions.served import serve

        return serve(config, environment, store)

    async def demo(self, run: Background, *, live: bool) -> tuple[str, Mapping[str, Any]]:
        """Reads sample files and reports the result of each."""
        from tabellion.pipelines.ocr import demo
        from tabellion.pipelines.ocr.settings import settings_of

        return await demo.run(run.store, settings_of(run.config, run.environment), live=live)


PIPELINE = OcrPipeline()
register(ExtractionQueue("ocr", PIPELINE.name, error="ocr_error"))
