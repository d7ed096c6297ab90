"""Prints the part of `requirements.lock` that some extras, or some packages, need: versions and hashes unchanged.

The image is built with it, so that development tools stay out and there is only one lock.

    python deploy/runtime_requirements.py --extras all
    python deploy/runtime_requirements.py --packages hatchling
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normalize(name: str) -> str:
    """The form in which package names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements_of(extras: Iterable[str], project: dict[str, object]) -> set[str]:
    """The names of the packages that the project needs with these extras."""
    optional: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    names, todo, seen = set(), list(project["dependencies"]), set(extras)  # type: ignore[call-overload]
    for extra in seen:
        if extra not in optional:
            sys.exit(f"unknown extra {extra!r}; known: {', '.join(optional)}")
        todo += optional[extra]
    while todo:
        requirement = todo.pop()
        name = normalize(NAME.findall(requirement)[0])
        if name != project["name"]:
            names.add(name)
            continue
        inner = re.search(r"\[([^\]]*)\]", requirement)
        for extra in inner[1].split(",") if inner else ():
            if extra.strip() not in seen:
                seen.add(extra.strip())
                todo += optional[extra.strip()]
    return names


def read_lock(text: str) -> list[tuple[str, str, set[str]]]:
    """The entries of the lock: name, text, and the packages that need it. One package may have several versions."""
    entries = []
    for block in re.split(r"(?m)^(?=[A-Za-z0-9])", text):
        if match := NAME.match(block):
            needed_by = set(re.findall(r"(?m)^    #   (\S+)$", block)) | set(re.findall(r"# via (\S+)", block))
            entries.append((normalize(match[0]), block, {normalize(name) for name in needed_by}))
    return entries


def select(lock: str, wanted: set[str]) -> str:
    """The entries of these packages and of everything they need."""
    entries, chosen = read_lock(lock), set(wanted)
    missing = wanted - {name for name, _, _ in entries}
    if missing:
        sys.exit(f"not in requirements.lock: {', '.join(sorted(missing))}")
    while more := {name for name, _, needed_by in entries if needed_by & chosen} - chosen:
        chosen |= more
    return "".join(block for name, block, _ in entries if name in chosen)


def main() -> None:
    """Prints what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="extras of tabellion, with commas")
    parser.add_argument("--packages", default="", help="other packages, with commas")
    chosen = parser.parse_args()
    wanted = {normalize(name) for name in chosen.packages.split(",") if name}
    if extras := [name for name in chosen.extras.split(",") if name]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        wanted |= requirements_of(extras, project)
    sys.stdout.write(select((ROOT / "requirements.lock").read_text("utf-8"), wanted))


if __name__ == "__main__":
    main()
