"""Reads the settings that are more than a text or a number: environments, gates, models, prices, folders, networks."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tabellion.config_keys import DATABASE_VARIABLES
from tabellion.engine.environment import Environment
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError

BROKERS = ("redis", "rediss", "amqp", "amqps")


def read_environments(
    entries: Mapping[str, Any] | None, variables: Mapping[str, str], default: str
) -> tuple[Environment, ...]:
    """The configured environments, in the order in which they are polled."""
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
        url = expand_variables(entry["url"], f"environments.{name}", variables)
        environments.append(Environment(name, url, share=entry.get("share"), deadline=entry.get("deadline")))
    return tuple(environments)


def expand_variables(text: str, key: str, variables: Mapping[str, str]) -> str:
    """The text with `${NAME}` replaced, so that secrets stay out of the file."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise ConfigurationError(f"{key}: the environment variable {match[1]} is not set")
        return variables[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)


def read_broker(url: str | None, variables: Mapping[str, str]) -> str | None:
    """The broker's URL; several, for failover, are separated by semicolons."""
    if url is None:
        return None
    url = expand_variables(url, "celery.broker", variables)
    for one in url.split(";"):
        # Neither error quotes the URL: it may have a password.
        if one.partition("://")[0] not in BROKERS or "://" not in one:
            raise ConfigurationError(
                f"celery.broker: a URL begins with one of {', '.join(f'{scheme}://' for scheme in BROKERS)}"
            )
        try:
            parts = urlsplit(one)
            is_whole = parts.port != 0 and "@" not in parts.path + parts.query + parts.fragment
            if parts.scheme.startswith("redis"):
                int(parts.path[1:] or 0)  # the number of a database
        except ValueError:
            is_whole = False
        if not is_whole:
            raise ConfigurationError(
                "celery.broker: the URL cannot be read, e.g. redis://:PASSWORD@HOST:6379/0; "
                "write %2F, %3F, %23 and %40 for the signs / ? # @ of a user name or password"
            )
    return url


def read_gates(entries: Mapping[str, Any]) -> dict[str, GateSettings]:
    """The settings of gates by name."""
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


def find_gates_environment(name: str | None, environments: tuple[Environment, ...]) -> Environment:
    """The environment whose database has the gates."""
    for environment in environments:
        if name in (None, environment.name):
            return environment
    names = ", ".join(repr(environment.name) for environment in environments)
    raise ConfigurationError(f"gates_at: unknown environment {name!r}; known: {names}")


def read_folders(value: str | list[Any]) -> tuple[Path, ...]:
    """The folders in order; in a variable they are separated as in PATH."""
    folders = value.split(os.pathsep) if isinstance(value, str) else value
    for folder in folders:
        if not isinstance(folder, str) or not folder:
            raise ConfigurationError(f'types: {folder!r} is not a folder; write types = ["types", "/srv/types"]')
    return tuple(Path(folder).expanduser() for folder in folders)


def read_origin(url: str) -> str:
    """The URL without its last slash; a path is not allowed, as links do not contain it."""
    if url and not re.fullmatch(
        r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?|https?://\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?/?", url
    ):
        raise ConfigurationError(
            f"server.public_url: {url!r} is not a URL without a path, such as https://docs.example.com"
        )
    return url.rstrip("/").lower()


def read_networks(networks: list[Any], key: str = "server.allow") -> tuple[str, ...]:
    """Networks, each checked to be a CIDR."""
    from tabellion.net.guard import Rules  # most commands fetch no URL

    try:
        Rules.of(networks)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error}") from error
    return tuple(networks)


def read_prices(entries: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
    """The prices of models, in dollars per million tokens."""
    from tabellion.models import prices  # most commands need no model

    prices.table(entries)
    for model_name, entry in entries.items():
        for key in entry.keys() & {"input", "output", "cached"}:
            if not isinstance(entry[key], int | float) or isinstance(entry[key], bool):
                raise ConfigurationError(f"prices.{model_name}: {key} = {entry[key]!r} is not a number")
    return entries


def read_models(entries: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The settings of models by name."""
    models = {}
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise ConfigurationError(f'models.{name}: write {name} = {{ model = "…" }}')
        models[name] = {
            key: expand_variables(value, f"models.{name}.{key}", variables) if isinstance(value, str) else value
            for key, value in entry.items()
        }
    return models
