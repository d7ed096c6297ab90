"""The settings of websites: analysis types, models, slots, throttles, and what a visit may do."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.errors import ConfigurationError, TabellionError
from tabellion.messages import Message, quote_value
from tabellion.models.base import Ask, Model
from tabellion.net.guard import Rules
from tabellion.pipelines.websites import analysis_type_file
from tabellion.pipelines.websites.analysis_type import AnalysisType
from tabellion.pipelines.websites.rules.apply import LOCAL
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.pipelines.websites.site.settings import VisitSettings
from tabellion.storage.blobs import Blobs
from tabellion.storage.configured_blobs import open_blobs

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.net.chromium import Chromium

SLOTS = 10  #: of each phase
BACKLOG = 1000  #: jobs that may wait for their visit
RETRIES = 3  #: after the first attempt, in each phase
TIMEOUT = 300.0  #: seconds that a phase may take
DEFAULT_TYPE = "profile"
CYCLE = 5.0  #: seconds of a cycle, for those who limit jobs per cycle
MOST_MODELS = 8  #: side by side in one job

Visit = Callable[[str, VisitSettings, Path, Callable[[Message], None]], Awaitable[WebsiteInfo]]


class UnknownName(TabellionError):  # noqa: N818 - what it is
    """A type or model that does not exist, or a model that the type cannot use."""

    def __init__(self, field_: str, message: str, known: Sequence[str] = ()) -> None:
        self.field, self.known = field_, tuple(known)
        super().__init__(message)


@dataclass(frozen=True)
class WebsiteSettings:
    """The settings that queues, handlers and routes use. `make_model` creates a model behind its gate."""

    blobs: Blobs
    folders: tuple[Path, ...] = (analysis_type_file.FOLDER,)
    default_type: str = DEFAULT_TYPE
    default_model: str = LOCAL
    models: Mapping[str, str] = field(default_factory=dict)  #: the available models with their gates
    make_model: Callable[[str], Model] | None = None
    slots: Mapping[str, int] = field(default_factory=dict)  #: by queue; where missing, 10
    backlog: int = BACKLOG
    retries: int = RETRIES
    lease: float = 60.0
    timeout: float = TIMEOUT
    retry_base: float = 10.0
    model_deadline: float = Ask().deadline
    pace: tuple[tuple[int, float], ...] = ()  #: most jobs that one worker starts in so many seconds
    visit: VisitSettings = field(default_factory=VisitSettings)
    run_visit: Visit | None = None  #: in place of a real visit, for tests

    def types(self) -> dict[str, Path]:
        """The files of the types by name."""
        return analysis_type_file.find_files(self.folders)

    def get_type(self, name: str) -> AnalysisType:
        """A type by its name; raises UnknownName, or TypeFileError with the mistakes in its file."""
        found = self.types()
        if name not in found:
            message = Message("website.unknown_type", value=quote_value(name), known=list(found))
            raise UnknownName("type", message, list(found))
        return read_type(found[name])

    def all_types(self) -> list[AnalysisType]:
        """Every type without mistakes."""
        types = []
        for path in self.types().values():
            with contextlib.suppress(ConfigurationError):
                types.append(read_type(path))
        return types

    def check_types(self) -> None:
        """Raises a ConfigurationError with the mistakes of all types."""
        wrong = []
        for path in self.types().values():
            try:
                read_type(path)
            except ConfigurationError as error:
                wrong.append(str(error))
        if wrong:
            raise ConfigurationError("\n".join(wrong))

    def choose_models(self, kind: AnalysisType, requested: Sequence[str] = ()) -> tuple[str, ...]:
        """The models for a job: the requested ones, else those of the type, else the configured one."""
        chosen = tuple(dict.fromkeys(requested or kind.models or (self.default_model,)))
        known = [*([LOCAL] if kind.rules else []), *(name for name in self.models if name != LOCAL)]
        for name in chosen:
            if name == LOCAL and kind.rules is None:
                raise UnknownName("models", Message("website.needs_model", type=kind.name, known=known), known)
            if name not in known:
                raise UnknownName(
                    "models", Message("website.unknown_model", value=quote_value(name), known=known), known
                )
        if len(chosen) > MOST_MODELS:
            raise UnknownName("models", Message("website.too_many_models", n=len(chosen), most=MOST_MODELS), known)
        return chosen

    def slots_of(self, queue: str) -> int:
        """How many jobs of a queue one worker runs at once."""
        return self.slots.get(queue, SLOTS)


@functools.lru_cache(maxsize=64)
def _read(path: Path, _stamp: tuple[int, int]) -> AnalysisType:
    return analysis_type_file.read_file(path)


def read_type(path: Path) -> AnalysisType:
    """The type of a file, read again only if the file has changed."""
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    return _read(path, (status.st_mtime_ns, status.st_size))


def settings_of(config: Config, environment: Environment | None = None, rules: Rules | None = None) -> WebsiteSettings:
    """The configured settings for an environment (default: the first); an error names the key that is wrong."""
    from tabellion.config import model, model_gates
    from tabellion.pipelines.websites.states import ANALYSIS, INFO, MODELS, PROMPTS

    section = config.section("websites")
    subfolder = environment.name if environment is not None and environment != config.environments[0] else None
    folders = section.get("types", [str(analysis_type_file.FOLDER)])
    if not all(isinstance(folder, str) and folder for folder in folders):
        raise ConfigurationError('websites.types: write folders, e.g. types = ["analyses"]')
    gates = model_gates(config)
    default = str(section.get("model", LOCAL))
    if default not in (LOCAL, *gates):
        raise ConfigurationError(
            f"websites.model: unknown model {default!r}; known: {', '.join((LOCAL, *gates))}. Set its key, or add it "
            "to [models]"
        )
    model_slots = section.get("model_slots", SLOTS)
    return WebsiteSettings(
        blobs=open_blobs(
            config.blobs, config.data, f"{subfolder}/websites" if subfolder else "websites", config.cache_bytes
        ),
        folders=tuple(Path(folder).expanduser() for folder in folders),
        default_type=str(section.get("type", DEFAULT_TYPE)), default_model=default, models=gates,
        make_model=functools.partial(model, config=config),
        slots={
            INFO.queue: section.get("visit_slots", SLOTS), PROMPTS.queue: section.get("prompt_slots", SLOTS),
            ANALYSIS.queue: model_slots, MODELS: model_slots,
        },
        backlog=section.get("backlog", BACKLOG), retries=section.get("retries", RETRIES),
        lease=float(section.get("lease", WebsiteSettings.lease)),
        timeout=float(section.get("timeout", TIMEOUT)),
        model_deadline=float(section.get("model_deadline", WebsiteSettings.model_deadline)),
        pace=pace_of(section), visit=visit_settings(section, rules or Rules.of(config.allow)),
    )  # fmt: skip


def pace_of(section: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    """The throttles: jobs per cycle, and jobs per scan interval; none unless they are set."""
    pace = []
    if "per_cycle" in section:
        pace.append((int(section["per_cycle"]), float(section.get("cycle", CYCLE))))
    if ("scan_limit" in section) != ("scan_interval" in section):
        raise ConfigurationError("websites.scan_limit and websites.scan_interval are set together, or not at all")
    if "scan_limit" in section:
        pace.append((int(section["scan_limit"]), float(section["scan_interval"])))
    return tuple(pace)


def visit_settings(section: Mapping[str, Any], rules: Rules) -> VisitSettings:
    """What a visit may do."""
    names = {"pages": "pages", "pause": "pause", "browser": "browser", "screenshots": "screenshot",
             "robots": "respect_robots", "user_agent": "user_agent"}  # fmt: skip
    chosen = {name: section[key] for key, name in names.items() if key in section}
    try:
        return VisitSettings(guard=rules, **chosen)
    except ValueError as error:
        raise ConfigurationError(f"websites: {error}") from None


def find_chromium(rules: Rules) -> Chromium | None:
    """A browser for visits; None if this machine has none: pages are then read as servers send them."""
    from tabellion.net.chromium import Chromium, check_installed

    try:
        check_installed()
    except ConfigurationError:
        return None
    return Chromium(rules)
