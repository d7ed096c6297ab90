"""The SLA targets of an installation: their settings, and the periodic task that checks them and takes snapshots."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tabellion.engine.periodic import PeriodicTask
from tabellion.errors import ConfigurationError, TabellionError
from tabellion.installed_pipelines import installed_pipelines
from tabellion.monitor.sla.target import QUEUE_KINDS, Target, TargetKind
from tabellion.monitor.view import QueueView
from tabellion.retention import read_seconds

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.pipeline import Pipeline

WAIT = 300.0  #: seconds that a target must be missed to be breached, by default
SlaLimits = Mapping[str, Mapping[str, float]]  #: by subject and kind


@dataclass(frozen=True, slots=True)
class SlaSettings:
    """The table `[sla]`, except for the tables of pipelines in it."""

    wait: float = WAIT  #: seconds that a target must be missed to be breached, and kept to have recovered
    queues: SlaLimits = field(default_factory=dict)


def read_sla(settings: Mapping[str, Any]) -> SlaSettings:
    """The settings of `[sla]`; whether there are such queues is checked by `targets_of`."""
    wait = WAIT
    if "sla.for" in settings:
        value = settings["sla.for"]
        seconds = 0.0 if str(value).strip() == "0" else read_seconds(str(value))
        if seconds is None:
            raise ConfigurationError(f'sla.for: {value!r} is not a duration: write e.g. "5m", "90s" or 0')
        wait = seconds
    return SlaSettings(wait, read_limits(settings.get("sla.queues", {}), "sla.queues", QUEUE_KINDS))


def read_limits(entries: Mapping[str, Any], key: str, kinds: Mapping[str, TargetKind]) -> SlaLimits:
    """The limits of a table of `[sla]` by subject and kind; pipelines use it for tables of their own."""
    limits: dict[str, dict[str, float]] = {}
    for subject, entry in entries.items():
        place = f"{key}.{subject}"
        if not isinstance(entry, dict):
            raise ConfigurationError(f"{place}: write [{place}] and a line for each target: {', '.join(kinds)}")
        for name in entry:
            check_known(name, kinds, f"{place}: unknown target")
        limits[subject] = {name: _read_limit(value, f"{place}.{name}", kinds[name]) for name, value in entry.items()}
    return limits


def check_known(name: str, known: Iterable[str], problem: str) -> None:
    """Raises a ConfigurationError with the name that may have been meant, if this one is not known."""
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"
        raise ConfigurationError(f"{problem} {name!r}{hint}")


def _read_limit(value: Any, key: str, kind: TargetKind) -> float:
    if kind.unit == "seconds":
        seconds = read_seconds(str(value))
        if seconds is None or seconds == 0:
            raise ConfigurationError(f'{key}: {value!r} is not a duration: write e.g. "90s", "15m" or "4h"')
        return seconds
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ConfigurationError(f"{key}: {value!r} is not a share: write a number from 0 to 1, e.g. 0.05")
    return float(value)


def targets_of(
    config: Config, pipelines: Sequence[Pipeline], views: Iterable[QueueView], environment: Environment | None = None
) -> list[Target]:
    """The targets of these queues and pipelines; raises if the configuration names a queue that nothing declares."""
    from tabellion.monitor.sla.queue_targets import queue_target  # reading the configuration needs none of it

    shown = {view.name: view for view in views}
    targets = []
    for name, limits in config.sla.queues.items():
        if name in shown:
            targets += [queue_target(shown[name], kind, limit) for kind, limit in limits.items()]
        else:
            _check_queue(name, config, shown)
    return [*targets, *(target for pipeline in pipelines for target in pipeline.targets(config, environment))]


def _check_queue(name: str, config: Config, shown: Iterable[str]) -> None:
    """Raises unless a pipeline that does not run here has the queue: processes may share one configuration."""
    names = list(shown)
    for pipeline in installed_pipelines().values():
        with contextlib.suppress(TabellionError):  # it cannot run here, e.g. without its extras
            names += [view.name for view in pipeline.views(config)]
    check_known(name, dict.fromkeys(names), "sla.queues: unknown queue")


def find_unchecked(config: Config, pipelines: Sequence[Pipeline], views: Iterable[QueueView]) -> list[str]:
    """The tables of `[sla]` with targets of pipelines that do not run here."""
    shown = {view.name for view in views}
    named = {pipeline.name for pipeline in pipelines}
    keys = [key for one in installed_pipelines().values() if one.name not in named for key in one.keys]
    tables = [f"sla.{name}" for name in config.section("sla")]
    return [
        *(f"sla.queues.{name}" for name in config.sla.queues if name not in shown),
        *(table for table in tables if table in keys),
    ]


def views_of(
    config: Config, pipelines: Sequence[Pipeline], queues: Iterable[Queue], environment: Environment | None = None
) -> list[QueueView]:
    """How the queues of pipelines and the given ones are shown, each once."""
    shown = {view.name: view for pipeline in pipelines for view in pipeline.views(config, environment)}
    return [*shown.values(), *(QueueView(queue) for queue in queues if queue.name not in shown)]


def tasks_of(
    config: Config, pipelines: Sequence[Pipeline], queues: Iterable[Queue], environment: Environment
) -> list[PeriodicTask]:
    """What a worker does every minute in one environment: check the targets, and take the snapshots of a new hour."""
    from tabellion.monitor.sla.checks import EVERY, SlaChecks

    views = views_of(config, pipelines, queues, environment)
    targets = targets_of(config, pipelines, views, environment)
    checks = SlaChecks(environment.name, views, targets, config.sla.wait)
    return [PeriodicTask("sla", EVERY, checks.run)]
