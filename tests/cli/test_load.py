"""Finding the declared queues: an error in the module is one sentence with its file and line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tabellion.cli import queue_module
from tabellion.errors import ConfigurationError
from tabellion.pipeline import Pipeline

GOOD = "from tabellion import Queue\nq = Queue('t', ready=1, running=2, done=3, failed=4)\n"
BROKEN = {
    "syntax": ("from tabellion import Queue\nq = Queue('t',\n", "queues.py, line 2: "),
    "missing package": (
        "import os\nimport requestz\n",
        "queues.py, line 2: there is no package 'requestz' in this Python: install it",
    ),
    "exception": ("import os\n\nURL = os.environ['NOT_SET']\n", "queues.py, line 3: KeyError: 'NOT_SET'"),
    "missing name": ("from tabellion import Quue\n", "queues.py, line 1: cannot import name 'Quue'"),
    "wrong queue": (
        "from tabellion import Queue\n\nq = Queue('t', ready=1, running=1, done=3, failed=4)\n",
        "queues.py, line 3: queue 't' cannot work as declared",
    ),
    "unknown argument": (
        "from tabellion import Queue\nq = Queue('t', redy=1, running=2, done=3, failed=4)\n",
        "queues.py, line 2: TypeError: ",
    ),
    "ends the program": ("raise SystemExit('no')\n", "queues.py, line 1: SystemExit: no"),
    "no queue": ("x = 1\n", "queues.py declares no Queue at its top level"),
}  # fmt: skip


def run(folder: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Run one command in the folder; return its exit code and messages."""
    done = subprocess.run(
        [sys.executable, "-m", "tabellion", *words], capture_output=True, text=True, cwd=folder, check=False,
        env={name: value for name, value in os.environ.items() if "DATABASE_URL" not in name} | variables,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("how", ["queues.py", "queues"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_module_is_one_sentence_with_file_and_line(tmp_path: Path, kind: str, how: str) -> None:
    """Exit code 3 and no traceback, whether it is named as a file or as a module."""
    text, expected = BROKEN[kind]
    (tmp_path / "queues.py").write_text(text)
    code, errors = run(tmp_path, "--queues", how, "status")
    assert code == 3
    assert "Traceback" not in errors
    assert expected in errors if kind != "no queue" else "declares no Queue at its top level" in errors
    assert errors.startswith("error: ")


def test_the_line_is_in_the_users_code(tmp_path: Path) -> None:
    """An error in a module that the queues import is reported there, not in the library that raised it."""
    (tmp_path / "models.py").write_text("import json\n\nSETTINGS = json.loads('{')\n")
    (tmp_path / "queues.py").write_text("import models\n" + GOOD)
    code, errors = run(tmp_path, "--queues", "queues.py", "status")
    assert code == 3
    assert "models.py, line 3: JSONDecodeError: " in errors


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    """A file, a module, and a package whose module is missing."""
    assert run(tmp_path, "--queues", "nope.py", "status") == (3, "error: nope.py: file not found\n")
    code, errors = run(tmp_path, "--queues", "shop.queues", "status")
    assert (code, errors.startswith("error: there is no module 'shop.queues' to import queues from")) == (3, True)
    (tmp_path / "queues.py").write_text(GOOD)
    code, errors = run(tmp_path, "--queues", "./queues", "status")
    assert code == 3
    assert "did you mean queues.py?" in errors


def test_a_file_of_a_package_says_how_to_name_it(tmp_path: Path) -> None:
    """Its relative imports only work where it is imported as a module."""
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "__init__.py").touch()
    (shop / "queues.py").write_text("from .tables import NAME\n" + GOOD)
    code, errors = run(tmp_path, "--queues", "shop/queues.py", "status")
    assert code == 3
    assert "queues.py, line 1: " in errors
    assert "--queues shop.queues" in errors


def test_a_traceback_can_be_requested(tmp_path: Path) -> None:
    """TABELLION_DEBUG shows where an error came from, before the sentence."""
    (tmp_path / "queues.py").write_text("1 / 0\n")
    code, errors = run(tmp_path, "--queues", "queues.py", "status", TABELLION_DEBUG="1")
    assert code == 3
    assert "Traceback" in errors
    assert errors.splitlines()[-1].startswith("error: queues.py, line 1: ZeroDivisionError")


def test_a_pipeline_named_as_a_module_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every installed one, with the option that selects it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queue_module, "installed_pipelines", lambda: {"parcels": Pipeline()})
    with pytest.raises(ConfigurationError, match="the queues of the pipeline parcels are --with parcels"):
        queue_module.declared_queues("parcels")
    with pytest.raises(ConfigurationError, match="there is no module 'letters'") as caught:
        queue_module.declared_queues("letters")
    assert "--with" not in str(caught.value)
