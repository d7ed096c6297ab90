"""The extraction of one document: from its file to fields, review reasons and outputs, committed as one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from tabellion.accounts.audit import AuditEntry
from tabellion.engine import sql
from tabellion.engine.job import Job
from tabellion.errors import ConfigurationError, LeaseLost, Permanent, RateLimited, StoreError
from tabellion.messages import Message, quote_value
from tabellion.models.base import Ask, Model
from tabellion.models.extract import extract
from tabellion.pipelines.documents import states, superseded
from tabellion.pipelines.documents.completion import Completed, attach, find_departures
from tabellion.pipelines.documents.extracted_fields import Found
from tabellion.pipelines.documents.failure import Failed, Postponed, describe_error
from tabellion.pipelines.documents.judging import DocumentResult, clean_value, judge
from tabellion.pipelines.documents.locks import NONE, Locks, locks_of, with_decisions
from tabellion.pipelines.documents.lookup import read_document
from tabellion.pipelines.documents.outage import Outage
from tabellion.pipelines.documents.outputs import UNKNOWN, Document, possible_paths, write
from tabellion.pipelines.documents.page_words import Gathered
from tabellion.pipelines.documents.progress import DocumentProgress, ProgressWriter
from tabellion.pipelines.documents.review.queue import ENDINGS
from tabellion.pipelines.documents.review_reasons import apply_locks, explain_departures, find_doubts, review
from tabellion.pipelines.documents.row import FoundField, ReadDocument, context_of, row_of
from tabellion.pipelines.documents.settings import LOCAL, Settings
from tabellion.pipelines.documents.written_columns import WrittenColumns
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import Unreadable
from tabellion.reading.reader import Reading, read_local
from tabellion.reading.types.doctype import DocumentType, ProcessingOptions
from tabellion.reading.types.yamlnode import TypeFileError
from tabellion.storage import files
from tabellion.storage.blobs import BlobsUnavailable
from tabellion.storage.files import Unwritable
from tabellion.storage.lake import LakeError

PAUSE = 1.0  #: seconds to wait in an outage before a document is released, or for its file to come back
USUAL, SOON = ProcessingOptions().retry_base, 0.01  #: seconds: the default of a type; and practically none
READERS = 2  #: threads for each child that reads: one waits for its child while another processes a result


class ExtractionHandler:
    """The handler of the documents queues; one for all jobs of a worker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._progress = ProgressWriter()
        self._models: dict[str, Model] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._outage = Outage(settings.retry_base)

    async def read(self, job: Job) -> WrittenColumns:
        """Reads the document of this row. The type of the exception says whether another attempt would help."""
        tried: list[str] = []
        try:
            locks = await self._begin(job)
            reading = await self._read_locally(job, tried)
            doctype = self.settings.types.get(reading.type) if reading.type is not None else UNKNOWN
            self._set_retry_base(job, doctype)
            model = await self._choose_model(job, doctype)
            if model != LOCAL and reading.type is not None:
                reading = await self._ask(self._model(model), job, reading, doctype, tried)
            completed = await _judge(job, reading, doctype, locks)
            row = _columns(job, completed) | {"model": model}
            row |= await self._write_outputs(job, completed, row)
            await self._commit(job, completed, row)
            return row
        except (LakeError, Unwritable, BlobsUnavailable) as error:
            # This is not the document's fault, and other documents will meet it too.
            self._outage.record_failure(error, job)
            code = "file_unavailable" if isinstance(error, BlobsUnavailable) else "outputs_failed"
            raise await self._postpone(job, code, error, self._outage.left) from error
        except (RateLimited, LeaseLost):
            raise
        except TypeFileError as error:
            # Until the file is corrected, the documents of this type wait, and only they.
            raise await self._postpone(job, "configuration", error) from error
        except Permanent as error:
            raise Failed(error, job.attempt, tried) from error
        except Exception as error:
            if job.attempt < job.queue.bounds(job.values):
                raise
            raise Failed(error, job.attempt, tried) from error
        finally:
            self._outage.end(job)

    async def _begin(self, job: Job) -> Locks:
        """Waits while files cannot be read or written; returns people's decisions on the document so far."""
        context = context_of(job)
        context.users.add(self)
        if not self._outage.admits(job):
            # So that rows are not claimed and released in a tight loop.
            await asyncio.sleep(min(PAUSE, self._outage.base))
            if self._outage.error is not None:
                raise self._outage.error.with_traceback(None)
        was_read = job["version"] > 1 or job["result"] is not None
        locks = await locks_of(context, job.text_key) if was_read else NONE
        if job["told"] is not None:
            # Its earlier failure was reported: a new failure must be reported too.
            reset, arguments = sql.bind(*states.forget_report(job.text_key))
            await context.fetch(reset, *arguments)
        if job["type"] is not None:
            self._set_retry_base(job, self.settings.types.get(job["type"]))
        return locks

    async def _ask(self, model: Model, job: Job, reading: Reading, doctype: DocumentType, tried: list[str]) -> Reading:
        """The reading with the answers of a model."""
        settings = self.settings
        tried.append(Message("tried.model", name=model.name, model=model.model))
        async with settings.blobs.open(job["sha256"]) as blob:
            return await extract(
                model, reading, blob, doctype, ask=Ask(deadline=settings.model_deadline),
                sandbox=settings.sandbox, limits=settings.limits, most_pages=settings.pages_sent,
            )  # fmt: skip

    async def _write_outputs(self, job: Job, completed: Completed, row: WrittenColumns) -> WrittenColumns:
        """Writes the outputs. A kill from here on leaves files that the next attempt overwrites, never a row without
        its files. They contain nothing that depends on the attempt (an answer costs once, a remembered one nothing), so
        a worker that froze here and wakes after another has finished writes the same bytes."""
        # A finished review stays finished; a pending one is withdrawn if no review is needed and nobody has started it.
        ended = completed.review if completed.review in ENDINGS else None
        review = ended or ("pending" if completed.reasons or completed.locks.is_started else None)
        document: Document = {**_document(job, row, completed.result), "review": review, "cost": None}
        if job.lost:
            raise LeaseLost(f"{job}: the claim was lost")
        written = cast("WrittenColumns", asdict(await write(self.settings.lake, document, completed.doctype)))
        if any(written.values()):
            self._outage.clear()
        return written

    async def _commit(self, job: Job, completed: Completed, row: WrittenColumns) -> None:
        """Attaches to the job's finish what commits with the row."""
        settings = self.settings
        superseded.note(job, row)
        if job.n > 1:
            places = possible_paths(await files.in_thread(settings.types.all), job.values)
            superseded.note_left(job, (path for path in places if path not in row.values()))
        delivery = None
        if settings.outbox is not None:
            document = _document(job, row, completed.result)
            delivery = settings.outbox("document.completed", document, job["webhook"])
        facts = {name: completed.result[name] for name in ("type", "verdict")}
        more = {"model": row["model"], "version": job["version"], **facts}
        entry = AuditEntry("extracted", job.worker, job.text_key, after=dict(completed.found.read), more=more)
        attach(job, completed, completed.doctype.processing.sla or settings.sla, delivery, entry)

    async def _postpone(self, job: Job, code: str, error: Exception, least: float = 0.0) -> Postponed:
        """Records in the document why it waits: the engine does not, because to it a deferral is not an error."""
        postponed = Postponed(code, error, job, self.settings.retry_base, least)
        problem = describe_error(job, str(postponed))
        if job.context is not None and (problem != job["error"] or job.cost):
            # An answer that was paid for is remembered and costs nothing next time, so its cost is stored now.
            cost = None if job["cost"] is None and job.cost is None else (job["cost"] or 0.0) + (job.cost or 0.0)
            with contextlib.suppress(StoreError):
                text, values = sql.bind(*states.record_postponement(job.text_key, job.worker, problem, cost))
                await job.context.fetch(text, *values)
        return postponed

    async def close(self) -> None:
        """Shuts the threads down; a worker that starts later gets new ones."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def _set_retry_base(self, job: Job, doctype: DocumentType) -> None:
        """Sets the delay before the next attempt to the type's, if the type sets one."""
        base = doctype.processing.retry_base
        if base != USUAL:
            job.retry_base = max(base, SOON)

    async def _choose_model(self, job: Job, doctype: DocumentType) -> str:
        """The model that reads the document. A detected type counts like a requested one: it may name the model, unless
        the upload did, and sets the number of attempts."""
        if job["type"] is not None or doctype is UNKNOWN:
            return str(job["model"])
        attempts = doctype.processing.retries + 1
        if attempts != job["max_attempts"] and job.context is not None:
            job.values = {**job.values, "max_attempts": attempts}
            text, arguments = sql.bind(*states.limit_attempts(job.text_key, attempts))
            await job.context.fetch(text, *arguments)
        named = None if job["asked_model"] else doctype.processing.model
        return self.settings.choose_model(named or job["model"], doctype)

    async def _read_locally(self, job: Job, tried: list[str]) -> Reading:
        settings = self.settings
        progress = self._progress.start(job)
        if self._threads is None:
            size = (settings.sandbox or default_sandbox()).size * READERS
            self._threads = ThreadPoolExecutor(size, thread_name_prefix="reading")
        tried.append(Message("tried.local"))
        try:
            reading = await self._read_file(job, progress)
            if reading.error is not None and reading.error["code"] == "file_missing":
                # A deletion of the last other document moves the file aside while it looks for this one.
                await asyncio.sleep(PAUSE)
                reading = await self._read_file(job, progress)
        finally:
            progress.end()
        if reading.error is not None:
            raise Unreadable(reading.error["code"], reading.error["message"])
        return reading

    async def _read_file(self, job: Job, progress: DocumentProgress) -> Reading:
        async with self.settings.blobs.open(job["sha256"]) as blob:
            if isinstance(self._outage.error, BlobsUnavailable):
                self._outage.clear()
            work = functools.partial(self._local, blob, job["type"], progress)
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _local(self, blob: Path, type: str | None, progress: DocumentProgress) -> Reading:  # noqa: A002 - the word for it
        settings, words = self.settings, Gathered()
        reading = read_local(
            blob, type, ocr=settings.ocr, types=settings.types.folders, limits=settings.limits,
            sandbox=settings.sandbox, progress=progress, seen=words.add,
            offers=True,
        )  # fmt: skip
        if reading.error is None:
            settings.words.keep(blob, settings.ocr, words)
        return reading

    def _model(self, name: str) -> Model:
        if name not in self._models:
            if self.settings.model is None:
                raise ConfigurationError(Message("failure.no_models", value=quote_value(name)))
            self._models[name] = self.settings.model(name)
        return self._models[name]


