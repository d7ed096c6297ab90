"""Searches submitted, names chosen and statements downloaded over HTTP, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.messages import Message
from tabellion.pipelines.registries.portal.pdf import write_pdf
from tabellion.pipelines.registries.problems import SiteProblem
from tabellion.pipelines.registries.queues import companies_queue
from tabellion.pipelines.registries.settings import settings_of
from tests.pipelines.registries.live import LiveRegistries, live_registries

INDEX = {"document_type": "index", "circonscription": "Montréal", "lot": "1 234 567"}
NAMES = [{"name": "Gestion Laframboise inc.", "state": "En vigueur"}, {"name": "Laframboise Immobilier", "state": ""}]


@pytest.fixture
def web(tmp_path: Path, url: str) -> Iterator[LiveRegistries]:
    """An application for each test."""
    with live_registries(tmp_path, {"prod": url}) as one:
        yield one


def post(web: LiveRegistries, path: str, body: Any, role: str = "operator", **headers: str) -> Any:
    return web.ask("POST", path, key=web.key(role), json=body, headers=headers)


def found(web: LiveRegistries, company: str = "Laframboise") -> str:
    """A session whose company a worker has found."""
    id_ = str(post(web, "/api/search-sessions", {"company": company}).json()["id"])
    web.sql("UPDATE search_sessions SET status = 'pending_name_selection', req_completed = true")
    clock = "now()" if web.urls["prod"].startswith("postgres") else "1.0"
    web.sql(
        f"""INSERT INTO tabellion_registry_companies (search_session_id, neq, name, data, names, found_at)
VALUES ($1, '1', 'x', '{{"neq": "1140001234"}}', $2, {clock})""",
        id_,
        json.dumps(NAMES),
    )
    return id_


def test_a_document_is_submitted_once_per_key(web: LiveRegistries) -> None:
    """A submission is a row that waits; the same Idempotency-Key adds no second one, and roles are checked."""
    first = post(web, "/api/extractions", INDEX, **{"Idempotency-Key": "one"})
    again = post(web, "/api/extractions", INDEX, **{"Idempotency-Key": "one"})
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert first.headers["Location"] == first.json()["status_url"]
    [row] = web.sql("SELECT * FROM extraction_queue")
    assert (str(row["id"]), row["status_id"], row["lot"]) == (first.json()["id"], 1, "1 234 567")
    assert web.get(first.json()["status_url"]).json()["inputs"]["lot"] == "1 234 567"
    assert post(web, "/api/extractions", INDEX, "reviewer").status_code == 403


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"document_type": "index", "circonscription": "Laval"}, "/lot"),
        ({"document_type": "actes", "circonscription": "Laval", "lot": "1"}, "/document_number"),
        ({"document_type": "deeds"}, "/document_type"),
        ({**INDEX, "lot": "   "}, "/lot"),
        ({**INDEX, "colour": "red"}, "/colour"),
    ],
)
def test_an_incomplete_search_names_the_field(web: LiveRegistries, body: dict[str, str], field: str) -> None:
    """What the registry's form would reject is rejected at once, and nothing is stored."""
    refused = post(web, "/api/extractions", body)
    assert refused.status_code == 422
    assert refused.json()["field"] == field
    assert web.sql("SELECT id FROM extraction_queue") == []


def test_a_value_that_is_too_long_for_its_column_names_the_field(web: LiveRegistries) -> None:
    """Tables made by hand may have columns with a length; the database's own error named a type."""
    for table, column in (("extraction_queue", "lot"), ("search_sessions", "company")):
        web.sql(f"ALTER TABLE {table} DROP COLUMN {column}")
        web.sql(f"ALTER TABLE {table} ADD COLUMN {column} varchar(8)")
    for path, body, field in (
        ("/api/extractions", INDEX, "/lot"),
        ("/api/search-sessions", {"company": "Gestion Laframboise inc."}, "/company"),
    ):
        details = post(web, path, body)
        assert details.status_code == 422
        assert (details.json()["field"], details.json()["expected"]) == (field, "at most 8 characters")


def test_names_are_chosen_once_however_often(web: LiveRegistries) -> None:
    """Two people choose at once, and again: each name is searched once; a name of another company is rejected."""
    session = found(web)
    path = f"/api/search-sessions/{session}/names"
    names = [one["name"] for one in NAMES]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: post(web, path, {"names": names}, "reviewer"), range(6)))
    assert {one.status_code for one in answers} == {202}
    assert len(post(web, path, {"names": names[:1]}, "reviewer").json()["rdprm_searches"]) == 2
    rows = web.sql("SELECT * FROM rdprm_searches")
    assert sorted(row["name"] for row in rows) == sorted(names)
    assert {(row["status"], str(row["search_session_id"])) for row in rows} == {("pending", session)}
    assert post(web, path, {"names": ["Autre inc."]}, "reviewer").json()["field"] == "/names"
    assert post(web, path, {"names": names}, "viewer").status_code == 403
    shown = web.get(f"/api/search-sessions/{session}").json()
    assert shown["found"] == {"neq": "1140001234"}
    assert len(shown["rights"]) == 2


