"""Settings: `tabellion.toml`, overridden by environment variables."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.config_keys import DATABASE_VARIABLES, KEYS, TABLES, VARIABLES
from tabellion.engine.environment import Environment
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError
from tabellion.pipeline import Key, installed_pipelines

if TYPE_CHECKING:
    from tabellion.engine.context import JobContext
    from tabellion.models.gated import GatedModel

FILE = "tabellion.toml"
DATA = Path("tabellion-data")

LOOPBACK = ("127.0.0.0/8", "::1/128")
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
    grace: float = 30.0
    poll: float = 1.0
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
    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str = ""  #: its URL for browsers; empty: the address it listens on
    proxies: tuple[str, ...] = LOOPBACK  #: whose `X-Forwarded-For` is trusted, as CIDR
    upload_bytes: int = 100_000_000
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  #: the tables of pipelines
    json_bytes: int = 1_000_000
    rate: float = 200.0  #: requests per second of one key or person
    allow: tuple[str, ...] = ()  #: private networks that URLs of users may point to, as CIDR
    all_workers: bool = True  #: admins of the served environment see the workers of all environments

    def section(self, name: str) -> Mapping[str, Any]:
        """The configured keys of a pipeline's table."""
        return self.sections.get(name, {})


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
    environments = _environments(settings.pop("environments", None), variables, own_url)
    level = str(settings.get("log.level", "info")).lower()
    if level not in LEVELS:
        raise ConfigurationError(f"log.level: {level!r} is not one of {', '.join(LEVELS)}")
    for key in ("worker.concurrency", "worker.processes", "server.upload_bytes", "server.json_bytes"):
        if settings.get(key, 1) < 1:
            raise ConfigurationError(f"{key}: {settings[key]} must be at least 1")
    for key in ("server.rate", "worker.grace"):
        if not settings.get(key, 0) >= 0:
            raise ConfigurationError(f"{key}: {settings[key]} must be 0 or more")
    if not settings.get("worker.poll", 1) > 0:
        raise ConfigurationError(f"worker.poll: {settings['worker.poll']} must be more than 0")
    if not 0 <= settings.get("server.port", 0) <= 65535:
        raise ConfigurationError(
            f"server.port: {settings['server.port']} is not a valid port: use 1 to 65535, or 0 to pick one"
        )
    return Config(
        queues=settings.get("queues"),
        pipelines=_pipelines(settings.get("pipelines", [])),
        environments=environments,
        has_own_database=[environment.url for environment in environments] == [own_url],
        concurrency=settings.get("worker.concurrency", Config.concurrency),
        processes=settings.get("worker.processes", Config.processes),
        worker_name=settings.get("worker.name"),
        grace=float(settings.get("worker.grace", Config.grace)),
        poll=float(settings.get("worker.poll", Config.poll)),
        log_level=level,
        log_json=settings.get("log.json", False),
        file=path if path.exists() else None,
        gates=_gates(settings.get("gates", {})),
        gates_at=_home(settings.get("gates_at"), environments),
        models=_models(settings.get("models", {}), variables),
        prices=_prices(settings["prices"]) if "prices" in settings else {},
        types=_folders(settings["types"]) if "types" in settings else Config.types,
        data=data,
        lake=_expand_variables(settings.get("lake", str(data)), "lake", variables),
        host=settings.get("server.host", Config.host),
        port=settings.get("server.port", Config.port),
        public_url=_origin(settings.get("server.public_url", "")),
        upload_bytes=settings.get("server.upload_bytes", Config.upload_bytes),
        sections=_sections(settings),
        json_bytes=settings.get("server.json_bytes", Config.json_bytes),
        rate=float(settings.get("server.rate", Config.rate)),
        allow=_networks(settings.get("server.allow", [])),
        all_workers=settings.get("server.all_workers", Config.all_workers),
        proxies=_networks(settings.get("server.proxies", list(LOOPBACK)), "server.proxies"),
    )


