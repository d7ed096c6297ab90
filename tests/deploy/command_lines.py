"""Checks command lines of tabellion with its own parser, without running them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import typer.main

from tabellion.cli.app import app
from tabellion.cli.load import find_queue
from tabellion.config import Config, known_variables, load
from tabellion.config_keys import DATABASE_VARIABLES
from tabellion.delivery.outbox import webhooks_queue
from tabellion.installed_pipelines import find_pipelines

OTHERS = {"TABELLION_CONFIG", "TABELLION_KEY", "TABELLION_CHROMIUM", "TABELLION_DEBUG", *DATABASE_VARIABLES}


def check(words: Sequence[str]) -> None:
    """Raise if `tabellion` would refuse these words, or if they name a queue that does not exist."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("tabellion", list(words))
    rest = [*context._protected_args, *context.args]
    assert rest, f"no command in {words}"
    name, command, rest = root.resolve_command(context, rest)
    if "--celery" in rest and not any("--celery" in option.opts for option in command.params):
        pytest.skip("this version has no `tabellion worker --celery`")
    while True:
        context = command.make_context(name, rest, parent=context)
        if not hasattr(command, "resolve_command"):
            break
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    if context.params.get("only"):
        pipelines = context.find_root().params["with_"]
        queues = [queue for one in find_pipelines(pipelines) for queue in one.queues(_config())]
        for queue in context.params["only"]:
            find_queue([*queues, webhooks_queue()], queue)


def served_queues(words: Sequence[str], keys: Sequence[str]) -> set[str]:
    """Return the queues of documents that this worker works on where these API keys are set."""
    everything = all_queues(keys)
    only = {value for name, value in pairwise(words) if name == "--only"}
    assert only <= everything
    return only or everything


def all_queues(keys: Sequence[str]) -> set[str]:
    """Return every queue of documents that needs a worker, and that of webhooks."""
    with pytest.MonkeyPatch.context() as environment:
        for key in keys:
            environment.setenv(key, "key")
        queues = [queue for one in find_pipelines(["documents"]) for queue in one.queues(_config())]
    return {queue.name for queue in (*queues, webhooks_queue())}


def check_text(text: str) -> None:
    """Raise if a shell's command line of tabellion is wrong."""
    words = shlex.split(text, comments=True)
    check(words[1:])


def check_variable(name: str) -> None:
    """Raise if tabellion does not know a variable that begins with its name."""
    if name.startswith("TABELLION_"):
        assert name in known_variables() or name in OTHERS, f"{name} is not a variable of tabellion"


def _config() -> Config:
    return load(variables={"TABELLION_DATABASE_URL": "sqlite:///x.db"})
