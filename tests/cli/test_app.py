"""The application: help, version, options, and errors with their own exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabellion import __version__
from tabellion.cli.app import app, commands
from tabellion.cli.load import WHICH
from tabellion.errors import ConfigurationError
from tests.cli.project import Project

JSON_ANYWAY = (
    "metrics",
    "read",
)  #: commands that print nothing else


@pytest.mark.parametrize("command", commands())
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    """`--help` explains, shows an example, and offers --json; typer adds the brackets of arguments, once."""
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    _, _, examples = result.output.partition("xample")
    assert f"tabellion {command}" in examples
    assert "--json" in result.output or command in JSON_ANYWAY
    assert not re.search(r"\[\[|[….]\}|[….]\]", result.output.splitlines()[1])


def test_version() -> None:
    """--version prints it."""
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"tabellion {__version__}"


def test_help_loads_neither_engine_nor_drivers() -> None:
    """`tabellion --help` stays quick: what only commands need is not imported."""
    heavy = ("asyncpg", "tabellion.engine.worker.worker", "sqlite3")
    code = f"import sys; import tabellion.cli.app; print([name for name in sys.modules if name.startswith({heavy!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_error_is_one_message_with_its_own_code(tmp_path: Path) -> None:
    """No traceback: configuration is 3, a database that does not answer is 4, wrong usage is 2."""

    def code(*words: str, text: str = "") -> tuple[int, str]:
        (tmp_path / "tabellion.toml").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "tabellion", *words], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    missing, message = code("status")
    assert (missing, message.startswith(f"error: {WHICH}, and there is none at {tmp_path}/")) == (3, True)
    assert code("status", text="quues = 'x'")[0] == 3
    assert code("explain")[0] == 2
    (tmp_path / "queues.py").write_text(
        "from tabellion import Queue\nq = Queue('t', ready=1, running=2, done=3, failed=4)\n"
    )
    unreachable = "queues = 'queues.py'\n[environments]\nprod = 'postgresql://127.0.0.1:1/x'\n"
    assert code("explain", "t", "1", text=unreachable)[0] == 4
    assert code("explain", "nope", "1", text="queues = 'queues.py'")[0] == 3


def test_a_command_asks_which_of_several_environments(lite: Project) -> None:
    """A command that changes something needs to know which environment is meant."""
    file = lite.folder / "tabellion.toml"
    file.write_text(file.read_text() + f'dev = "sqlite:///{lite.folder}/dev.db"\n')
    result = lite.run("pause", "invoices")
    assert result.exit_code == 3
    assert "which environment? Use --environment with one of: prod, dev" in str(result.exception)
    assert lite.run("pause", "invoices", "-e", "prod").exit_code == 0


def test_the_data_folder_may_come_before_or_after_the_command(tmp_path: Path) -> None:
    """For every command: the database in it is used."""
    data = tmp_path / "here"

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "tabellion", *words], capture_output=True, text=True, cwd=tmp_path, check=False,
            env={name: value for name, value in os.environ.items() if "DATABASE_URL" not in name},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    assert run("migrate", "--with", "documents", "--data", str(data))[0] == 0
    created = run("--data", "here", "keys", "create", "--role", "viewer")
    assert created[0] == 0
    for words in (
        ["keys", "list", "--data=here"],
        ["--data", str(data), "keys", "list"],
        ["keys", "--data", "here", "list"],
    ):
        assert "viewer" in run(*words)[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]


COMMANDS_ON_DATABASES = (
    "keys list", "keys create --role viewer", "webhooks list", "export", "worker", "status", "explain documents 1",
    "retry documents --all", "pause documents", "gates", "adopt invoices",
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS_ON_DATABASES)
def test_no_command_creates_a_second_database_by_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Exit code 3, with the missing file and what to do; nothing is created."""
    for name in ("DATABASE_URL", "TABELLION_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for before in ([], ["--with", "documents"]):
        result = CliRunner().invoke(app, [*before, "--data", str(tmp_path / "typo"), *words.split()])
        assert isinstance(result.exception, ConfigurationError), result.output
        assert str(tmp_path / "typo" / "tabellion.db") in str(result.exception)
        assert "--data" in str(result.exception)
    assert not list(tmp_path.iterdir())
