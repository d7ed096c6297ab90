"""Logs events with structlog: the only place that knows about logs."""

from __future__ import annotations

import logging
import sys
from dataclasses import fields

import structlog

from tabellion.engine.events import Event, Listener

#: Everything not named here is an everyday event, seen at `debug`.
LEVELS = {
    "worker_started": "info",
    "worker_stopping": "info",
    "worker_stopped": "info",
    "environment_up": "info",
    "environment_down": "error",
    "claim_refused": "error",
    "failed": "warning",
    "retried": "warning",
    "crashed": "warning",
    "quarantined": "error",
    "parked": "error",
    "cancelled": "info",
    "superseded": "info",
    "lease_lost": "warning",
    "timed_out": "warning",
    "taken_over": "warning",
    "foreign_found": "warning",
    "gate_closed": "warning",
    "gate_opened": "info",
    "listener_failed": "error",
}


def log_listener(level: str = "info", *, as_json: bool = False) -> Listener:
    """A listener that writes events to standard error, as lines for people or as JSON."""
    threshold = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    logger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso"), renderer],
    )
    numbers = {name: getattr(logging, word.upper()) for name, word in LEVELS.items()}
    names = [field.name for field in fields(Event) if field.name not in ("name", "at")]

    def write(event: Event) -> None:
        number = numbers.get(event.name, logging.DEBUG)
        if number < threshold:
            return
        facts = {name: value for name in names if (value := getattr(event, name)) not in ("", None, 0)}
        if facts.get("count") == 1:
            del facts["count"]
        # A newline or an escape in an error text must not forge a log line or drive a terminal.
        for name, value in facts.items():
            if isinstance(value, str):
                facts[name] = printable(value)
        getattr(logger, LEVELS.get(event.name, "debug"))(event.name, **facts)

    return write


def printable(text: str) -> str:
    """The text on one line, control characters written out."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii", "replace") for char in text
    )
