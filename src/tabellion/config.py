"""Settings: `tabellion.toml`, overridden by environment variables."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.config_keys import KEYS, TABLES, VARIABLES
from tabellion.config_values import (
    BROKERS,
    expand_variables,
    find_gates_environment,
    read_broker,
    read_environments,
    read_folders,
    read_gates,
    read_models,
    read_networks,
    read_origin,
    read_prices,
)
from tabellion.engine.environment import Environment
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import installed_pipelines
from tabellion.pipeline import Key
from tabellion.retention import TIMES, read_times
from tabellion.sla import SlaSettings, read_sla

if TYPE_CHECKING:
    from tabellion.engine.context import JobContext
    from tabellion.models.gated import GatedModel

FILE = "tabellion.toml"
DATA = Path("tabellion-data")

LOOPBACK = ("127.0.0.0/8", "::1/128")
METRICS = ("key", "loopback")
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Config:
    """The configuration, with every default filled in."""

    queues: str | None = None
    pipelines: tuple[str, ...] = ()
    environments: tuple[Environment, ...] = ()
    has_own_database: bool = False  #: none was configured: it is a file in the data folder
    concurrency: int = 100
    processes: int = 1
    worker_name: str | None = None
    worker: frozenset[str] = frozenset()  #: keys of `[worker]` that are set, e.g. `poll`
    grace: float = 30.0
    poll: float = 1.0
    metrics_port: int | None = None  #: of the first worker process; None: workers serve no metrics
    metrics_host: str = "127.0.0.1"
    broker: str | None = field(default=None, repr=False)  #: its URL, which may have a password
    celery_prefix: str = "tabellion"
    log_level: str = "info"
    log_json: bool = False
    file: Path | None = None
    gates: Mapping[str, GateSettings] = field(default_factory=dict)
    gates_at: Environment | None = None
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    types: tuple[Path, ...] = (Path("types"),)
    data: Path = DATA
    lake: str = str(DATA)  #: a folder, or s3://bucket/prefix
    blobs: str = ""  #: a folder, or s3://bucket/prefix; empty: the data folder
    cache_bytes: int = 10_000_000_000  #: of copies of files that are in a bucket
    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str = ""  #: its URL for browsers; empty: the address it listens on
    proxies: tuple[str, ...] = LOOPBACK  #: whose `X-Forwarded-For` is trusted, as CIDR
    upload_bytes: int = 100_000_000
    #: The tables of pipelines; some have secrets.
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    json_bytes: int = 1_000_000
    rate: float = 200.0  #: requests per second of one key or person
    allow: tuple[str, ...] = ()  #: private networks that URLs of users may point to, as CIDR
    metrics: str = "key"  #: who reads the metrics of the server: one of METRICS
    retention: Mapping[str, float | None] = field(default_factory=dict)  #: seconds by rule; None: never removed
    sla: SlaSettings = field(default_factory=SlaSettings)  #: the targets of queues
    all_workers: bool = True  #: admins of the served environment see the workers of all environments

    def folder_of(self, environment: Environment | None) -> Path:
        """The folder of an environment's files: the data folder for the first one, one of its name in it for others."""
        if environment is None or environment == self.environments[0]:
            return self.data
        return self.data / environment.name

    def section(self, name: str) -> Mapping[str, Any]:
        """The configured keys of a pipeline's table."""
        return self.sections.get(name, {})

    def keep(self, rule: str, default: float | None = None) -> float | None:
        """The seconds that what a retention rule is about is kept; None: it is never removed."""
        return self.retention.get(rule, default)


