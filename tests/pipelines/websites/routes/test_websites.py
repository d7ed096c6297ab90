"""Websites over HTTP: submitted, refused, listed, retried, cancelled, compared, and their reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.errors import Permanent
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tests.pipelines.websites.live import LiveWebsites, live_websites
from tests.pipelines.websites.sites import website

OTHER = "https://93.184.216.35/"


@pytest.fixture
def web(tmp_path: Path, url: str) -> Iterator[LiveWebsites]:
    """An application for each test."""
    with live_websites(tmp_path, {"prod": url}) as one:
        yield one


async def down(*_: Any) -> WebsiteInfo:
    raise Permanent("there is no such site")


def test_a_website_is_submitted_worked_and_read(web: LiveWebsites) -> None:
    """202 with a place to look; later the phases, what was found, what was said, and where it came from."""
    first = web.submit(type="trust")
    assert first.status_code == 202
    assert first.headers["Location"] == first.json()["status_url"]
    assert first.json()["status"] == "not-started"
    assert [phase["state"] for phase in first.json()["phases"]] == ["ready", "waiting", "waiting"]
    web.work()
    done = web.get(first.headers["Location"]).json()
    assert done["status"] == "completed"
    assert [phase["state"] for phase in done["phases"]] == ["done"] * 3
    assert all(phase["seconds"] is not None for phase in done["phases"])
    assert done["info"]["words"] > 20
    [analysis] = done["analyses"]
    assert analysis["result"]["fields"]["operator"][0]["value"] == "Birch & Co. Ltd"
    assert analysis["result"]["fields"]["operator"][0]["sources"][0]["page"]
    prompt = web.get(f"/api/websites/{done['id']}/prompt").json()
    assert "beech from managed forests" in prompt["user"]


def test_a_second_submission_is_a_conflict_that_names_the_first(web: LiveWebsites) -> None:
    """With the reason and the job; the same Idempotency-Key gets the first answer again; roles are checked."""
    body = {"url": "https://93.184.216.34"}
    headers = {"Idempotency-Key": "one"}
    first, again = (
        web.ask("POST", "/api/websites", key=web.key("operator"), json=body, headers=headers) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    refused = web.submit()
    assert refused.status_code == 409
    assert (refused.json()["code"], refused.json()["reason"]) == ("website_open", "already_queued")
    assert refused.json()["existing"]["id"] == first.json()["id"]
    assert web.submit(role="reviewer").status_code == 403


def test_a_full_backlog_says_when_to_come_back(tmp_path: Path, sqlite_url: str) -> None:
    """429 with Retry-After."""
    with live_websites(tmp_path, {"prod": sqlite_url}, sections={"websites": {"backlog": 1}}) as web:
        assert web.submit().status_code == 202
        refused = web.submit(OTHER)
    assert (refused.status_code, refused.json()["code"], refused.json()["limit"]) == (429, "backlog_full", 1)
    assert int(refused.headers["Retry-After"]) >= 5


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"url": "http://10.0.0.1/"}, "url_blocked", "/url"),
        ({"url": "http://169.254.169.254/"}, "url_blocked", "/url"),
        ({"url": "ftp://93.184.216.34/"}, "url_blocked", "/url"),
        ({"url": "https://no-such-host.invalid/"}, "url_failed", "/url"),
        ({"url": "93.184.216.34", "type": "nonsense"}, "value_invalid", "/type"),
        ({"url": "93.184.216.34", "models": ["gpt-9"]}, "value_invalid", "/models"),
        ({"url": "93.184.216.34", "language": "xx"}, "value_invalid", "/language"),
        ({"url": "93.184.216.34", "colour": "red"}, "value_unknown", "/colour"),
        ({}, "value_missing", "/url"),
    ],
)
def test_what_cannot_be_analysed_is_refused_with_its_field(
    tmp_path: Path, sqlite_url: str, body: dict[str, Any], code: str, field: str
) -> None:
    """And nothing is stored."""
    with live_websites(tmp_path, {"prod": sqlite_url}, allow=()) as web:
        refused = web.ask("POST", "/api/websites", key=web.key("operator"), json=body)
        assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (422, code, field)
        assert web.sql("SELECT id FROM website_jobs") == []


def test_lists_are_filtered_and_paged(web: LiveWebsites) -> None:
    """Newest first, with a cursor that is bound to its filters."""
    ids = [web.submit(f"https://93.184.216.{number}/", type="seo").json()["id"] for number in range(40, 45)]
    web.submit(OTHER)
    first = web.get("/api/websites?type=seo&limit=3").json()
    assert [one["id"] for one in first["websites"]] == ids[:1:-1]
    rest = web.get(f"/api/websites?type=seo&limit=3&cursor={first['next']}").json()
    assert [one["id"] for one in rest["websites"]] == ids[1::-1]
    assert rest["next"] is None
    assert web.get(f"/api/websites?type=trust&cursor={first['next']}").json()["code"] == "cursor_invalid"
    assert len(web.get("/api/websites?status=completed").json()["websites"]) == 0
    assert len(web.get("/api/websites?url=93.184.216.42").json()["websites"]) == 1


def test_a_failed_job_is_retried_where_it_failed(web: LiveWebsites) -> None:
    """From the same phase with its counters reset; only a failed one, and not beside an open one."""
    id_ = web.submit().json()["id"]
    assert web.ask("POST", f"/api/websites/{id_}/retry", key=web.key("operator")).json()["code"] == "website_not_failed"
    web.work(run_visit=down)
    failed = web.get(f"/api/websites/{id_}").json()
    assert (failed["status"], failed["phases"][0]["error"]) == ("failed", "there is no such site")
    again = web.submit().json()["id"]
    refused = web.ask("POST", f"/api/websites/{id_}/retry", key=web.key("operator"))
    assert (refused.status_code, refused.json()["existing"]["id"]) == (409, again)
    web.work()
    retried = web.ask("POST", f"/api/websites/{id_}/retry", key=web.key("operator"))
    assert (retried.status_code, retried.json()["status"]) == (202, "not-started")
    web.work()
    assert web.get(f"/api/websites/{id_}").json()["status"] == "completed"


def test_a_waiting_job_is_cancelled(web: LiveWebsites) -> None:
    """It fails with who did it; an ended one cannot be cancelled, and its website can be submitted again."""
    id_ = web.submit().json()["id"]
    cancelled = web.ask("POST", f"/api/websites/{id_}/cancel", key=web.key("operator"))
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "failed")
    assert "cancelled" in cancelled.json()["phases"][0]["error"]
    assert web.ask("POST", f"/api/websites/{id_}/cancel", key=web.key("operator")).json()["code"] == "website_ended"
    assert web.submit().status_code == 202


def test_a_report_is_one_file_without_references(web: LiveWebsites) -> None:
    """In both languages; scripts of the site stay text, and it may load nothing."""

    async def hostile(url: str, *_: Any) -> WebsiteInfo:
        return website(url, title="<script>alert(1)</script>", site_name="<img src=x onerror=alert(1)>")

    id_ = web.submit(type="seo").json()["id"]
    assert web.get(f"/api/websites/{id_}/report").status_code == 404
    web.work(run_visit=hostile)
    english = web.get(f"/api/websites/{id_}/report")
    french = web.get(f"/api/websites/{id_}/report?language=fr&download=true")
    assert english.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "sandbox" in english.headers["Content-Security-Policy"]
    assert "attachment" in french.headers["Content-Disposition"]
    assert "Search engines" in english.text
    assert "Référencement" in french.text
    assert "données structurées" in french.text
    for text in (english.text, french.text):
        assert "<script" not in text
        assert "<img src=x" not in text
        assert 'src="http' not in text
        assert "<link" not in text


def test_two_runs_are_compared(web: LiveWebsites) -> None:
    """What changed, what did not, and by how much the score did."""

    async def better(url: str, *_: Any) -> WebsiteInfo:
        return website(url, canonical=url, json_ld=({"@type": "Organization", "name": "Birch"},), title="Birch: toys")

    first = web.submit(type="seo").json()["id"]
    web.work()
    second = web.submit(type="seo").json()["id"]
    web.work(run_visit=better)
    compared = web.get(f"/api/websites/compare?a={first}&b={second}").json()
    assert compared["same_site"]
    assert compared["score_change"] > 0
    facts = {one["name"]: one for one in compared["facts"]}
    assert (facts["title"]["same"], facts["language"]["same"]) == (False, True)
    findings = {one["title"]: (one["a"], one["b"]) for one in compared["findings"]}
    assert findings["The home page declares no canonical address"] == (True, False)
    assert findings["The home page declares its canonical address"] == (False, True)
    assert web.get(f"/api/websites/compare?a={first}&b=x").status_code == 404


def test_health_tells_the_phases(web: LiveWebsites) -> None:
    """Queue sizes before, success rates and times after."""
    web.submit()
    before = web.get("/api/websites/health").json()
    assert [phase["name"] for phase in before["phases"]] == [
        "website-analysis", "prompt-forming", "model-analysis", "website-models",
    ]  # fmt: skip
    assert (before["backlog"], before["backlog_limit"]) == (1, 1000)
    assert before["phases"][0]["success_rate"] is None
    web.work()
    after = web.get("/api/websites/health").json()["phases"][0]
    assert (after["ready"], after["done"], after["success_rate"], after["retries"]) == (0, 1, 1.0, 0)
    assert after["seconds"] > 0


def test_types_and_models_can_be_asked_for(web: LiveWebsites) -> None:
    """With their titles and whether they need a model."""
    answer = web.get("/api/websites/types").json()
    assert [kind["name"] for kind in answer["types"]] == ["profile", "seo", "trust"]
    assert not any(kind["needs_model"] for kind in answer["types"])
    assert answer["models"][0] == "local"


@pytest.mark.parametrize("language", ["en", "fr"])
def test_pages_are_rendered(web: LiveWebsites, language: str) -> None:
    """The list, a website before and after its visit, and a comparison, in both languages."""
    ids = [web.submit(address, type="trust").json()["id"] for address in ("https://93.184.216.34", OTHER)]
    headers = {"Accept-Language": language}
    key = web.key("viewer")
    assert web.ask("GET", f"/websites/{ids[0]}", key=key, headers=headers).status_code == 200
    web.work()
    for path in ("/websites", f"/websites/{ids[0]}", f"/websites/compare?a={ids[0]}&b={ids[1]}"):
        answer = web.ask("GET", path, key=key, headers=headers)
        assert answer.status_code == 200, answer.text
        assert f'<html lang="{language}"' in answer.text
        assert "website.state_" not in answer.text.partition("<script")[0]


def test_a_later_phase_is_retried_there_or_from_the_start(web: LiveWebsites) -> None:
    """A prompt that failed for a missing file needs the visit again; the phases before are not done again otherwise."""
    id_ = web.submit().json()["id"]
    web.work(slots={"prompt-forming": 10}, make_model=None, default_model="local")
    web.sql("UPDATE website_jobs SET status = 'failed', analysis_error = 'made to fail'")
    again = web.ask("POST", f"/api/websites/{id_}/retry", key=web.key("operator"), json={})
    assert again.json()["status"] == "model-analysis"
    web.work()
    assert web.get(f"/api/websites/{id_}").json()["phases"][0]["attempts"] == 1
    web.sql("UPDATE website_jobs SET status = 'failed', analysis_error = 'made to fail'")
    anew = web.ask("POST", f"/api/websites/{id_}/retry", key=web.key("operator"), json={"from_start": True})
    assert anew.json()["status"] == "not-started"
    web.work()
    assert web.get(f"/api/websites/{id_}").json()["status"] == "completed"


def test_several_models_are_cancelled_with_their_job(web: LiveWebsites) -> None:
    """None of them is left to be asked."""
    id_ = web.submit().json()["id"]
    web.sql("UPDATE website_jobs SET status = 'model-analysis', models = '[\"a\", \"b\"]'")
    for model in ("a", "b"):
        web.sql(f"INSERT INTO website_analyses (id, job_id, model) VALUES ('{model}', '{id_}', '{model}')")
    assert web.get("/api/websites/health").json()["phases"][2]["ready"] == 0, "the last phase waits for its models"
    assert web.get("/api/websites/health").json()["phases"][3]["ready"] == 2
    cancelled = web.ask("POST", f"/api/websites/{id_}/cancel", key=web.key("operator")).json()
    assert cancelled["status"] == "failed"
    assert {one["status"] for one in cancelled["analyses"]} == {"failed"}
