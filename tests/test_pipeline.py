"""Pipelines join an installation by themselves: the built-in ones, and those of other packages."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx2
import pytest

from tabellion import Pipeline
from tabellion.accounts.tables import SCHEMA
from tabellion.cli import pipeline_tables
from tabellion.config import Config
from tabellion.delivery.signature import verify
from tabellion.engine.environment import Environment
from tabellion.engine.queue import Queue
from tabellion.engine.schema import Schema
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import installed_pipelines
from tabellion.web.app import merge_policies
from tests.pipelines.documents.receiver import LOOPBACK, Receiver
from tests.waiting import eventually
from tests.workers import ask

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "checksums"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as `pip install ./examples/checksums` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=EXAMPLE, check=True)
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture
def packages(wheel: Path, tmp_path: Path) -> Mapping[str, str]:
    """An environment with the example installed."""
    folder = tmp_path / "packages"
    zipfile.ZipFile(wheel).extractall(folder)
    return os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}"}


def tabellion(packages: Mapping[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in its own folder."""
    return subprocess.run(
        [sys.executable, "-m", "tabellion", *arguments], cwd=folder, env=packages, capture_output=True, text=True
    )


@pytest.fixture
def running(packages: Mapping[str, str], tmp_path: Path) -> Iterator[tuple[str, str]]:
    """`tabellion up` with the example and documents together: its address and its admin key."""
    (tmp_path / "tabellion.toml").write_text(f"[server]\nallow = {json.dumps(LOOPBACK)}\n")
    command = [
        sys.executable, "-m", "tabellion", "up", "--with", "checksums", "--with", "documents", "--port", "0", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, env=packages, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        output = json.loads(next(line for line in process.stdout if '"started"' in line))
        yield output["url"], output["key"]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_third_party_pipeline_works_like_our_own(
    running: tuple[str, str], packages: Mapping[str, str], tmp_path: Path
) -> None:
    """Routes with roles, a worker for its queue, a page, a navigation entry, a command, OpenAPI, readiness."""
    url, key = running
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
        assert client.post("/api/checksums", json={"content": "one"}).status_code == 202
        assert tabellion(packages, tmp_path, "checksum", "two").returncode == 0

        def found() -> set[str | None]:
            return {one["sha256"] for one in client.get("/api/checksums").json()["checksums"]}

        wanted = {hashlib.sha256(text.encode()).hexdigest() for text in ("one", "two")}
        eventually(lambda: found() == wanted)
        shown_page = client.get("/checksums", headers={"Accept": "text/html"}).text
        assert wanted <= set(re.findall(r"<td>(\w{64})</td>", shown_page))
        assert 'href="/checksums"' in client.get("/dashboard", headers={"Accept": "text/html"}).text
        assert {"checksums", "documents"} <= {one["name"] for one in client.get("/api/queues").json()["queues"]}
        document = client.get("/openapi.json").json()
        assert "/api/checksums" in document["paths"]
        assert "ChecksumList" in document["components"]["schemas"]
        eventually(lambda: client.get("/readyz").status_code == 200)
    assert httpx2.get(f"{url}/api/checksums", trust_env=False).status_code == 401
    shown = tabellion(packages, tmp_path, "status", "--with", "checksums", "--json")
    assert [one["done"] for one in json.loads(shown.stdout)[0]["queues"] if one["queue"] == "checksums"] == [2]


def test_codes_of_another_package_work_like_our_own(
    running: tuple[str, str], packages: Mapping[str, str], tmp_path: Path, receiver: Receiver
) -> None:
    """Its problem in two languages, its audit action in a chain that verifies, and its event as a signed webhook."""
    url, key = running
    endpoint = json.loads(
        tabellion(packages, tmp_path, "webhooks", "add", receiver.url, "--event", "checksum.computed", "--json").stdout
    )
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
        problem = client.post("/api/checksums", json={"content": ""})
        assert (problem.status_code, problem.json()["code"]) == (422, "checksum_empty")
        assert problem.json()["detail"].startswith("an empty text")
        assert problem.json()["translatable"]["detail"] == {"code": "problem.checksum_empty", "params": {}}
        assert "checksum_empty" in client.get("/openapi.json").json()["x-problem-codes"]
        french = client.get("/dashboard", headers={"Accept": "text/html", "Accept-Language": "fr"}).text
        assert "un texte vide" in french
        id_ = client.post("/api/checksums", json={"content": "one"}).json()["id"]
        eventually(lambda: receiver.got)
    [(_, headers, body)] = receiver.got
    event = verify(headers, body, endpoint["secret"])
    assert (event["type"], event["data"]["id"]) == ("checksum.computed", id_)
    assert event["data"]["sha256"] == hashlib.sha256(b"one").hexdigest()
    [entry] = json.loads(tabellion(packages, tmp_path, "audit", "show", id_, "--json").stdout)
    assert entry["action"] == "checksum_added"
    assert json.loads(tabellion(packages, tmp_path, "audit", "verify", "--json").stdout)["whole"]


def test_its_tables_are_created_by_migrate(packages: Mapping[str, str], tmp_path: Path) -> None:
    """Or printed; and a worker without them names the command that creates them."""
    missing = tabellion(packages, tmp_path, "--with", "checksums", "migrate", "--sql")
    assert "CREATE TABLE tabellion_checksums" in missing.stdout
    assert tabellion(packages, tmp_path, "migrate").returncode == 0
    refused = tabellion(packages, tmp_path, "--with", "checksums", "worker", "--until-idle")
    assert refused.returncode == 4
    assert "tabellion migrate --with checksums" in refused.stderr
    assert tabellion(packages, tmp_path, "--with", "checksums", "migrate").returncode == 0
    assert tabellion(packages, tmp_path, "--with", "checksums", "worker", "--until-idle").returncode == 0


def test_a_pipeline_adds_nothing_by_default() -> None:
    """A pipeline overrides only what it has."""
    plain = Pipeline()
    assert (list(plain.schemas()), list(plain.queues(None)), plain.blueprint()) == ([], [], None)  # type: ignore[arg-type]
    assert plain.all_schemas() == []


def test_rows_have_the_pages_of_their_tables() -> None:
    """The views of queues have the page of their table, unless they are overridden."""

    class Greetings(Pipeline):
        row_pages: Mapping[str, str] = {"greetings": "/greetings/{}"}

        def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
            """Two tables."""
            return [Queue(table, ready=1, running=2, done=3, failed=4) for table in ("greetings", "others")]

    assert [view.page for view in Greetings().views(Config())] == ["/greetings/{}", None]


def test_a_route_belongs_to_one_pipeline() -> None:
    """Two with the same path could have two roles."""
    with pytest.raises(ConfigurationError, match="two pipelines have the route GET /x"):
        merge_policies({("GET", "/x"): None}, {("GET", "/x"): None})


def test_a_pipeline_without_its_own_tables_is_served(packages: Mapping[str, str], tmp_path: Path) -> None:
    """Over existing tables: accounts and webhooks still work."""
    folder = Path(packages["PYTHONPATH"].split(os.pathsep)[1])
    (folder / "plain.py").write_text(
        "from tabellion import Pipeline\nclass Plain(Pipeline):\n    name = 'plain'\n"
        "    def close(self):\n        open('closed', 'w').close()\nPIPELINE = Plain()\n"
    )
    points = folder / "tabellion_checksums-1.0.dist-info" / "entry_points.txt"
    points.write_text("[tabellion.pipelines]\nplain = plain:PIPELINE\n")
    done = tabellion(packages, tmp_path, "up", "--with", "plain", "--port", "0", "--until-done")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "closed").exists()
    assert tabellion(packages, tmp_path, "keys", "list").returncode == 0
    refused = tabellion(packages, tmp_path, "up", "--with", "plain", "--port", "0", "--demo")
    assert (refused.returncode, "none of the selected pipelines has a demo" in refused.stderr) == (3, True)
    points.write_text("[tabellion.pipelines]\nplain = nowhere:PIPELINE\n")
    broken = tabellion(packages, tmp_path, "keys", "list")
    assert broken.returncode == 3
    assert "the pipeline 'plain' of the package tabellion-checksums cannot be loaded" in broken.stderr


