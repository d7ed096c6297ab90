"""The settings of OCR: the model, concurrency, and the columns for the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tabellion.extractions.columns import ColumnChoice
from tabellion.extractions.storage import ExtractionFiles
from tabellion.models.base import Ask, Model
from tabellion.reading.limits import Limits
from tabellion.reading.pages import OCR
from tabellion.reading.sandbox import Sandbox

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
