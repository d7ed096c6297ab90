"""Documents: uploaded, read, judged, reviewed by people, written out as data."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion import extras
from tabellion.errors import NotMigrated, TabellionError
from tabellion.pipeline import Background, Key, Pipeline, UpOption

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.gates.state import GateSettings
    from tabellion.engine.queue import Queue
    from tabellion.engine.retention import RetentionRule
    from tabellion.engine.schema import Schema
    from tabellion.engine.store import Store
    from tabellion.monitor.metrics.metric import MetricSource
    from tabellion.monitor.sla.target import Target
    from tabellion.monitor.verify import Violation
    from tabellion.monitor.view import QueueView
    from tabellion.pipelines.documents.consume import Consumer
    from tabellion.pipelines.documents.served import ServedDocuments
    from tabellion.web.blueprint import Blueprint

SWEEP = 3600.0  #: seconds between two clean-ups


class DocumentsPipeline(Pipeline):
    """The documents pipeline."""

    name = "documents"
    title = "Documents"
    default = True
    extras = extras.SERVICE
    catalogues = ("tabellion.pipelines.documents",)
    begun_by_requests = ("tabellion_documents",)
    events = ("document.completed", "document.failed", "document.duplicate", "document.reviewed")
    options: Mapping[str, UpOption] = {
        "consume": UpOption("Watch this folder and submit the documents put there.", Path),
        "deep": UpOption("With --consume: include subfolders.", bool),
        "model": UpOption(
            "Default model for documents whose upload and type name none.", variable="TABELLION_DEFAULT_MODEL"
        ),
    }
    commands: Mapping[str, str] = {
        "submit": "tabellion.pipelines.documents.commands.submit",
        "export": "tabellion.pipelines.documents.commands.export",
        "compact": "tabellion.pipelines.documents.commands.compact",
    }
    keys: Mapping[str, Key] = {
        "documents.model": (
            str,
            "the model that reads documents if neither the upload nor its type names one (local)",
        ),
        "documents.ocr": (str, "whether pages are read by OCR: auto, always or never (auto)"),
        "documents.sla": (
            (int, float),
            "seconds until a review is due, unless the type sets it (86400)",
        ),
        "documents.timeout": ((int, float), "seconds that one attempt at a document may take (3600)"),
        "documents.model_deadline": ((int, float), "seconds that one call of a model may take (120)"),
        "documents.pages_sent": (int, "pages of a document that are sent to a model as images (10)"),
        "retention.documents": (
            (str, int),
            'how long documents are kept after they and their review have ended, e.g. "2y"; "never" (never)',
        ),
        "retention.decisions": (
            (str, int),
            "how long corrections are kept after the last document with the same bytes is gone (never)",
        ),
        "sla.types": (
            dict,
            "type = { reviewed = 0.95 }: the share of a type's reviews that must be finished on time",
        ),
        "review.lease": ((int, float), "seconds until a claim expires after its last renewal (300)"),
        "review.assignment_hold": ((int, float), "seconds that an assigned item is reserved for its assignee (3600)"),
    }
    choices: Mapping[str, Sequence[str]] = {"documents.ocr": ("auto", "always", "never")}
    variables: Mapping[str, str] = {
        "TABELLION_DEFAULT_MODEL": "documents.model",
        "TABELLION_OCR": "documents.ocr",
        "TABELLION_SLA": "documents.sla",
        "TABELLION_DOCUMENT_TIMEOUT": "documents.timeout",
        "TABELLION_MODEL_DEADLINE": "documents.model_deadline",
        "TABELLION_PAGES_SENT": "documents.pages_sent",
        "TABELLION_RETENTION_DOCUMENTS": "retention.documents",
        "TABELLION_RETENTION_DECISIONS": "retention.decisions",
        "TABELLION_REVIEW_LEASE": "review.lease",
        "TABELLION_ASSIGNMENT_HOLD": "review.assignment_hold",
    }

    def __init__(self) -> None:
        self._consumer: Consumer | None = None

    def check(self, config: Config) -> None:
        """Refuses a broken document type: found later, it costs more."""
        from tabellion.pipelines.documents.settings import Types

        Types(config.types).check()

    def schemas(self) -> Sequence[Schema]:
        """The tables of documents, their fields and review items."""
        from tabellion.pipelines.documents import tables

        return (tables.SCHEMA,)

    def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
        """One queue for each model, then those for follow-up work."""
        with extras.explain_missing(self.extras):
            from tabellion.pipelines.documents.queues import queues_of

            return queues_of(config, environment)

    def retention(self, config: Config, environment: Environment) -> Sequence[RetentionRule]:
        """Documents with their files, and decisions on files that are gone."""
        from tabellion.pipelines.documents.retention import DecisionsRule, DocumentsRule
        from tabellion.pipelines.documents.settings import settings_of

        settings = settings_of(config, environment)
        return (
            DocumentsRule(settings, config.keep("documents"), config.data / "pictures"),
            DecisionsRule(config.keep("decisions")),
        )

    def targets(self, config: Config, environment: Environment | None = None) -> Sequence[Target]:
        """What `[sla.types]` demands of the review of a type's documents."""
        if "types" not in config.section("sla"):
            return ()
        from tabellion.pipelines.documents.review import targets

        return targets.targets_of(config)

    def views(self, config: Config, environment: Environment | None = None) -> Sequence[QueueView]:
        """The queues, with that of review, whose workers are people."""
        from tabellion.pipelines.documents.queues import views_of
        from tabellion.pipelines.documents.settings import settings_of

        return views_of(settings_of(config, environment))

    async def verify(
        self, config: Config, environment: Environment, store: Store, *, files: int | None = 0
    ) -> Sequence[Violation]:
        """Review items and their holders, duplicates, files."""
        from tabellion.pipelines.documents.settings import settings_of
        from tabellion.pipelines.documents.verification import verify_documents

        return await verify_documents(store, settings_of(config, environment), files=files)

    def gates(self, config: Config) -> Mapping[str, GateSettings]:
        """The gates of models: the strictest settings of the types that name them."""
        from tabellion.pipelines.documents.settings import gates_of

        return gates_of(config)

    def metrics(self, config: Config, environment: Environment | None = None) -> MetricSource:
        """What waits for review, and whether it is done in time."""
        from tabellion.pipelines.documents import metrics

        return metrics.SOURCE

    def blueprint(self) -> Blueprint:
        """The API, the pages and their texts."""
        from tabellion.pipelines.documents import api, pages
        from tabellion.pipelines.documents.review.sla import ReviewFigures, read_figure
        from tabellion.pipelines.documents.served import StorageFacts
        from tabellion.web.blueprint import Blueprint, Figure

        return Blueprint(
            routers=(*api.ROUTERS, *pages.ROUTERS), policy=api.POLICY, pages=pages.POLICY, places=pages.PLACES,
            shapes=api.SHAPES, problems=api.PROBLEMS, repeatable=api.REPEATABLE, versioned=api.VERSIONED,
            clashing=api.CLASHING, resumable=api.RESUMABLE, main_queue=self.name, package=__package__,
            figures={"sla": Figure(read_figure, "review_figure.html", "review_figure.js")},
            additions={"OverviewPicture": ReviewFigures, "EnvironmentHealth": StorageFacts},
        )  # fmt: skip

    def serve(self, config: Config, environment: str, store: Store) -> ServedDocuments:
        """The files and settings of one environment."""
        from tabellion.pipelines.documents.review import queue
        from tabellion.pipelines.documents.served import ServedDocuments
        from tabellion.pipelines.documents.settings import settings_of
        from tabellion.web.page_images import Pictures

        section = config.section("review")
        queue.set_times(
            lease=float(section.get("lease", queue.LEASE)), hold=float(section.get("assignment_hold", queue.HOLD))
        )
        place = next((candidate for candidate in config.environments if candidate.name == environment), None)
        settings = settings_of(config, place)
        pictures = Pictures(config.folder_of(place) / "pictures")
        return ServedDocuments(environment, store, settings, pictures, config.upload_bytes)

    async def background(self, run: Background) -> None:
        """Submits files from the watched folder, and cleans up now and every hour."""
        await asyncio.gather(self._watch(run), self._sweep(run))

    async def _watch(self, run: Background) -> None:
        from tabellion.engine.log import printable
        from tabellion.monitor.tracing.subject import Subject
        from tabellion.monitor.tracing.traces import current_traces
        from tabellion.pipelines.documents.consume import Consumer, endings
        from tabellion.pipelines.documents.local_files import submit_local
        from tabellion.pipelines.documents.settings import settings_of

        folder: Path | None = run.options.get("consume")
        if folder is None:
            return
        settings = settings_of(run.config, run.environment)

        async def submit(path: Path, name: str) -> str:
            began_at = time.time()
            id_ = (await submit_local(run.store, settings, path, name=name, limit=run.config.upload_bytes)).id
            traces = current_traces()
            if traces is not None:
                subject = Subject(run.environment.name, self.begun_by_requests[0], id_)
                traces.record(subject, "consume file", began_at, time.time(), parent=None, id=subject.root_id)
            return id_

        def report(event: str, file: str, detail: str) -> None:
            run.print_event(
                f"file_{event}", f"{event}: {printable(file)} ({printable(detail)})", file=file, detail=detail
            )

        deep = bool(run.options.get("deep"))
        self._consumer = Consumer(folder, submit, lambda ids: endings(run.store, ids), deep=deep, listen=report)
        await self._consumer.run(run.stopping)

    async def _sweep(self, run: Background) -> None:
        from tabellion.pipelines.documents.cleanup import sweep
        from tabellion.pipelines.documents.served import ServedDocuments
        from tabellion.pipelines.documents.settings import settings_of

        settings, began = settings_of(run.config, run.environment), time.time()
        while not run.stopping.is_set():
            with contextlib.suppress(TabellionError, OSError):  # what fails now can be done later
                pictures = run.served.pictures if isinstance(run.served, ServedDocuments) else None
                await sweep(run.store, settings, began, pictures=pictures)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP):
                    await run.stopping.wait()

    async def demo(self, run: Background, *, live: bool) -> tuple[str, Mapping[str, Any]]:
        """Submits the sample documents; returns the summary."""
        from tabellion.pipelines.documents import demo
        from tabellion.pipelines.documents.settings import settings_of

        summary = await demo.run(run.store, settings_of(run.config, run.environment), live=live)
        return summary.text(), summary.counts()

    async def is_idle(self, run: Background) -> bool:
        """Whether every document has ended, and the watched folder is empty."""
        rows = await run.store.database.fetch(
            "SELECT count(*) AS n FROM tabellion_documents WHERE status IN ('queued', 'processing')"
        )
        return not rows[0]["n"] and (self._consumer is None or self._consumer.quiet)

    async def require(self, environment: Environment) -> None:
        """Also refuses tables that have the names of an earlier version."""
        from tabellion.pipelines.documents.former_tables import has_former_tables

        try:
            await super().require(environment)
        except NotMigrated:
            async with environment.connect() as store:
                await store.database.open()
                former = await has_former_tables(store)
            if former:
                raise NotMigrated(
                    f"the tables of documents in {environment.address} have the names of an earlier version: "
                    "stop what uses them, then `tabellion up` or `tabellion migrate --with documents` renames them"
                ) from None
            raise

    async def before_migration(self, store: Store) -> None:
        """Renames tables of an earlier version."""
        from tabellion.pipelines.documents.former_tables import rename_former_tables

        await rename_former_tables(store)

    async def before_migration_script(self, store: Store) -> str:
        """The script that renames tables, if there are any: the rest depends on it."""
        from tabellion.pipelines.documents.former_tables import has_former_tables, rename_statements

        if await has_former_tables(store):
            steps = "".join(f"{text};\n" for text in await rename_statements(store))
            return f"BEGIN;\n{steps}COMMIT;\n-- Run this, then run the command again: the rest depends on it.\n"
        return ""


PIPELINE = DocumentsPipeline()
