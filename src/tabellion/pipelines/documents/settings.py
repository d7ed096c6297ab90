"""The settings of the document pipeline: where files are stored, types and models, time limits."""

from __future__ import annotations

import functools
import hashlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.config import Config, model, model_gates
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError, TabellionError
from tabellion.messages import Message, quote_value
from tabellion.models.base import Ask, Model
from tabellion.models.media import MOST_PAGES
from tabellion.pipelines.documents.page_words import Words
from tabellion.pipelines.documents.webhooks import document_outbox
from tabellion.reading.limits import Limits
from tabellion.reading.page import OCR
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import typefile
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.yamlnode import Mistake, TypeFileError
from tabellion.storage.blobs import Blobs
from tabellion.storage.configured_blobs import open_blobs
from tabellion.storage.lake import Lake

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment

LOCAL = "local"  #: not a model: documents are read on this machine
AUTO = "auto"  #: in keys: detect the type
SLA = 86_400.0  #: seconds from the upload until a review is due

SETTLED = 1_000_000_000  # nanoseconds after which a folder's modification time is reliable

Outbox = Callable[[str, Mapping[str, Any], str | None], tuple[str, dict[str, Any]]]


class Unknown(TabellionError):  # noqa: N818 - what it is
    """A type or model that does not exist."""

    def __init__(self, field: str, value: str, known: Sequence[str]) -> None:
        self.field, self.value, self.known = field, value, tuple(known)
        super().__init__(Message(f"failure.unknown_{field}", value=quote_value(value), known=list(known)))


class Types:
    """The document types of some folders, compiled again when their files change."""

    def __init__(self, folders: Sequence[str | Path] = (typefile.FOLDER,)) -> None:
        self.folders = tuple(folders)
        self._compiled: dict[Path, tuple[tuple[int, int], DocumentType]] = {}
        self._listed: tuple[tuple[int, ...], dict[str, Path]] | None = None

    def names(self) -> list[str]:
        """The names of all types."""
        return list(self._available())

    def get(self, name: str) -> DocumentType:
        """The type of this name; raises Unknown, or TypeFileError with the mistakes in its file."""
        paths = self._available()
        if name not in paths:
            raise Unknown("type", name, list(paths))
        return self._read(paths[name])

    def all(self) -> list[DocumentType]:
        """All types without mistakes: a broken one must not stop documents of the others."""
        types = []
        for path in self._available().values():
            try:
                types.append(self._read(path))
            except ConfigurationError:
                continue
        return types

    def check(self) -> None:
        """Raises ConfigurationError with the mistakes of all types; called when a service starts."""
        wrong = []
        for path in self._available().values():
            try:
                self._read(path)
            except ConfigurationError as error:
                wrong.append(str(error))
        if wrong:
            raise ConfigurationError("\n".join(wrong))

    def key(self, name: str | None) -> str:
        """The cache key of results: the type with its version and digest, or all types."""
        if name is not None:
            return self.get(name).key
        keys = "\n".join(sorted(doctype.key for doctype in self.all()))
        return f"{AUTO}/{hashlib.sha256(keys.encode()).hexdigest()[:16]}"

    def _available(self) -> dict[str, Path]:
        """The files of the types; a folder is listed again if it has changed, or only just did: clocks are coarse."""
        stamps = tuple(_get_mtime(Path(folder)) for folder in self.folders)
        if self._listed is None or self._listed[0] != stamps or max(stamps, default=0) > time.time_ns() - SETTLED:
            self._listed = (stamps, typefile.available(self.folders))
        return self._listed[1]

    def _read(self, path: Path) -> DocumentType:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._compiled.get(path)
            if known is None or known[0] != stamp:
                known = self._compiled[path] = (stamp, typefile.compile_type(path.read_bytes(), str(path), path.stem))
        except OSError as error:
            raise TypeFileError(str(path), [Mistake(1, 1, f"it cannot be read: {error.strerror}")]) from None
        return known[1]


def _get_mtime(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


@dataclass(frozen=True)
class Settings:
    """How documents are processed. `model` creates the model of a name, behind its gate: `config.model`."""

    blobs: Blobs
    lake: Lake
    types: Types = field(default_factory=Types)
    model: Callable[[str], Model] | None = None
    models: Mapping[str, str] = field(default_factory=dict)  #: the available models and their gates
    default_model: str = LOCAL  #: if neither the upload nor its type names one
    outbox: Outbox | None = None  #: the statement that writes webhook deliveries
    sla: float = SLA
    ocr: OCR = "auto"
    model_deadline: float = Ask().deadline  #: seconds for one call of a model
    pages_sent: int = MOST_PAGES  #: pages of one document that are sent to a model
    limits: Limits | None = None
    sandbox: Sandbox | None = None
    lease: float = 60.0
    timeout: float = 3600.0
    retry_base: float = 10.0
    concurrency: int | None = None  #: documents at once in one worker

    @property
    def words(self) -> Words:
        """The words of pages."""
        return Words(self.blobs.root)

    def gates(self) -> dict[str, str | None]:
        """Every model, the local one first, with its gate."""
        return {LOCAL: None, **{name: gate for name, gate in self.models.items() if name != LOCAL}}

    def choose_model(self, requested: str | None, doctype: DocumentType | None) -> str:
        """The model for an upload: the requested one, else its type's, else the default."""
        name = requested or (doctype.processing.model if doctype else None) or self.default_model
        if name not in self.gates():
            raise Unknown("model", name, list(self.gates()))
        return name


def settings_of(config: Config, environment: Environment | None = None) -> Settings:
    """The configured settings of documents in this environment (default: the first).

    A file is deleted when no document of its database has it, so each database has its own folders: the first one uses
    the data folder and the lake themselves, every other a folder of its name in them.
    """
    section = config.section("documents")
    subfolder = environment.name if environment is not None and environment != config.environments[0] else None
    return Settings(
        blobs=open_blobs(config.blobs, config.data, f"{subfolder}/blobs" if subfolder else "blobs", config.cache_bytes),
        lake=Lake(f"{config.lake.rstrip('/')}/{subfolder}" if subfolder else config.lake),
        types=Types(config.types),
        model=functools.partial(model, config=config),
        models=model_gates(config),
        default_model=_default_model(config),
        outbox=document_outbox,
        sla=float(section.get("sla", Settings.sla)),
        ocr=section.get("ocr", Settings.ocr),
        timeout=float(section.get("timeout", Settings.timeout)),
        model_deadline=float(section.get("model_deadline", Settings.model_deadline)),
        pages_sent=section.get("pages_sent", Settings.pages_sent),
    )


def _default_model(config: Config) -> str:
    """The model that reads a document for which none was chosen; raises if there is no such model."""
    name, known = config.section("documents").get("model", LOCAL), [LOCAL, *model_gates(config)]
    if name not in known:
        raise ConfigurationError(f"documents.model: unknown model {name!r}; known: {', '.join(known)}")
    return str(name)


def gates_of(config: Config) -> dict[str, GateSettings]:
    """Settings of gates that the configuration does not set: the strictest of the types that name their model."""
    gates = model_gates(config)
    strictest: dict[str, GateSettings] = {}
    for doctype in Types(config.types).all():
        gate = gates.get(doctype.processing.model or config.section("documents").get("model", ""))
        if gate is None or gate in config.gates:
            continue
        rules, current = doctype.processing, strictest.get(gate, GateSettings(threshold=sys.maxsize, recovery=1e-9))
        strictest[gate] = GateSettings(
            threshold=min(rules.failure_threshold, current.threshold),
            recovery=max(rules.recovery_timeout, current.recovery),
        )
    return strictest