def load(file: Path | None = None, variables: Mapping[str, str] | None = None) -> Config:
    """Reads the configuration; every error names the key and what to write instead."""
    variables = os.environ if variables is None else variables
    path = file or Path(variables.get("TABELLION_CONFIG") or FILE)
    settings: dict[str, Any] = {}
    if path.exists():
        settings = _read(path)
    elif file is not None or variables.get("TABELLION_CONFIG"):
        raise ConfigurationError(f"{path}: file not found")
    _override(settings, variables)
    data = Path(settings.get("data", DATA)).expanduser()
    own_url = f"sqlite:///{data}/tabellion.db"
    environments = read_environments(settings.pop("environments", None), variables, own_url)
    level = str(settings.get("log.level", "info")).lower()
    if level not in LEVELS:
        raise ConfigurationError(f"log.level: {level!r} is not one of {', '.join(LEVELS)}")
    for key in ("worker.concurrency", "worker.processes", "server.upload_bytes", "server.json_bytes", "cache_bytes"):
        if settings.get(key, 1) < 1:
            raise ConfigurationError(f"{key}: {settings[key]} must be at least 1")
    for key in ("server.rate", "worker.grace"):
        if not settings.get(key, 0) >= 0:
            raise ConfigurationError(f"{key}: {settings[key]} must be 0 or more")
    if not settings.get("worker.poll", 1) > 0:
        raise ConfigurationError(f"worker.poll: {settings['worker.poll']} must be more than 0")
    for key in ("server.port", "worker.metrics_port"):
        if not 0 <= settings.get(key, 0) <= 65535:
            raise ConfigurationError(f"{key}: {settings[key]} is not a valid port: use 1 to 65535, or 0 to pick one")
    if settings.get("server.metrics", "key") not in METRICS:
        raise ConfigurationError(f"server.metrics: {settings['server.metrics']!r} is not one of {', '.join(METRICS)}")
    return Config(
        queues=settings.get("queues"),
        pipelines=_pipelines(settings.get("pipelines", [])),
        environments=environments,
        has_own_database=[environment.url for environment in environments] == [own_url],
        concurrency=settings.get("worker.concurrency", Config.concurrency),
        processes=settings.get("worker.processes", Config.processes),
        worker_name=settings.get("worker.name"),
        worker=frozenset(key.removeprefix("worker.") for key in settings if key.startswith("worker.")),
        grace=float(settings.get("worker.grace", Config.grace)),
        poll=float(settings.get("worker.poll", Config.poll)),
        metrics_port=settings.get("worker.metrics_port"),
        metrics_host=settings.get("worker.metrics_host", Config.metrics_host),
        broker=read_broker(settings.get("celery.broker"), variables),
        celery_prefix=settings.get("celery.prefix", Config.celery_prefix),
        log_level=level,
        log_json=settings.get("log.json", False),
        file=path if path.exists() else None,
        gates=read_gates(settings.get("gates", {})),
        gates_at=find_gates_environment(settings.get("gates_at"), environments),
        models=read_models(settings.get("models", {}), variables),
        prices=read_prices(settings["prices"]) if "prices" in settings else {},
        types=read_folders(settings["types"]) if "types" in settings else Config.types,
        data=data,
        lake=expand_variables(settings.get("lake", str(data)), "lake", variables),
        blobs=_blobs(expand_variables(settings.get("blobs", ""), "blobs", variables)),
        cache_bytes=settings.get("cache_bytes", Config.cache_bytes),
        host=settings.get("server.host", Config.host),
        port=settings.get("server.port", Config.port),
        public_url=read_origin(settings.get("server.public_url", "")),
        upload_bytes=settings.get("server.upload_bytes", Config.upload_bytes),
        sections=_sections(settings, variables),
        json_bytes=settings.get("server.json_bytes", Config.json_bytes),
        rate=float(settings.get("server.rate", Config.rate)),
        allow=read_networks(settings.get("server.allow", [])),
        metrics=settings.get("server.metrics", Config.metrics),
        all_workers=settings.get("server.all_workers", Config.all_workers),
        retention=read_times(settings),
        sla=read_sla(settings),
        proxies=read_networks(settings.get("server.proxies", list(LOOPBACK)), "server.proxies"),
    )


