"""OCR: files of the extraction queue, read page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tabellion import extras
from tabellion.extractions import keys as extraction_keys
from tabellion.pipeline import Key, Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.engine.schema import Schema
    from tabellion.monitor.view import QueueView


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
        "ocr.address_column": (str, "the column with the address of a row's file (guessed)"),
        "ocr.text_column": (str, "the column that the text is written to (guessed)"),
        "ocr.metadata_column": (str, "the column that pages, model, cost and confidence are written to (guessed)"),
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

    def close(self) -> None:
        """Ends the reading that is under way: nobody waits for it any more."""
        from tabellion.reading.default_sandbox import close_default_sandbox

        close_default_sandbox()


PIPELINE = OcrPipeline()