async def _judge(job: Job, own: Reading, doctype: DocumentType, locks: Locks) -> Completed:
    """What a reading comes to, with people's decisions in place of what was read."""
    keep = doctype.idempotency.preserve_locked
    if keep and doctype is not UNKNOWN:
        locks = await with_decisions(context_of(job), locks, job, doctype)
    reading = apply_locks(own, locks, doctype) if keep else own
    doubted = find_doubts(reading, doctype, asked=job["type"] is not None)
    result: DocumentResult = clean_value(replace(reading, file=job["name"]).as_dict())
    if keep:
        # Decisions about fields that the type does not have are kept beside its own fields.
        result["fields"] |= clean_value({name: field.as_dict() for name, field in locks.fields.items()})
    for name, field in cast("dict[str, FoundField]", result["fields"]).items():
        field["locked"] = keep and name in locks.fields
    found = _collect_found(result, own, reading)
    departed = find_departures(result, locks)
    # A review whose values have departed is reopened.
    judgement = judge(
        reading.issues, doubted, None if departed else locks.review,
        settled=locks.decided_fields(own.fields) if keep else (), least=reading.verdict,
    )  # fmt: skip
    result["verdict"] = judgement.verdict
    # In a review that a person has started, what they have settled is shown as settled.
    doubts = doubted if locks.is_started else judgement.reasons
    reasons = [*explain_departures(departed), *review(doubts, doctype, job.text_key)]
    return Completed(doctype, reading, result, found, locks, departed, judgement.reasons, reasons)