def _sections(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The configured tables of pipelines; numbers must be more than 0."""
    sections: dict[str, dict[str, Any]] = {}
    choices = {key: words for pipeline in installed_pipelines().values() for key, words in pipeline.choices.items()}
    for key in (key for pipeline in installed_pipelines().values() for key in pipeline.keys if key in settings):
        value = settings[key]
        if value not in choices.get(key, (value,)):
            raise ConfigurationError(f"{key}: {value!r} is not one of {', '.join(choices[key])}")
        if isinstance(value, int | float) and not isinstance(value, bool) and not value > 0:
            raise ConfigurationError(f"{key}: {value} must be more than 0")
        section, _, name = key.partition(".")
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


def _environments(
    entries: Mapping[str, Any] | None, variables: Mapping[str, str], default: str
) -> tuple[Environment, ...]:
    for variable in DATABASE_VARIABLES:
        if variables.get(variable) and (variable == DATABASE_VARIABLES[0] or not entries):
            return (Environment("default", variables[variable]),)
    if not entries:
        return (Environment("default", default),)
    environments = []
    for name, value in entries.items():
        entry = {"url": value} if isinstance(value, str) else value
        if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
            raise ConfigurationError(f'environments.{name}: write {name} = "URL" or {name} = {{ url = "URL" }}')
        unknown = set(entry) - {"url", "share", "deadline"}
        if unknown:
            raise ConfigurationError(
                f"environments.{name}: unknown key {sorted(unknown)[0]!r}; known: url, share, deadline"
            )
        for number in ("share", "deadline"):
            if not isinstance(entry.get(number, 1), int | float) or isinstance(entry.get(number), bool):
                raise ConfigurationError(f"environments.{name}: {number} = {entry[number]!r} is not a number")
        url = _expand_variables(entry["url"], f"environments.{name}", variables)
        environments.append(Environment(name, url, share=entry.get("share"), deadline=entry.get("deadline")))
    return tuple(environments)


def _expand_variables(text: str, key: str, variables: Mapping[str, str]) -> str:
    """The text with `${NAME}` replaced, so that secrets stay out of the file."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise ConfigurationError(f"{key}: the environment variable {match[1]} is not set")
        return variables[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)


def _pipelines(names: list[Any]) -> tuple[str, ...]:
    if any(not isinstance(name, str) for name in names):
        raise ConfigurationError('pipelines: write names, e.g. pipelines = ["documents"]')
    return tuple(names)


def _gates(entries: Mapping[str, Any]) -> dict[str, GateSettings]:
    known = [setting.name for setting in fields(GateSettings)]
    gates = {}
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise ConfigurationError(f"gates.{name}: write {name} = {{ rate = 5, budget = 10 }}")
        for key in entry:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
                raise ConfigurationError(f"gates.{name}: unknown key {key!r}{hint}")
        try:
            gates[name] = GateSettings(**entry)
        except ConfigurationError as error:
            raise ConfigurationError(f"gates.{name}: {error}") from error
    return gates


def _home(name: str | None, environments: tuple[Environment, ...]) -> Environment:
    """The environment whose database has the gates."""
    for environment in environments:
        if name in (None, environment.name):
            return environment
    names = ", ".join(repr(environment.name) for environment in environments)
    raise ConfigurationError(f"gates_at: unknown environment {name!r}; known: {names}")


def _folders(value: str | list[Any]) -> tuple[Path, ...]:
    """The folders in order; in a variable they are separated as in PATH."""
    folders = value.split(os.pathsep) if isinstance(value, str) else value
    for folder in folders:
        if not isinstance(folder, str) or not folder:
            raise ConfigurationError(f'types: {folder!r} is not a folder; write types = ["types", "/srv/types"]')
    return tuple(Path(folder).expanduser() for folder in folders)


def _origin(url: str) -> str:
    """The URL without its last slash; a path is not allowed, as links do not contain it."""
    if url and not re.fullmatch(
        r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?|https?://\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?/?", url
    ):
        raise ConfigurationError(
            f"server.public_url: {url!r} is not a URL without a path, such as https://docs.example.com"
        )
    return url.rstrip("/").lower()


def _networks(networks: list[Any], key: str = "server.allow") -> tuple[str, ...]:
    from tabellion.net.guard import Rules  # most commands fetch no URL

    try:
        Rules.of(networks)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error}") from error
    return tuple(networks)


def _prices(entries: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
    from tabellion.models import prices  # most commands need no model

    prices.table(entries)
    for model_name, entry in entries.items():
        for key in entry.keys() & {"input", "output", "cached"}:
            if not isinstance(entry[key], int | float) or isinstance(entry[key], bool):
                raise ConfigurationError(f"prices.{model_name}: {key} = {entry[key]!r} is not a number")
    return entries


def _models(entries: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    models = {}
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise ConfigurationError(f'models.{name}: write {name} = {{ model = "…" }}')
        models[name] = {
            key: _expand_variables(value, f"models.{name}.{key}", variables) if isinstance(value, str) else value
            for key, value in entry.items()
        }
    return models


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