@pytest.mark.parametrize(
    ("members", "arguments", "expected"),
    [
        ("commands = {'greet': 'plain_commands'}", ["--help"],
         "the command 'greet' of the pipeline 'plain' cannot be loaded: there is no module plain_commands"),
        ("commands = {'greet': 'plain'}", ["greet"],
         "the command 'greet' of the pipeline 'plain' cannot be loaded: the module plain has no greet"),
        ("commands = {'status': 'plain'}", ["--help"],
         "the pipeline 'plain' adds the command 'status', which exists"),
        ("catalogues = ('nowhere',)", ["read", "--help"],
         "the pipeline 'plain' of the package tabellion-checksums cannot be used: there is no package 'nowhere'"),
        ("catalogues = ('unquoted',)", ["read", "--help"],
         "unquoted/locale/en/messages.po: line 5 has no text in double quotes: msgstr too heavy"),
        ("catalogues = ('untranslated',)", ["read", "--help"],
         "untranslated/locale/en/messages.po: parcels.heavy has no msgstr"),
        ("catalogues = ('taken',)", ["read", "--help"],
         "taken/locale/en/messages.po has codes of another package: audit.key_made"),
    ],
)  # fmt: skip
def test_a_mistake_of_another_package_is_named(
    packages: Mapping[str, str], tmp_path: Path, members: str, arguments: list[str], expected: str
) -> None:
    """Instead of a traceback, also in commands that do not use the pipeline."""
    folder = Path(packages["PYTHONPATH"].split(os.pathsep)[1])
    (folder / "plain.py").write_text(
        "from tabellion import Pipeline\nclass Plain(Pipeline):\n    name = 'plain'\n"
        f"    {members}\nPIPELINE = Plain()\n"
    )
    [points] = folder.glob("*.dist-info/entry_points.txt")
    points.write_text("[tabellion.pipelines]\nplain = plain:PIPELINE\n")
    for package, text in (
        ("unquoted", 'msgid "parcels.light"\nmsgstr "light"\n\nmsgid "parcels.heavy"\nmsgstr too heavy\n'),
        ("untranslated", 'msgid "parcels.heavy"\n'),
        ("taken", 'msgid "audit.key_made"\nmsgstr "mine"\n'),
    ):
        (folder / package / "locale" / "en").mkdir(parents=True)
        (folder / package / "__init__.py").touch()
        (folder / package / "locale" / "en" / "messages.po").write_text(text)
    broken = tabellion(packages, tmp_path, *arguments)
    assert (broken.returncode, "Traceback" in broken.stderr) == (3, False), broken.stderr
    assert expected in broken.stderr


def test_shared_tables_of_two_pipelines_are_printed_once(sqlite_url: str) -> None:
    """The SQL for both of them can be run as it is."""

    class Needy(Pipeline):
        name = "needy"

        def schemas(self) -> tuple[Schema, ...]:
            return (Schema("needy", (("CREATE TABLE tabellion_needy (at TIME)",),), ("tabellion_needy",), (SCHEMA,)),)

    pipelines = [installed_pipelines()["documents"], Needy()]
    text = ask(sqlite_url, lambda store: pipeline_tables.script(store, pipelines))
    assert text == pipeline_tables.full_script("sqlite", pipelines)
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(text)