def _columns(job: Job, completed: Completed) -> WrittenColumns:
    """The columns that are written with `completed`."""
    reading, result = completed.reading, completed.result
    paid = job.cost if job.cost is not None else reading.cost
    cost = None if paid is None and job["cost"] is None else (job["cost"] or 0.0) + (paid or 0.0)
    reasons = clean_value(completed.reasons or completed.doubts)
    return {
        "found_type": reading.type, "type_key": completed.doctype.key, "pages": len(reading.pages),
        "done_pages": len(reading.pages), "result": json.dumps(result, ensure_ascii=False),
        "verdict": result["verdict"], "reasons": json.dumps(reasons, ensure_ascii=False), "cost": cost,
        **states.HAS_NO_FORMER,
    }  # fmt: skip


def _document(job: Job, row: WrittenColumns, result: DocumentResult) -> ReadDocument:
    """The document as its outputs contain it and webhooks report it."""
    unwritten = dict.fromkeys(("json_path", "json_sha256", "parquet_path", "parquet_sha256"))
    ended = {"status": "completed", "error": None, "completed_at": time.time()}
    return read_document(row_of(job, **{**unwritten, **row, **ended}), result)


def _collect_found(result: DocumentResult, own: Reading, reading: Reading) -> Found:
    """What was found, for the tables; what has no row there is added to the result."""
    offers = clean_value(
        {name: [candidate.as_dict() for candidate in candidates] for name, candidates in reading.offers.items()}
    )
    result["candidates"] = {name: candidates for name, candidates in offers.items() if name not in result["fields"]}
    if reading is not own:
        result["read_issues"] = clean_value([issue.as_dict() for issue in own.issues])
        result["read_fields"] = clean_value(
            {name: field.as_dict() for name, field in own.fields.items() if reading.fields.get(name) != field}
        )
    return Found(result["fields"], clean_value({name: field.value for name, field in own.fields.items()}), offers)
