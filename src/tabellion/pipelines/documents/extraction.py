"""The extraction of one document: from its file to fields, review reasons and outputs, committed as one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import cast

from tabellion.accounts.audit import SYSTEM, AuditEntry, bind_statement
from tabellion.engine.job import Job
from tabellion.engine.table import Row
from tabellion.errors import ConfigurationError, LeaseLost, Permanent, RateLimited, StoreError
from tabellion.messages import Message, quote_value
from tabellion.models.base import Ask, Model
from tabellion.models.extract import extract
from tabellion.pipelines.documents import finish, states, superseded
from tabellion.pipelines.documents.failure import Failed, Postponed, describe_error
from tabellion.pipelines.documents.judging import Result
from tabellion.pipelines.documents.locks import NONE, WAITING, locks_of, with_decisions
from tabellion.pipelines.documents.lookup import read_document
from tabellion.pipelines.documents.outage import Outage
from tabellion.pipelines.documents.outputs import UNKNOWN, Document, possible_paths, write
from tabellion.pipelines.documents.page_words import Gathered
from tabellion.pipelines.documents.priority import urgency
from tabellion.pipelines.documents.progress import ProgressWriter, Watch
from tabellion.pipelines.documents.review.finishing import reopening
from tabellion.pipelines.documents.review_reasons import Reason, apply_locks, doubts, reread, review, verdict
from tabellion.pipelines.documents.row import FoundField, ReadDocument, row_of, seconds
from tabellion.pipelines.documents.settings import LOCAL, Settings
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import Unreadable
from tabellion.reading.reader import Reading, read_local
from tabellion.reading.types.doctype import DocumentType, Processing
from tabellion.reading.types.yamlnode import TypeFileError
from tabellion.storage import files
from tabellion.storage.files import Unwritable
from tabellion.storage.lake import LakeError

PAUSE = 1.0  #: seconds to wait in an outage before a document is released, or for its file to come back
USUAL, SOON = Processing().retry_base, 0.01  #: seconds: the default of a type; and practically none
READERS = 2  #: threads for each child that reads: one waits for its child while another processes a result


class Extraction:
    """The handler of the documents queues; one for all jobs of a worker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._progress = ProgressWriter()
        self._models: dict[str, Model] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._outage = Outage(settings.retry_base)

    async def read(self, job: Job) -> Row:
        """Reads the document of this row. The type of the exception says whether another attempt would help."""
        tried: list[str] = []
        try:
            return await self._extract(job, tried)
        except (RateLimited, LeaseLost):
            raise
        except TypeFileError as error:
            # Until the file is corrected, the documents of this type wait, and only they.
            raise await self._postpone(job, "configuration", error) from error
        except (LakeError, Unwritable) as error:
            # This is not the document's fault either, and other documents will meet it too.
            self._outage.record_failure(error, job)
            raise await self._postpone(job, "outputs_failed", error, self._outage.left) from error
        except Permanent as error:
            raise Failed(error, job.attempt, tried) from error
        except Exception as error:
            if job.attempt < job.queue.bounds(job.values):
                raise
            raise Failed(error, job.attempt, tried) from error
        finally:
            self._outage.end(job)

    async def _postpone(self, job: Job, code: str, error: Exception, least: float = 0.0) -> Postponed:
        """Records in the document why it waits: the engine does not, because to it a deferral is not an error."""
        postponed = Postponed(code, error, job, self.settings.retry_base, least)
        problem = describe_error(job, str(postponed))
        if job.context is not None and (problem != job["error"] or job.cost):
            # An answer that was paid for is remembered and costs nothing next time, so its cost is stored now.
            cost = None if job["cost"] is None and job.cost is None else (job["cost"] or 0.0) + (job.cost or 0.0)
            with contextlib.suppress(StoreError):
                await job.context.fetch(
                    """UPDATE tabellion_documents SET error = $2, cost = $3
WHERE id = $1 AND worker = $4 AND status = 'processing'""",
                    job.text_key, problem, cost, job.worker,
                )  # fmt: skip
        return postponed

    async def close(self) -> None:
        """Shuts the threads down; a worker that starts later gets new ones."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    async def _extract(self, job: Job, tried: list[str]) -> Row:
        context = job.context
        assert context is not None  # noqa: S101 - every worker gives its jobs one
        context.users.add(self)
        if not self._outage.admits(job):
            # So that rows are not claimed and released in a tight loop.
            await asyncio.sleep(min(PAUSE, self._outage.base))
            if self._outage.error is not None:
                raise LakeError(str(self._outage.error))
        again = job["version"] > 1 or job["result"] is not None
        locks = await locks_of(context, job.text_key) if again else NONE
        if job["told"] is not None:
            # Its earlier failure was reported: a new failure must be reported too.
            reset, arguments = bind_statement(*states.untold(job.text_key))
            await context.fetch(reset, *arguments)
        if job["type"] is not None:
            self._set_retry_base(job, self.settings.types.get(job["type"]))
        reading = await self._read(job, tried)
        doctype = self.settings.types.get(reading.type) if reading.type is not None else UNKNOWN
        self._set_retry_base(job, doctype)
        chosen = await self._choose_model(job, doctype)
        if chosen != LOCAL and reading.type is not None:
            model = self._model(chosen)
            tried.append(Message("tried.model", name=model.name, model=model.model))
            reading = await extract(
                model, reading, self.settings.blobs.path(job["sha256"]), doctype,
                ask=Ask(deadline=self.settings.model_deadline), sandbox=self.settings.sandbox,
                limits=self.settings.limits, most_pages=self.settings.pages_sent,
            )  # fmt: skip
        own, keep = reading, doctype.idempotency.preserve_locked
        if keep and doctype is not UNKNOWN:
            locks = await with_decisions(context, locks, job, doctype)
        reading = apply_locks(own, locks, doctype) if keep else own
        doubted = doubts(reading, doctype, asked=job["type"] is not None)
        reasons = review(doubted, doctype, job.text_key)
        result: Result = finish.clean_value(replace(reading, file=job["name"]).as_dict())
        result["verdict"] = verdict(reading, doubted)
        # Decisions about fields that the type does not have are kept beside its own fields.
        result["fields"] |= (
            finish.clean_value({name: field.as_dict() for name, field in locks.fields.items()}) if keep else {}
        )
        for name, field in cast("dict[str, FoundField]", result["fields"]).items():
            field["locked"] = keep and name in locks.fields
        found = _collect_found(result, own, reading)
        departed = finish.find_departures(result["fields"], locks)
        reopen = (
            reopening(context.dialect, job.text_key, SYSTEM, f"read again: {', '.join(departed)}") if departed else []
        )
        reasons = [*reread(departed), *reasons]
        row = self._row(job, reading, doctype, result, reasons or doubted) | {"model": chosen}
        # A finished review stays finished; a pending one is withdrawn if no review is needed.
        ended = None if departed or locks.review == WAITING else locks.review
        document = {**_document(job, row, result), "review": ended or (WAITING if reasons else None)}
        row |= await self._write_outputs(job, doctype, document)
        superseded.note(job, row)
        if job.n > 1:
            places = possible_paths(await files.in_thread(self.settings.types.all), job.values)
            superseded.note_left(job, (path for path in places if path not in row.values()))
        item = None
        if reasons:
            created_at = seconds(job["created_at"])
            sla = doctype.processing.sla or self.settings.sla
            item = finish.Review(reasons, urgency(reading, doctype), created_at, time.time(), sla)
        finish.attach(
            job, context.dialect, found, item, keep_locked=keep, again=again or job.n > 1, locks=locks,
            type_=doctype.name, first=reopen[:1],
        )  # fmt: skip
        if self.settings.outbox is not None:
            text, values = self.settings.outbox("document.completed", _document(job, row, result), job["webhook"])
            job.also(text, **values)
        finish.tell(job, context.dialect, _entry(job, result, found, chosen), opened=item is not None, last=reopen[1:])
        return row

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
            await job.context.fetch(
                "UPDATE tabellion_documents SET max_attempts = $2 WHERE id = $1", job.text_key, attempts
            )
        named = None if job["asked_model"] else doctype.processing.model
        return self.settings.choose_model(named or job["model"], doctype)

    async def _write_outputs(self, job: Job, doctype: DocumentType, document: Document) -> Row:
        """Writes the outputs. A kill from here on leaves files that the next attempt overwrites, never a row without
        its files. They contain nothing that depends on the attempt (an answer costs once, a remembered one nothing), so
        a worker that froze here and wakes after another has finished writes the same bytes."""
        if job.lost:
            raise LeaseLost(f"{job}: the claim was lost")
        written = asdict(await write(self.settings.lake, {**document, "cost": None}, doctype))
        if any(written.values()):
            self._outage.over()
        return written

    async def _read(self, job: Job, tried: list[str]) -> Reading:
        settings = self.settings
        watch = self._progress.watch(job)
        if self._threads is None:
            size = (settings.sandbox or default_sandbox()).size * READERS
            self._threads = ThreadPoolExecutor(size, thread_name_prefix="reading")
        tried.append(Message("tried.local"))
        try:
            work = functools.partial(self._local, job["sha256"], job["type"], watch)
            loop = asyncio.get_running_loop()
            reading = await loop.run_in_executor(self._threads, work)
            if reading.error is not None and reading.error["code"] == "file_missing":
                # A deletion of the last other document moves the file aside while it looks for this one.
                await asyncio.sleep(PAUSE)
                reading = await loop.run_in_executor(self._threads, work)
        finally:
            watch.end()
        if reading.error is not None:
            raise Unreadable(reading.error["code"], reading.error["message"])
        return reading

    def _local(self, sha256: str, type: str | None, watch: Watch) -> Reading:  # noqa: A002 - the word for it
        settings, words = self.settings, Gathered()
        blob = settings.blobs.path(sha256)
        reading = read_local(
            blob, type, ocr=settings.ocr, types=settings.types.folders, limits=settings.limits,
            sandbox=settings.sandbox, progress=watch, seen=words.add,
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

    def _row(self, job: Job, reading: Reading, doctype: DocumentType, result: Result, reasons: list[Reason]) -> Row:
        """The columns that are written with `completed`."""
        paid = job.cost if job.cost is not None else reading.cost
        cost = None if paid is None and job["cost"] is None else (job["cost"] or 0.0) + (paid or 0.0)
        count = len(reading.pages)
        return {
            "found_type": reading.type, "type_key": doctype.key, "pages": count, "done_pages": count,
            "result": json.dumps(result, ensure_ascii=False), "verdict": result["verdict"],
            "reasons": json.dumps(finish.clean_value(reasons), ensure_ascii=False), "cost": cost, "former": None,
        }  # fmt: skip


def _document(job: Job, row: Row, result: Result) -> ReadDocument:
    """The document as its outputs contain it and webhooks report it."""
    unwritten = dict.fromkeys(("json_path", "json_sha256", "parquet_path", "parquet_sha256"))
    ended = {"status": "completed", "error": None, "completed_at": time.time()}
    return read_document(row_of(job, **unwritten | row | ended), result)


def _collect_found(result: Result, own: Reading, reading: Reading) -> finish.Found:
    """What was found, for the tables; what has no row there is added to the result."""
    offers = finish.clean_value(
        {name: [candidate.as_dict() for candidate in candidates] for name, candidates in reading.offers.items()}
    )
    result["candidates"] = {name: candidates for name, candidates in offers.items() if name not in result["fields"]}
    if reading is not own:
        result["read_issues"] = finish.clean_value([issue.as_dict() for issue in own.issues])
        result["read_fields"] = finish.clean_value(
            {name: field.as_dict() for name, field in own.fields.items() if reading.fields.get(name) != field}
        )
    return finish.Found(
        result["fields"], finish.clean_value({name: field.value for name, field in own.fields.items()}), offers
    )


def _entry(job: Job, result: Result, found: finish.Found, model: str) -> AuditEntry:
    """The audit entry of a reading."""
    more = {"model": model, "type": result["type"], "verdict": result["verdict"], "version": job["version"]}
    return AuditEntry("extracted", job.worker, job.text_key, after=dict(found.read), more=more)
