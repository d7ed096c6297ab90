"""Checks whether Celery's broker can be reached."""

from __future__ import annotations

from tabellion.extras import PackageMissingError, require
from tabellion.monitor.doctor import Finding

WHERE = "broker"


def examine_broker(url: str) -> Finding:
    """The finding about the broker at this URL."""
    try:
        require("celery")
    except PackageMissingError as error:
        return Finding("note", WHERE, str(error))
    from tabellion.engine.celery.broker import BrokerUnreachable, check_broker

    try:
        return Finding("ok", WHERE, f"{check_broker(url)} can be reached")
    except BrokerUnreachable as error:
        return Finding("error", WHERE, f"unreachable: {error}", "start it, or correct celery.broker or REDIS_URL")
