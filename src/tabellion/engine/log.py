"""Writes events to Python's logging, each as a sentence with its facts; sets logging up if the program has not."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from time import monotonic
from typing import Any

from tabellion.engine.events import Event

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
REMIND = 60.0  # seconds before the same traceback, or the same refusal, is written again
MOST_REMEMBERED = 1000
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

#: The highest level of each event; the others are routine and logged at DEBUG.
LEVELS = {
    "worker_started": INFO,
    "worker_stopping": INFO,
    "worker_stopped": ERROR,
    "environment_up": INFO,
    "environment_down": WARNING,
    "environment_skipped": WARNING,
    "queue_skipped": WARNING,
    "queue_restored": INFO,
    "claim_refused": WARNING,
    "result_refused": WARNING,
    "set_aside": WARNING,
    "failed": ERROR,
    "retried": WARNING,
    "limited": INFO,
    "crashed": WARNING,
    "quarantined": ERROR,
    "parked": ERROR,
    "cancelled": INFO,
    "superseded": INFO,
    "lease_lost": WARNING,
    "timed_out": WARNING,
    "taken_over": WARNING,
    "foreign_found": WARNING,
    "queue_scanned": INFO,
    "queue_health": INFO,
    "pruned": INFO,
    "prune_failed": WARNING,
    "task_failed": WARNING,
    "sla_breached": WARNING,
    "sla_recovered": INFO,
    "gate_closed": WARNING,
    "gate_opened": INFO,
    "broker_down": WARNING,
    "broker_up": INFO,
    "listener_failed": ERROR,
}
#: Events that repeat while their cause lasts: written once a minute per queue and environment.
LASTING = ("claim_refused", "listener_failed", "prune_failed", "task_failed")

_SENTENCES = {
    "worker_started": "{worker} started: {note}",
    "worker_stopping": "{worker} is stopping, {count} jobs are running",
    "worker_stopped": "{worker} stopped: {note}",
    "environment_up": "{environment} ({note}) can be reached",
    "environment_down": "{environment} ({note}) cannot be reached: {error}; retrying",
    "environment_skipped": "{environment} is skipped: {error}",
    "queue_skipped": "{queue} in {environment} is skipped: {error}",
    "queue_restored": "{queue} in {environment} is usable again",
    "claim_refused": "{queue} in {environment}: the database rejects claims: {error}; retrying",
    "result_refused": "the result of {job} waits for a missing table: {error}",
    "set_aside": "{job} is set aside{next}: the database does not allow it to become running: {error}",
    "claimed": "{job} claimed, attempt {attempt}",
    "done": "{job} done{after}",
    "failed": "{job} failed permanently on attempt {attempt}{after}: {error}",
    "retried": "{job} failed on attempt {attempt}{after}{next}: {error}",
    "limited": "{job} was deferred{after}{next}, without using up an attempt: {error}",
    "released": "{job} released{after} without using up an attempt",
    "crashed": "{job} crashed on attempt {attempt} and is ready again: {error}",
    "quarantined": "{job} failed permanently: {error}",
    "parked": "{job} is parked{after}: {error}",
    "cancelled": "{job} was cancelled{after}: {error}",
    "superseded": "{job} was changed by its owner{after}; its result is discarded",
    "lease_lost": "{job} lost its lease{after}; its result is discarded",
    "timed_out": "{job} exceeded its timeout{after} and was stopped",
    "taken_over": "{queue} in {environment}: {count} rows left running by other workers are ready again",
    "foreign_found": "{queue} in {environment}: {count} rows are running without a claim in the register",
    "queue_scanned": "{queue} in {environment}: scan claimed {note}",
    "queue_health": "{queue} in {environment}: {note}",
    "pruned": "{environment}: {count} rows were removed by the retention of {note}",
    "prune_failed": "{environment}: the retention of {note} failed: {error}",
    "task_failed": "{environment}: the periodic task {note} failed: {error}; it is tried again",
    "sla_breached": "{environment}: the target {note}",
    "sla_recovered": "{environment}: the target {note}",
    "gate_closed": "gate {queue} is closed: {error}",
    "gate_opened": "gate {queue} is open",
    "broker_down": "the broker ({note}) cannot be reached: {error}; retrying",
    "broker_up": "the broker ({note}) can be reached again{after}",
    "listener_failed": "a listener raised an exception: {error}",
}
_FACTS = tuple(field.name for field in fields(Event) if field.name not in ("name", "traceback", "at"))


class LogListener:
    """The listener that every worker has: logs jobs to `tabellion.queue.NAME`, all else to `tabellion.worker`."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, ...], float] = {}

    def wants(self, name: str, queue: str) -> bool:
        """Whether the logger's level admits an event of this name; otherwise it is not created."""
        return _logger(name, queue).isEnabledFor(LEVELS.get(name, DEBUG))

    def __call__(self, event: Event) -> None:
        """Writes the event, unless the same one was written less than REMIND seconds ago."""
        logger, level = _logger(event.name, event.queue), _level(event)
        if not logger.isEnabledFor(level):
            return
        if event.name in LASTING and not self._is_due(event.name, event.environment, event.queue):
            return
        facts = _facts(event)
        record = logger.makeRecord(
            logger.name, level, __file__, 0, sentence(event), (), None, "tabellion", {"event": event.name} | facts
        )
        if event.traceback is not None and self._is_due(event.environment, event.queue, *_origin(event)):
            record.exc_text = _indent_traceback(event.traceback)
            record.traceback = event.traceback
        logger.handle(record)

    def _is_due(self, *subject: str) -> bool:
        now = monotonic()
        last = self._written.get(subject)
        if last is not None and now - last < REMIND:
            return False
        if len(self._written) >= MOST_REMEMBERED:
            self._written.clear()
        self._written[subject] = now
        return True