def _sections(settings: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The configured tables of pipelines: numbers more than 0, or 0 where `zeros` allows it; `${NAME}` is replaced."""
    sections: dict[str, dict[str, Any]] = {}
    choices = {key: words for pipeline in installed_pipelines().values() for key, words in pipeline.choices.items()}
    zeros = {key for pipeline in installed_pipelines().values() for key in pipeline.zeros}
    for key in (key for pipeline in installed_pipelines().values() for key in pipeline.keys if key in settings):
        if key.startswith(TIMES):
            continue  # see Config.retention
        value = settings[key]
        if value not in choices.get(key, (value,)):
            raise ConfigurationError(f"{key}: {value!r} is not one of {', '.join(choices[key])}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not (value > 0 or (value == 0 and key in zeros)):
            raise ConfigurationError(f"{key}: {value} must be {'0 or more' if key in zeros else 'more than 0'}")
        section, _, name = key.partition(".")
        if isinstance(value, str):
            value = expand_variables(value, key, variables)
        elif isinstance(value, dict):
            value = {
                inner: expand_variables(text, f"{key}.{inner}", variables) if isinstance(text, str) else text
                for inner, text in value.items()
            }
        sections.setdefault(section, {})[name] = value
    return sections


def known_keys() -> dict[str, Key]:
    """Every known key: ours, and those of pipelines."""
    return KEYS | {
        key: description for pipeline in installed_pipelines().values() for key, description in pipeline.keys.items()
    }


def known_variables() -> dict[str, str]:
    """Every environment variable that sets a key, with that key."""
    return VARIABLES | {
        name: key for pipeline in installed_pipelines().values() for name, key in pipeline.variables.items()
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    settings: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict) and key not in TABLES:
            settings |= {f"{key}.{inner}": inner_value for inner, inner_value in value.items()}
        else:
            settings[key] = value
    known = known_keys()
    for key, value in settings.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known)}"
            raise ConfigurationError(f"{path}: unknown key {key!r}{hint}")
        _check_type(key, value, str(path))
    return settings


def _check_type(key: str, value: object, where: str) -> None:
    expected, meaning = known_keys()[key]
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise ConfigurationError(f"{where}: {key} = {value!r} is not valid: {meaning}")


def _override(settings: dict[str, Any], variables: Mapping[str, str]) -> None:
    already_set: set[str] = set()
    for variable, key in known_variables().items():
        text = variables.get(variable)
        if not text or key in already_set:
            continue
        if variable == "LOG_LEVEL" and text.lower() not in LEVELS:
            continue  # a level of another program: the variable is a common one
        if variable == "REDIS_URL" and text.partition("://")[0] not in BROKERS:
            continue  # of another program, which knows other kinds of URLs
        already_set.add(key)
        settings[key] = _convert_value(key, text, variable)


def _convert_value(key: str, text: str, variable: str) -> Any:
    expected, meaning = known_keys()[key]
    try:
        if expected is bool:
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
        if expected is int:
            return int(text)
        if expected is list:
            return [item.strip() for item in text.split(",") if item.strip()]
        return float(text) if expected == (int, float) else text
    except (KeyError, ValueError):
        raise ConfigurationError(f"{variable}={text!r} is not valid: {meaning}") from None


def _pipelines(names: list[Any]) -> tuple[str, ...]:
    if any(not isinstance(name, str) for name in names):
        raise ConfigurationError('pipelines: write names, e.g. pipelines = ["documents"]')
    return tuple(names)


def _blobs(place: str) -> str:
    """The folder or bucket of received files."""
    if "://" in place and not re.match(r"s3://[^/]", place):
        raise ConfigurationError(f"blobs: {place!r} is neither a folder nor s3://bucket/prefix")
    return place if not place or place.startswith("s3://") else str(Path(place).expanduser())


def model_gates(config: Config) -> dict[str, str]:
    """Every usable model with the name of its gate: the configured ones, and those whose key is in a variable."""
    from tabellion.models import catalog

    gates = {}
    for name, entry in config.models.items():
        try:
            catalog.check(name)
        except ConfigurationError as error:
            raise ConfigurationError(f"models.{name}: {error}") from None
        gates[name] = str(entry.get("gate") or name)
    return gates | {name: name for name in catalog.models_with_key() if name not in gates}


def model(name: str, config: Config | None = None, context: JobContext | None = None) -> GatedModel:
    """The configured model of this name, behind its gate and with its memos: what handlers call.

    Outside a worker it needs a context: `async with OpenContext(config.gates_at, config.gates) as context`.

    >>> gemini = model("gemini")
    >>> reply = await gemini.call([page, "Read this page."])
    """
    from tabellion.models import catalog  # most commands need no model
    from tabellion.models.gated import GatedModel
    from tabellion.net.guard import Rules

    config = config or load()
    settings = dict(config.models.get(name, {}))
    gate = settings.pop("gate", None)
    if config.prices and "prices" not in settings and name != "local":
        settings["prices"] = config.prices
    if name == "local":
        settings.setdefault("types", config.types)
    return GatedModel(catalog.make(name, settings, rules=Rules.of(config.allow)), gate=gate, context=context)
