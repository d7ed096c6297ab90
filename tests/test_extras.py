"""Commands without their packages: each names the extra to install, and none ends in a traceback."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from tabellion import extras
from tabellion.cli.app import app
from tabellion.testing import Serving, serving
from tests.extras import COMMANDS, PROJECT, ROOT, SCRIPTS, TOLD, packages_of, prepare, verdict
from tests.hidden_packages import run_all
from tests.table_owner import owning

SQLITE = ("adopt", "migrate", "doctor", "worker", "status", "explain", "gates")
SERVED = ("export", "keys", "users", "webhooks", "audit")
#: What works with nothing but an extra installed; the names are those of `commands` and `scripts`.
PROMISED = {
    "": (*SQLITE, "--help"),
    "postgres": (*SQLITE, "postgres"),
    "gemini": ("gemini",),
    "openai": ("openai",),
    "fake": ("fake-model",),
    "browser": ("browser",),
    "celery": ("celery",),
    "websites": ("visit",),
    "metrics": ("metrics",),
    "otel": ("otel",),
    "server": (*SERVED, "metrics"),
    "reading": ("read", "types", "analyses", "read()"),
    "server,reading": (*SERVED, "up", "submit", "worker --with", "status --with", "compact"),
}
#: What stands for each extra where it is not installed, and the extra that it names.
NAMES = {
    "read": "reading", "read()": "reading", "up": "server,reading", "compact": "reading", "postgres": "postgres",
    "gemini": "gemini", "openai": "openai", "fake-model": "fake", "browser": "browser",
    "visit": "websites", "celery": "celery", "metrics": "metrics", "otel": "otel",
}  # fmt: skip
CALL = (
    "import asyncio; from tabellion.models.base import Ask; from tabellion.models.catalog import make; "
    "assert asyncio.run(make('{}').call(['hello'], None, Ask(deadline=30))).text"
)
#: The command serves until it is told to end, which this does as soon as it answers.
SERVE = """import os, signal, sys, threading
from tests.servers import free_port
from tests.waiting import eventually
port = free_port()
def answers():
    import http.client
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/")
        return connection.getresponse().status
    except OSError:
        return None
def end():
    eventually(answers)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end, daemon=True).start()
sys.argv = ["tabellion", "fake-model", "--port", str(port)]
from tabellion.cli import main
main()
"""


@pytest.fixture(scope="module")
def fake() -> Iterator[Serving]:
    """A model that speaks both protocols, with all its packages."""
    with serving() as running:
        yield running


def declared() -> dict[str, set[str]]:
    """Return the distributions that each extra names."""
    return {
        name: {canonicalize_name(Requirement(line).name) for line in lines}
        for name, lines in PROJECT["optional-dependencies"].items()
    }


@pytest.mark.parametrize("extra", PROMISED, ids=lambda extra: extra or "bare")
@pytest.mark.timeout(300)
def test_an_extra_alone_is_enough_for_its_commands(
    extra: str, tmp_path: Path, fake: Serving, request: pytest.FixtureRequest
) -> None:
    """Its commands work; the others name what is not installed. All sets, in real environments: `make extras`."""
    prepare(tmp_path)
    url = f"sqlite:///{tmp_path}/work.db"
    if extra == "postgres":
        url = str(request.getfixturevalue("pg_url"))
        with owning(url) as owner:
            owner.insert(1)
    if extra == "server":  # tables of documents are made where documents are read as well
        migrated = CliRunner().invoke(app, ["migrate", "--with", "documents"], env={"DATABASE_URL": url})
        assert migrated.exit_code == 0, migrated.output
    scripts = {
        "read()": TOLD.format(SCRIPTS["read()"]), "fake-model": SERVE, "browser": TOLD.format(SCRIPTS["browser"]),
        "visit": TOLD.format(SCRIPTS["visit"]), "otel": TOLD.format(SCRIPTS["otel"]),
        "celery": TOLD.format(SCRIPTS["celery"]),
        "postgres": TOLD.format("import asyncio; import os; from tabellion import Store; "
                                "asyncio.run(Store(os.environ['PG']).database.open())"),
        **{name: TOLD.format(CALL.format(name)) for name in ("gemini", "openai")},
    }  # fmt: skip
    tried = {*PROMISED[extra], *NAMES, *(COMMANDS if not extra else ())}
    found = {
        name: verdict(done, extra)
        for name, done in run_all(
            extra, tmp_path, {name: words for name, words in COMMANDS.items() if name in tried and name not in scripts},
            scripts, DATABASE_URL=url, PG=url if extra == "postgres" else "postgresql://nobody@127.0.0.1:1/none",
            **fake.environment,
        ).items()
    }  # fmt: skip
    assert {name: found[name] for name in PROMISED[extra]} == dict.fromkeys(PROMISED[extra], "ok")
    lacking = {name: f"[{by}]" for name, by in NAMES.items() if not set(by.split(",")) <= set(extra.split(","))}
    if extra in ("gemini", "websites") or "server" in extra:
        lacking["openai"] = "ok"  # it needs no package that these do not bring
    if "server" in extra:
        lacking["fake-model"] = lacking["metrics"] = "ok"  # what they serve with comes with the server too
    assert {name: found[name] for name in lacking} == lacking
    assert not {name: said for name, said in found.items() if said.startswith("WRONG")}


def test_every_extra_is_tested() -> None:
    """None is forgotten when one is added."""
    assert declared().keys() - {"all"} == PROMISED.keys() - {"", "server,reading"}


def test_every_imported_package_is_declared() -> None:
    """A package that a module imports has an extra, and a message for users who lack it."""
    ours = {path.stem for path in (ROOT / "src" / "tabellion").iterdir()} - extras.BRINGS.keys() | {"tabellion"}
    known = set(sys.stdlib_module_names) | ours | {"typer", "typing_extensions", "rich", "click", "__future__"}
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
def test_a_named_extra_installs_the_package(package: str) -> None:
    """Directly or by a dependency."""
    distributions = {canonicalize_name(name) for name in packages_distributions()[package]}
    for extra in extras.BRINGS[package]:
        assert distributions & packages_of(extra), f"[{extra}] does not bring {package}"


def test_all_installs_every_extra() -> None:
    """None is forgotten when one is added."""
    named = declared()
    [everything] = PROJECT["optional-dependencies"]["all"]
    assert set(Requirement(everything).extras) == named.keys() - {"all"}


def test_the_package_page_has_no_link_into_the_repository() -> None:
    """The published readme has web addresses; the README itself links to files that exist."""
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