def test_names_wait_for_the_company(web: LiveRegistries) -> None:
    """A session without names yet is a conflict; an unknown one is not found."""
    id_ = post(web, "/api/search-sessions", {"company": "Laframboise"}).json()["id"]
    early = post(web, f"/api/search-sessions/{id_}/names", {"names": ["x"]})
    assert (early.status_code, early.json()["code"]) == (409, "names_pending")
    assert post(web, "/api/search-sessions/none/names", {"names": ["x"]}).status_code == 404
    [listed] = web.get("/api/search-sessions").json()["search_sessions"]
    assert (listed["status"], listed["names"]) == ("pending_company_selection", [])


def test_a_statement_is_downloaded(web: LiveRegistries) -> None:
    """The PDF of a completed search is named after the searched name; without a statement it is not found."""
    session = found(web)
    chosen = post(web, f"/api/search-sessions/{session}/names", {"names": [NAMES[0]["name"]]}).json()
    [search] = chosen["rdprm_searches"]
    assert web.get(f"/api/rdprm-searches/{search['id']}/file").status_code == 404
    content = write_pdf("État", [["rien"]])
    file = Path(web.config.lake) / "extractions" / "aa" / "a.pdf"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    clock = "now()" if web.urls["prod"].startswith("postgres") else "1.0"
    web.sql(
        f"""INSERT INTO tabellion_registry_statements (rdprm_search_id, storage_path, registrations, found_at)
VALUES ($1, 'extractions/aa/a.pdf', '[]', {clock})""",
        search["id"],
    )
    [listed] = web.get("/api/rdprm-searches").json()["rdprm_searches"]
    got = web.get(listed["file"], key=web.key("viewer"))
    assert got.content == content
    assert "Laframboise" in got.headers["content-disposition"]


def test_notes_and_errors_can_be_translated(web: LiveRegistries) -> None:
    """Both come with their codes: the note while a worker is busy, the error when the search has failed."""
    id_ = post(web, "/api/search-sessions", {"company": "Laframboise"}).json()["id"]
    queue = companies_queue(settings_of(web.config))

    async def claim_and_note() -> Any:
        async with Store(web.urls["prod"]) as store:
            [job] = await store.claim(queue, 1, "w")
            job.note(Message("registry.note_login"))
            await store.renew([job])
            return job

    async def fail(job: Any) -> None:
        async with Store(web.urls["prod"]) as store:
            await store.fail(job, str(SiteProblem("REQ", "no_result", "x")))

    job = asyncio.run(claim_and_note())
    [busy] = web.get("/api/search-sessions").json()["search_sessions"]
    assert (busy["note"], busy["translatable"]["note"]["code"]) == ("signing in", "registry.note_login")
    asyncio.run(fail(job))
    failed = web.get(f"/api/search-sessions/{id_}").json()
    assert (failed["status"], failed["translatable"]["error"]["code"]) == ("failed", "registry.no_result")
    assert failed["note"] is None
    assert "note" not in failed["translatable"]


def test_a_table_that_cannot_be_used_is_explained(web: LiveRegistries) -> None:
    """A rule of the table, a column that is missing and a table that is gone are 409 problems, not failures."""

    def code(answer: Any) -> tuple[int, str]:
        return answer.status_code, answer.json().get("code", "")

    web.sql("ALTER TABLE search_sessions RENAME COLUMN company TO colonne")
    refused = post(web, "/api/search-sessions", {"company": "x"})
    assert code(refused) == (409, "queue_unusable")
    assert "registries.columns.company" in refused.json()["detail"]
    web.sql("DROP TABLE search_sessions")
    assert code(web.get("/api/search-sessions")) == (409, "queue_unusable")
    assert code(post(web, "/api/search-sessions", {"company": "x"})) == (409, "queue_unusable")
    if web.urls["prod"].startswith("postgres"):
        web.sql("ALTER TABLE extraction_queue ALTER COLUMN lot TYPE integer USING 1")
        assert code(post(web, "/api/extractions", INDEX)) == (409, "queue_unusable")
        assert code(post(web, "/api/extractions", {**INDEX, "lot": "1234567"})) == (202, "")


@pytest.mark.parametrize("language", ["en", "fr"])
def test_the_pages_are_there_in_both_languages(web: LiveRegistries, language: str) -> None:
    """The page of searches and that of a company have no text without a translation."""
    session = found(web)
    for path in ("/registries", f"/registries/{session}"):
        got = web.get(path, headers={"Accept-Language": language, "Accept": "text/html"})
        assert got.status_code == 200
        assert ("Registries" if language == "en" else "Registres") in got.text
        assert 'lang="' + language in got.text
        assert ("registry.no_result" in got.text) == (language == "fr")  # notes and errors are English otherwise


def test_the_openapi_document_has_the_routes(web: LiveRegistries) -> None:
    """Each route is described with its body and its answers."""
    paths = web.get("/openapi.json", key=None).json()["paths"]
    assert "requestBody" in paths["/api/search-sessions/{id}/names"]["post"]
    assert {"202", "409", "422"} <= set(paths["/api/search-sessions/{id}/names"]["post"]["responses"])
    assert {"get", "post"} <= set(paths["/api/extractions"])
