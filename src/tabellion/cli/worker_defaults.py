"""The figures of a worker that its pipelines declare, where neither the configuration nor an option says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tabellion.config import Config
from tabellion.pipeline import Pipeline


def with_worker_defaults(config: Config, pipelines: Sequence[Pipeline]) -> Config:
    """The configuration, with what these pipelines declare for keys of `[worker]` that are not set.

    If one of them declares nothing, the general defaults apply: it may need more slots. Slots add up, so that no
    pipeline takes those of another; any other figure applies if no two pipelines differ.
    """
    declared = [pipeline.worker_defaults(config) for pipeline in pipelines]
    if not all(declared):
        return config
    figures: dict[str, Any] = {}
    for key, field in (("name", "worker_name"), ("poll", "poll"), ("processes", "processes")):
        values = {defaults[key] for defaults in declared if key in defaults}
        if len(values) == 1 and key not in config.worker:
            figures[field] = values.pop()
    if declared and "concurrency" not in config.worker:
        figures["concurrency"] = sum(defaults["concurrency"] for defaults in declared)
    return replace(config, **figures)