def sentence(event: Event) -> str:
    """The event for people, on one line."""
    template = _SENTENCES.get(event.name, "{job}: {name}: {error}")
    if event.name == "worker_stopped" and event.error:
        template = "{worker} {error}"
    elif event.name == "environment_up" and event.seconds is not None:
        template = "{environment} ({note}) can be reached again{after}"
    elif event.name == "foreign_found" and event.note:
        template = template.replace("{count}", "{count} {note}")
    text = template.format(
        name=event.name, worker=event.worker, environment=event.environment, queue=event.queue, attempt=event.attempt,
        count=event.count, job=f"{event.queue}/{event.key} in {event.environment}", note=event.note or "",
        error=event.error or "no reason given",
        after="" if event.seconds is None else f" after {_seconds(event.seconds)}",
        next="" if event.due_in is None else f", retry in {_seconds(event.due_in)}",
    )  # fmt: skip
    return printable(text)


def log_to_stderr(level: int | str = INFO, *, as_json: bool = False, name: str = "tabellion") -> logging.Handler:
    """Logs all of tabellion's records to standard error, as text or as one JSON object per line.

    `Worker.run()` does this itself if logging is not set up. A second call replaces the first.
    """
    logger = logging.getLogger(name)
    for handler in [existing for existing in logger.handlers if isinstance(existing, _StderrHandler)]:
        logger.removeHandler(handler)
    handler = _StderrHandler()
    handler.setFormatter(_JSONFormatter() if as_json else logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    logger.propagate = False  # a root logger with a handler of its own would write everything twice
    return handler


@contextlib.contextmanager
def log_by_default() -> Iterator[None]:
    """Logs to standard error for the length of a block, if no logging handler is set up."""
    logger = logging.getLogger("tabellion")
    if logger.hasHandlers():
        yield
        return
    level, propagate = logger.level, logger.propagate
    handler = log_to_stderr(level or INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def printable(text: str) -> str:
    """The text on one line, control characters escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii", "replace") for char in text
    )


class _StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`, like Python's handler of last resort."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)


class _JSONFormatter(logging.Formatter):
    """One JSON object per record; an event's facts have the names of its fields."""

    def format(self, record: logging.LogRecord) -> str:
        known = vars(record)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {"event": known["event"]} if "event" in known else {}
        entry |= {
            "level": record.levelname.lower(),
            "timestamp": f"{moment}.{int(record.msecs):03d}Z",
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: known[name] for name in _FACTS if name in known}
        if "traceback" in known:
            entry["traceback"] = known["traceback"]
        elif record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


@functools.cache
def _logger(name: str, queue: str) -> logging.Logger:
    """The logger of an event; the `queue` of a gate's event is the name of the gate."""
    of_queue = queue and not name.startswith("gate_")
    return logging.getLogger(f"tabellion.queue.{queue}" if of_queue else "tabellion.worker")


def _level(event: Event) -> int:
    """The level of this event: lower than usual if nothing is wrong."""
    level = LEVELS.get(event.name, DEBUG)
    if event.name == "worker_stopped" and event.error is None:
        return INFO
    if event.name == "queue_scanned" and event.due_in is None:
        return DEBUG  # a queue without a pace is scanned whenever a slot is free
    if (event.name == "worker_stopping" and not event.count) or (event.name == "environment_up" and not event.seconds):
        return DEBUG
    return level


def _facts(event: Event) -> dict[str, Any]:
    """The event's facts by field name; texts are escaped so that they cannot forge a line or control a terminal."""
    facts = {name: value for name in _FACTS if (value := getattr(event, name)) not in ("", None)}
    if event.count == 1:
        del facts["count"]
    if not event.attempt:
        del facts["attempt"]
    return {name: printable(value) if isinstance(value, str) else value for name, value in facts.items()}


def _origin(event: Event) -> tuple[str, str]:
    """The exception's type and the line that raised it: failures of one origin share a traceback."""
    places = [line for line in (event.traceback or "").splitlines() if line.startswith('  File "')]
    return (event.error or "").partition(":")[0], places[-1] if places else ""


def _indent_traceback(text: str) -> str:
    """A traceback, indented so that its lines cannot be taken for log lines."""
    return "\n".join(f"    {printable(line.expandtabs())}" for line in text.splitlines())


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"
