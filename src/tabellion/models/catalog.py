"""Creates a model from its name and settings."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from tabellion import extras
from tabellion.errors import ConfigurationError
from tabellion.models.address import check as check_address
from tabellion.models.base import Model
from tabellion.net.guard import Rules

GROUP = "tabellion.models"  #: the entry point group for models of other packages


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A named model, and the common environment variables for it."""

    target: str  #: package.module:Class
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


MODELS: dict[str, CatalogEntry] = {
    "gemini": CatalogEntry(
        "tabellion.models.gemini:Gemini",
        {
            "key": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            "base_url": ("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
            "model": ("GEMINI_MODEL",),
            "api_version": ("GEMINI_API_VERSION", "GOOGLE_GENAI_API_VERSION"),
        },
    ),
    "openai": CatalogEntry(
        "tabellion.models.openai:OpenAI",
        {"key": ("OPENAI_API_KEY",), "base_url": ("OPENAI_BASE_URL",), "model": ("OPENAI_MODEL",)},
    ),
    "deepinfra": CatalogEntry(
        "tabellion.models.deepinfra:DeepInfra",
        {
            "key": ("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"),
            "base_url": ("DEEPINFRA_BASE_URL",),
            "model": ("DEEPINFRA_MODEL",),
        },
    ),
    "local": CatalogEntry("tabellion.models.local:Local"),
}


def names() -> list[str]:
    """Every name that `make` accepts, including other packages'."""
    return [*MODELS, *(entry_point.name for entry_point in entry_points(group=GROUP) if entry_point.name not in MODELS)]


def check(name: str) -> None:
    """Raises a ConfigurationError for a name that `make` does not know."""
    if name not in MODELS:
        _entry(name)


def models_with_key(variables: Mapping[str, str] | None = None) -> list[str]:
    """The models whose key is set in an environment variable."""
    variables = os.environ if variables is None else variables
    return [
        name
        for name, entry in MODELS.items()
        if _first(variables, [variable(name, "key"), *entry.variables.get("key", ())])
    ]


def make(
    name: str, settings: Mapping[str, Any] | None = None, variables: Mapping[str, str] | None = None,
    rules: Rules | None = None,
) -> Model:  # fmt: skip
    """Creates the model `name`: one of ours, one of an installed package, or `package.module:Class`.

    `settings` are its arguments (`key`, `base_url`, `model`, `prices`, …). `TABELLION_<NAME>_API_KEY`, `_BASE_URL`
    and `_MODEL` override them; the common names (`GEMINI_API_KEY`, …) fill what is missing. `rules` say which networks
    are one's own.
    """
    variables = os.environ if variables is None else variables
    entry = MODELS.get(name) or _entry(name)
    kind = _import_target(name, entry.target)
    label = name.rpartition(":")[2].lower() if ":" in name else name
    parameters = inspect.signature(kind).parameters
    chosen = {key: value for key, value in (settings or {}).items() if value is not None}
    _check(label, chosen, parameters.values())
    for key in ("key", "base_url", "model", "api_version"):
        if key in parameters:
            value = _first(variables, [variable(label, key)])
            value = value or chosen.get(key) or _first(variables, entry.variables.get(key, ()))
            if value:
                chosen[key] = value
    if "key" in parameters and "key" not in chosen and _needs_key(name, parameters["key"], chosen):
        known = [*entry.variables.get("key", ()), variable(label, "key")]
        raise ConfigurationError(f"{label} requires a key: set {' or '.join(known)}")
    try:
        model = kind(**chosen)
    except TypeError as error:
        raise ConfigurationError(f"{label}: {error}") from None
    if not all(hasattr(model, part) for part in ("name", "model", "call", "close")):
        raise ConfigurationError(f"{entry.target} is not a model: it must have name, model, call() and close()")
    if isinstance(address := getattr(model, "base_url", None), str):
        check_address(label, address, rules)
    return model  # type: ignore[no-any-return]


def variable(label: str, key: str) -> str:
    """Our own environment variable for a setting of a model."""
    return f"TABELLION_{label.upper().replace('-', '_')}_{'API_KEY' if key == 'key' else key.upper()}"


def _needs_key(name: str, parameter: inspect.Parameter, chosen: Mapping[str, Any]) -> bool:
    """Whether a key is required: by the providers' own addresses, but not always by one's own server."""
    return parameter.default is inspect.Parameter.empty or (name in MODELS and "base_url" not in chosen)


def _first(variables: Mapping[str, str], candidates: Iterable[str]) -> str | None:
    return next((variables[candidate] for candidate in candidates if variables.get(candidate)), None)


def _entry(name: str) -> CatalogEntry:
    if ":" in name:
        return CatalogEntry(name)
    for entry_point in entry_points(group=GROUP):
        if entry_point.name == name:
            return CatalogEntry(entry_point.value)
    known = names()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}, or package.module:Class"
    raise ConfigurationError(f"unknown model {name!r}; {hint}")


def _import_target(name: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        missing = extras.explain(error) if isinstance(error, ModuleNotFoundError) else None
        raise missing or ConfigurationError(f"model {name!r}: {module} cannot be imported: {error}") from error
    except AttributeError:
        raise ConfigurationError(f"model {name!r}: {module} has no {attribute}") from None


def _check(label: str, chosen: Mapping[str, Any], parameters: Iterable[inspect.Parameter]) -> None:
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    for key in chosen:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"
            raise ConfigurationError(f"models.{label}: unknown key {key!r}; {hint}")
