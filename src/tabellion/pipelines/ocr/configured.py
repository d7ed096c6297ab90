"""Builds the settings and the queue of OCR from the configuration."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tabellion.config import Config, model, model_gates
from tabellion.errors import ConfigurationError
from tabellion.extractions.columns import column_choice
from tabellion.extractions.storage import files_of
from tabellion.pipelines.ocr.settings import LOCAL, OcrSettings

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue


def settings_of(config: Config, environment: Environment | None = None) -> OcrSettings:
    """The configured settings for an environment (default: the first)."""
    section = config.section("ocr")
    name = chosen_model(config)
    return OcrSettings(
        files=files_of(config, environment),
        model=name,
        gate=None if name == LOCAL else model_gates(config)[name],
        make_model=functools.partial(model, config=config),
        pages=section.get("pages", OcrSettings.pages),
        boost=section.get("boost", OcrSettings.boost),
        columns=column_choice(config),
        workers=documents_at_once(config),
        lease=float(section.get("lease", OcrSettings.lease)),
        stale_after=float(section.get("stale_after", OcrSettings.stale_after)),
        timeout=float(section.get("timeout", OcrSettings.timeout)),
        model_deadline=float(section.get("model_deadline", OcrSettings.model_deadline)),
    )


def documents_at_once(config: Config) -> int:
    """How many documents one worker process reads at once."""
    section = config.section("ocr")
    return int(section.get("workers", 1 if "processes" in section else OcrSettings.workers))


def chosen_model(config: Config) -> str:
    """The model that reads pages; raises a ConfigurationError if it is unknown."""
    name, known = config.section("ocr").get("model", LOCAL), [LOCAL, *model_gates(config)]
    if name not in known:
        raise ConfigurationError(
            f"ocr.model: unknown model {name!r}; known: {', '.join(known)}. Set its key, or add it to [models]"
        )
    return str(name)


def queues_of(config: Config, environment: Environment | None = None) -> list[Queue]:
    """The queue with its handler, for one environment or for all."""
    from tabellion.pipelines.ocr.queues import ocr_queues

    others = {} if environment else {other.name: settings_of(config, other) for other in config.environments[1:]}
    return ocr_queues(settings_of(config, environment), others)
