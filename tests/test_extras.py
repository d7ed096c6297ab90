"""Commands where packages are missing: each says which extra brings them, and none ends in a traceback."""

from __future__ import annotations

import ast
import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tabellion import extras
from tests.extras import COMMANDS, PROJECT, ROOT, SCRIPTS, TOLD, packages_of, prepare, run, verdict

#: A Python in which some packages cannot be found, as if they had never been installed.
HIDING = """import json, os, sys
from importlib.machinery import PathFinder
hidden = set(json.loads(os.environ["TABELLION_HIDDEN"]))
class Hide(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else PathFinder.find_spec(name, path, target)
sys.meta_path = [Hide if finder is PathFinder else finder for finder in sys.meta_path]
"""


def declared() -> dict[str, set[str]]:
    """The distributions that each extra of ours names."""
    return {
        name: {canonicalize_name(Requirement(line).name) for line in lines}
        for name, lines in PROJECT["optional-dependencies"].items()
    }


@pytest.mark.parametrize("wanted", ["", "reading", "server", "server,reading"], ids=lambda wanted: wanted or "bare")
@pytest.mark.timeout(300)
def test_each_command_works_or_names_an_extra(wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it names is not installed already. All nine sets, in real environments: `make extras`."""
    there = packages_of(wanted) | {"tabellion", "pip"}
    hidden = sorted(
        package
        for package, distributions in packages_distributions().items()
        if not {canonicalize_name(name) for name in distributions} & there and package in extras.BRINGS
    )
    monkeypatch.setenv("TABELLION_HIDDEN", json.dumps(hidden))
    prepare(tmp_path)
    cli = f"{HIDING}sys.argv[0] = 'tabellion'\nfrom tabellion.cli import main\nmain()"
    found = {
        name: verdict(run([sys.executable, "-c", cli], tmp_path, arguments), wanted)
        for name, arguments in COMMANDS.items()
    }
    for name, script in SCRIPTS.items():
        found[name] = verdict(run([sys.executable, "-c"], tmp_path, [HIDING + TOLD.format(script)]), wanted)
    assert not {name: said for name, said in found.items() if said.startswith("WRONG")}
    assert found["worker"] == found["status"] == found["doctor"] == "ok"
    assert found["read"] == found["ground"].replace("exit 6", "ok") == ("ok" if "reading" in wanted else "[reading]")
    if {"server", "reading"} <= set(wanted.split(",")) or wanted == "all":
        assert found["up"] == found["submit"] == found["compact"] == "ok"
    else:
        assert found["up"] == "[server,reading]"


def test_every_package_that_is_imported_is_declared() -> None:
    """A package that a module imports has an extra that brings it, and a sentence for those who lack it."""
    ours = {path.stem for path in (ROOT / "src" / "tabellion").iterdir()} | {"tabellion"}
    known = set(sys.stdlib_module_names) | ours | {"typer", "rich", "click", "__future__"}
    found: dict[str, str] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0]: path.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found[node.module.partition(".")[0]] = path.name
    assert {name: where for name, where in found.items() if name not in known} == {
        name: found[name] for name in extras.BRINGS if name in found
    }


@pytest.mark.parametrize("package", extras.BRINGS)
def test_an_extra_that_is_named_brings_the_package(package: str) -> None:
    """By itself or by what it depends on."""
    distributions = {canonicalize_name(name) for name in packages_distributions()[package]}
    for extra in extras.BRINGS[package]:
        assert distributions & packages_of(extra), f"[{extra}] does not bring {package}"


def test_all_brings_every_extra() -> None:
    """None is forgotten when one is added."""
    named = declared()
    [everything] = PROJECT["optional-dependencies"]["all"]
    assert set(Requirement(everything).extras) == named.keys() - {"all"}


def test_the_package_page_has_no_link_into_the_repository() -> None:
    """The readme that is published names addresses on the web; the README itself links to files that exist."""
    spec: dict[str, Any] = {}
    exec(compile((ROOT / "hatch_build.py").read_text(), "hatch_build.py", "exec"), spec)
    text = (ROOT / "README.md").read_text()
    page = spec["absolute"](text, PROJECT["urls"]["Homepage"])
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert targets
    assert all(target.startswith("https://") for target in targets)
    assert "raw.githubusercontent.com" in page
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target
