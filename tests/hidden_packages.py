"""Runs commands with packages hidden: `python -m tests.hidden_packages`, with its input as JSON on standard input.

One process hides the packages and forks for each command, which costs a tenth of starting Python for every one of them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

from packaging.utils import canonicalize_name

from tabellion.extras import BRINGS
from tests.extras import ROOT, packages_of

#: Not ours, start no threads, and take most of the time that a command takes: loaded once, where they are not missing.
SHARED = ("argon2", "fastapi", "google.genai", "httpx2", "jinja2", "pydantic", "uvicorn", "yaml")
SECONDS = 200


def missing_packages(extras: str) -> list[str]:
    """Return the packages missing when only these extras are installed, by their import names."""
    there = packages_of(extras) | {"tabellion", "pip"}
    found = {package: set(map(canonicalize_name, names)) for package, names in packages_distributions().items()}
    found["google.genai"] = {canonicalize_name("google-genai")}  # others put something into `google` as well
    found["opentelemetry.sdk"] = {canonicalize_name("opentelemetry-sdk")}  # FastAPI brings `opentelemetry` without it
    return sorted(
        package
        for package, distributions in found.items()
        if package.partition(".")[0] in BRINGS and not distributions & there
    )


def run_all(
    extras: str, folder: Path, commands: Mapping[str, Sequence[str]], scripts: Mapping[str, str], **variables: str
) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run commands and scripts in a folder, one after the other, with only the packages of these extras."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    orders = {
        "hidden": missing_packages(extras), "folder": str(folder), "scripts": dict(scripts),
        "commands": {name: list(words) for name, words in commands.items()},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.hidden_packages"], input=json.dumps(orders), capture_output=True, text=True,
        check=False,
        env=kept | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"} | variables, timeout=SECONDS, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {
        name: subprocess.CompletedProcess(name, result["code"], result["out"], result["err"])
        for name, result in json.loads(done.stdout).items()
    }


def is_hidden(module: str) -> bool:
    """Return whether a module is hidden, or inside a hidden one."""
    return any(module == name or module.startswith(f"{name}.") for name in HidingFinder.hidden)


class HidingFinder(PathFinder):
    """Finds what Python finds, except the hidden packages."""

    hidden: frozenset[str] = frozenset()

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None for a hidden module, as if it had never been installed."""
        if is_hidden(fullname):
            return None
        return PathFinder.find_spec(fullname, path, target)


def _in_fork(folder: Path, words: Sequence[str] | str) -> dict[str, Any]:
    out, err = folder / ".out", folder / ".err"
    pid = os.fork()
    if not pid:
        code = 1
        try:
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), number)
            os.chdir(folder)
            code = _run(words)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"code": code, "out": out.read_text(errors="replace"), "err": err.read_text(errors="replace")}


def _run(words: Sequence[str] | str) -> int:
    """Run the command line with these arguments, or a script; return the exit code."""
    try:
        if isinstance(words, str):
            exec(compile(words, "script", "exec"), {"__name__": "__main__"})
        else:
            from tabellion.cli import main

            sys.argv = ["tabellion", *words]
            main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def _main() -> None:
    orders = json.load(sys.stdin)
    HidingFinder.hidden = frozenset(orders["hidden"])
    sys.meta_path = [HidingFinder if finder is PathFinder else finder for finder in sys.meta_path]
    for name in filter(is_hidden, list(sys.modules)):
        del sys.modules[name]
    for name in SHARED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    given = {**orders["commands"], **orders["scripts"]}
    print(json.dumps({name: _in_fork(Path(orders["folder"]), words) for name, words in given.items()}))


if __name__ == "__main__":
    _main()
