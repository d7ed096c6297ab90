"""OCR as it is configured: the model, the columns, the files, how much at once."""

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
    """What the configuration says of OCR, for this environment (the first)."""
    said = config.section("ocr")
    name = chosen_model(config)
    return OcrSettings(
        files=files_of(config, environment),
        model=name,
        gate=None if name == LOCAL else model_gates(config)[name],
        make_model=functools.partial(model, config=config),
        pages=said.get("pages", OcrSettings.pages),
        boost=said.get("boost", OcrSettings.boost),
        columns=column_choice(config),
        workers=said.get("workers", OcrSettings.workers),
        lease=float(said.get("lease", OcrSettings.lease)),
        stale_after=float(said.get("stale_after", OcrSettings.stale_after)),
        timeout=float(said.get("timeout", OcrSettings.timeout)),
        model_deadline=float(said.get("model_deadline", OcrSettings.model_deadline)),
    )


def chosen_model(config: Config) -> str:
    """The model that reads pages; refused where nobody provides it."""
    name, known = config.section("ocr").get("model", LOCAL), [LOCAL, *model_gates(config)]
    if name not in known:
        raise ConfigurationError(
            f"ocr.model: unknown model {name!r}; known: {', '.join(known)}. Set its key, or add it to [models]"
        )
    return str(name)


def queues_of(config: Config, environment: Environment | None = None) -> list[Queue]:
    """The queue with its handler, for all environments or for one."""
    from tabellion.pipelines.ocr.queues import ocr_queues

    others = {} if environment else {one.name: settings_of(config, one) for one in config.environments[1:]}
    return ocr_queues(settings_of(config, environment), others)
