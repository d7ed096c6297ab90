"""How files of the extraction queue are read: with which model, how many at once, where their text goes."""

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

LOCAL = "local"  #: the model that is none: pages are read here
Boosting = Literal["auto", "local", "never"]


@dataclass(frozen=True)
class OcrSettings:
    """What the queue and its handler are told. `make_model` makes the model, behind its gate: `config.model`."""

    files: ExtractionFiles
    model: str = LOCAL
    gate: str | None = None  #: of the model; the local one has none
    make_model: Callable[[str], Model] | None = None
    pages: OCR = "auto"  #: whether pages with a good text layer are seen all the same
    boost: Boosting = "auto"  #: auto: the model that read a page mends its text too
    columns: ColumnChoice = field(default_factory=ColumnChoice)
    workers: int = 4  #: documents at once in one worker process
    lease: float = 60.0
    stale_after: float = 600.0  #: seconds after which a row that a program outside the register left is taken over
    timeout: float = 3600.0
    model_deadline: float = Ask().deadline  #: seconds for one call of the model
    retry_base: float = 10.0
    limits: Limits | None = None
    sandbox: Sandbox | None = None
