"""The OpenAPI document: complete, and true of what is served."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.answers import Answer
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import installed_pipelines
from tabellion.messages import Message
from tabellion.web.openapi import _schemas
from tabellion.web.problems import CODES
from tests.glossary import glossary
from tests.models.bills import bill
from tests.pipelines.documents.review.items import put
from tests.waiting import eventually
from tests.web.live import Live, live
from tests.web.policy import EVERYTHING, PAGES, POLICY
from tests.web.test_app import served

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def document(web: Live) -> Any:
    """The document as it is served."""
    return web.get("/openapi.json", key=None).json()


@pytest.fixture(scope="module")
def whole_document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The document of an application with every installed pipeline."""
    folder = tmp_path_factory.mktemp("every")
    with live(folder, {"prod": f"sqlite:///{folder}/prod.db"}, pipelines=EVERYTHING) as every:
        return every.get("/openapi.json", key=None).json()


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Method, path and description of each operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_route_is_described(document: Any) -> None:
    """All but the pages, each with a summary, a description, and a key where one is needed."""
    described = {(method, path): operation for method, path, operation in operations(document)}
    assert described.keys() == POLICY.keys() - PAGES.keys()
    for key, operation in described.items():
        assert operation["summary"]
        assert operation["description"]
        assert ("security" in operation) == (POLICY[key] is not None)


def test_the_glossary_has_every_resource(whole_document: Any) -> None:
    """Each resource under /api is a noun of the glossary, by the last word of its path."""
    words = {noun.split()[-1].lower() for noun in glossary()}
    resources = set()
    for method, path, _ in operations(whole_document):
        named = [part.partition(".")[0] for part in path.split("/") if part and not part.startswith("{")]
        if method == "GET" and named[0] == "api" and named[-1] not in ("me", "compare"):
            resources.add(named[-1].rpartition("-")[2])
    assert resources
    assert {one for one in resources if words.isdisjoint({one, one.removesuffix("s"), one.removesuffix("es")})} == set()


def test_every_error_is_described_as_a_problem(document: Any) -> None:
    """All responses from 400 on have the shape of a problem, except that of readiness."""
    for method, path, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert answer["description"]
            if status[0] in "45" and (path, status) != ("/readyz", "503"):
                assert list(answer["content"]) == ["application/problem+json"], (method, path, status)
    blueprint = installed_pipelines()["documents"].blueprint()
    assert blueprint is not None
    codes = (*CODES, *blueprint.problems)
    assert document["x-problem-codes"] == {code: Message(f"problem.{code}") for code in codes}


def test_every_reference_resolves(document: Any, whole_document: Any) -> None:
    """Every named schema exists, none has the name of a module, and FastAPI's own error schemas are gone."""
    for one in (document, whole_document):
        schemas = one["components"]["schemas"].keys()
        assert set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(one))) <= schemas
        assert [name for name in schemas if "__" in name] == []
        assert "HTTPValidationError" not in schemas


def test_two_types_of_one_name_are_an_error() -> None:
    """Among the answers of routes, and within them; the error names both."""
    first, second = (type("Report", (Answer,), {"__annotations__": {field: int}}) for field in ("x", "y"))
    outer = type("Outer", (Answer,), {"__annotations__": {"report": first}})
    second.__module__ = "another.module"
    for answers in ((first, second), (outer, second)):
        with pytest.raises(ConfigurationError, match=r"share a name .*Report"):
            _schemas(answers, ())


def test_the_document_is_not_sent_twice(web: Live) -> None:
    """304 by its ETag, for every client."""
    tag = web.get("/openapi.json", key=None).headers["etag"]
    assert web.get("/openapi.json", key=None, headers={"If-None-Match": tag}).status_code == 304


def test_the_docs_page_loads_nothing_from_elsewhere(web: Live) -> None:
    """Its script and style are ours, nothing is inline, and no other host is named."""
    page = web.get("/docs", key=None)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=", page.text)
    for path in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        answer = web.get(path, key=None)
        assert answer.status_code == 200, path
        assert not re.search(r"https?://|innerHTML|eval\(|insertAdjacentHTML|document\.write", answer.text), path


@pytest.mark.timeout(400)
def test_no_request_breaks_it(tmp_path: Path) -> None:
    """With a worker running, schemathesis finds no 5xx, undocumented status, wrong shape or wrong type."""
    folder = tmp_path
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}) as web, served(web):
        for number in range(3):
            web.upload(bill(f"seen {number}"))
        _known(web, folder)
        eventually(lambda: web.get("/readyz", key=None).status_code == 200)
        code, output = schemathesis(web, folder, examples=int(os.environ.get("TABELLION_TEST_EXAMPLES", "3")))
    assert code == 0, output[-6000:]
    assert "No issues found" in output or "passed" in output


def _known(web: Live, folder: Path) -> None:
    """Give it existing documents, so that it gets past "document not found"."""
    lines = []
    for number, name in enumerate(
        ("GET /api/documents/{id}", "GET /api/documents/{id}/file", "GET /api/documents/{id}/pages/{number}.png",
         "POST /api/documents/{id}/reprocess")
    ):  # fmt: skip
        one = web.upload(bill(f"known {number}"))["id"]
        lines += ["[[operations]]", f'include-name = "{name}"', f'parameters = {{ "path.id" = "{one}" }}']
    for method, path in POLICY:
        if path.startswith("/api/review/items/{id}"):
            item = web.store("prod", lambda store: put(store, {"vendor": "x", "total": "1.00"}, type="receipt"))
            lines += ["[[operations]]", f'include-name = "{method} {path}"', f'parameters = {{ "path.id" = "{item}" }}']
        if "{name}" in path and path.startswith("/api/queues/"):
            lines += [
                "[[operations]]",
                f'include-name = "{method} {path}"',
                'parameters = { "path.name" = "webhooks" }',
            ]
    (folder / "schemathesis.toml").write_text("\n".join(lines))


def schemathesis(web: Live, folder: Path, examples: int) -> tuple[int, str]:
    """Run it as a program against the server; return its exit code and output."""
    checks = (
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
        "response_headers_conformance,unsupported_method,negative_data_rejection,ignored_auth"
    )
    # One worker: parsing in two threads at once sometimes fails in CPython 3.11 (gh-106905).
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{web.url}/openapi.json", "--checks", checks,
        "-H", f"Authorization: Bearer {web.key()}", "--max-examples", str(examples), "--generation-deterministic",
        "--phases", "examples,coverage,fuzzing", "--request-timeout", "20", "--workers", "1", "--no-color",
        "--exclude-path-regex", "/events$",
    ]  # fmt: skip
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=380, env=os.environ | {"PYTHONPATH": ""}
    )
    return run.returncode, run.stdout + run.stderr
