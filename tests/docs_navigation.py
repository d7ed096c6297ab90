"""Finds pages that are not in the navigation of the documentation site, and entries and images without a file.

`make docs` runs it with nothing but the standard library, because the site generator does not check these three.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")


def pages_in_navigation(entries: list[Any]) -> Iterator[str]:
    """Return the path of every page below these entries, in order."""
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from pages_in_navigation(value)


def problems(root: Path = ROOT) -> list[str]:
    """Return what is wrong with the navigation and the images, one sentence each."""
    project = tomllib.loads((root / "zensical.toml").read_text("utf-8"))["project"]
    docs = root / project["docs_dir"]
    listed = list(pages_in_navigation(project["nav"]))
    there = {path.relative_to(docs).as_posix(): path for path in docs.rglob("*.md")}
    found = [f"docs/{name} is not in the navigation: add it to zensical.toml" for name in there if name not in listed]
    found += [f"zensical.toml names {name}, which is not in docs/" for name in listed if name not in there]
    found += [f"zensical.toml names {name} more than once" for name in {*listed} if listed.count(name) > 1]
    for name, path in there.items():
        missing = [shown for shown in PICTURE.findall(path.read_text("utf-8")) if not (path.parent / shown).is_file()]
        found += [f"docs/{name} shows {shown}, which does not exist" for shown in missing]
    return sorted(found)


if __name__ == "__main__":
    for problem in problems():
        print(problem, file=sys.stderr)
    sys.exit(1 if problems() else 0)
