"""The settings of OCR, from the configuration: the model, concurrency, and the columns for the text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tabellion.config import Config, model, model_gates
from tabellion.errors import ConfigurationError
from tabellion.extractions.columns import ColumnChoice, column_choice
from tabellion.extractions.storage import ExtractionFiles, files_of
from tabellion.models.base import Ask, Model
from tabellion.reading.limits import Limits
from tabellion.reading.page import OCR
from tabellion.reading.sandbox import Sandbox

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment

LOCAL = "local"  #: no model: pages are read locally
Boosting = Literal["auto", "local", "never"]


@dataclass(frozen=True)
class OcrSettings:
    """The settings of the queue and its handler. `make_model` creates the model with its gate: `config.model`."""

    files: ExtractionFiles
    model: str = LOCAL
    gate: str | None = None  #: of the model; local OCR has none
    make_model: Callable[[str], Model] | None = None
    pages: OCR = "auto"  #: whether pages with a good text layer are read as images too
    boost: Boosting = "auto"  #: auto: the model that read a page also corrects its text
    columns: ColumnChoice = field(default_factory=ColumnChoice)
    workers: int = 4  #: documents at once in one worker process
    lease: float = 60.0
    stale_after: float = 600.0  #: seconds after which a row that another program left running is taken over
    timeout: float = 3600.0
    model_deadline: float = Ask().deadline  #: seconds for one call of the model
    retry_base: float = 10.0
    limits: Limits | None = None
    sandbox: Sandbox | None = None


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
