"""What an installation removes, and after which time: the rules of the register, of webhooks and of pipelines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabellion.delivery.deliveries_retention import DeliveriesRule
from tabellion.engine.attempts_retention import AttemptsRule
from tabellion.engine.memos_retention import MemosRule
from tabellion.errors import ConfigurationError
from tabellion.monitor.snapshots_retention import SnapshotsRule

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.engine.retention import RetentionRule
    from tabellion.pipeline import Pipeline

TIMES = "retention."  #: how the keys of the configuration begin
DAY = 86_400.0
DELIVERIES = 30 * DAY  #: accepted deliveries are of no use, and somebody else has them
SNAPSHOTS = 400 * DAY  #: as long as the daily counts of queues
MOST = 1000 * 365 * DAY  #: seconds; databases cannot go back much further
LEAST = 3600.0  #: seconds; a worker may repeat a settlement after an outage, and must find what it wrote
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY, "y": 365 * DAY}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdwy])")


def rules_of(
    config: Config, pipelines: Sequence[Pipeline], queues: Iterable[Queue], environment: Environment
) -> list[RetentionRule]:
    """Every rule of one environment; `queues` are those whose attempts are removed."""
    own = [view.queue for pipeline in pipelines for view in pipeline.views(config, environment)]
    return [
        AttemptsRule([*queues, *own], config.keep("attempts")),
        MemosRule(config.keep("memos")),
        DeliveriesRule(config.keep("deliveries", DELIVERIES)),
        SnapshotsRule(config.keep("snapshots", SNAPSHOTS)),
        *(rule for pipeline in pipelines for rule in pipeline.retention(config, environment)),
    ]


def read_times(settings: Mapping[str, Any]) -> dict[str, float | None]:
    """The seconds of every key `retention.NAME` by name; None: never."""
    return {
        key.removeprefix(TIMES): parse_duration(value, key) for key, value in settings.items() if key.startswith(TIMES)
    }


def parse_duration(value: str | int, key: str) -> float | None:
    """The seconds of a text such as `90d`, `12h` or `1y`; None for `never` and 0."""
    text = str(value).strip().lower()
    if text in ("never", "0"):
        return None
    seconds = read_seconds(text)
    if seconds is None:
        raise ConfigurationError(
            f'{key}: {value!r} is not a duration: write a number and its unit, e.g. "90d", "12h", "52w" or "1y", '
            'or "never"'
        )
    if seconds == 0:
        return None
    if seconds > MOST:
        raise ConfigurationError(f'{key}: {value!r} is too long: at most "1000y", or "never" to remove nothing')
    if seconds < LEAST:
        raise ConfigurationError(f'{key}: {value!r} is too short: at least "1h", or "never" to remove nothing')
    return seconds


def read_seconds(text: str) -> float | None:
    """The seconds of a number and its unit, e.g. `15m`; None for any other text."""
    match = _DURATION.fullmatch(text.strip().lower())
    return None if match is None else float(match[1]) * _UNITS[match[2]]
