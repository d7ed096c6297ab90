"""Webhook endpoints over HTTP: created, listed without their secret, deleted."""

from __future__ import annotations

from datetime import datetime

from tests.models.bills import bill
from tests.web.live import Live, problem

URL = "/api/webhooks"


def test_an_endpoint_is_created_listed_and_deleted(web_any: Live) -> None:
    """Its secret is shown once; a document may name it."""
    answer = web_any.ask("POST", URL, json={"url": "http://127.0.0.1:9/hook", "events": ["document.completed"]})
    assert answer.status_code == 201, answer.text
    endpoint = answer.json()
    assert endpoint["secret"].startswith("whsec_")
    listed = web_any.get(URL)
    [one] = listed.json()["webhooks"]
    assert (one["id"], one["url"], one["events"]) == (endpoint["id"], endpoint["url"], ["document.completed"])
    assert endpoint["secret"] not in listed.text
    assert datetime.fromisoformat(one["created_at"]).tzinfo is not None
    document = web_any.upload(bill(), data={"webhook": endpoint["id"]})
    assert web_any.get(document["status_url"]).json()["webhook"] == endpoint["id"]
    assert web_any.ask("DELETE", f"{URL}/{endpoint['id']}").status_code == 204
    error = problem(web_any.ask("DELETE", f"{URL}/{endpoint['id']}"), 404, "not_found")
    assert error["translatable"]["detail"]["code"] == "problem.no_such_endpoint"
    assert web_any.get(URL).json() == {"webhooks": []}


def test_an_endpoint_gets_all_events_by_default(web: Live) -> None:
    """`*`, or only those of documents that name it."""
    assert web.ask("POST", URL, json={"url": "http://127.0.0.1:9/a"}).json()["events"] == ["*"]
    assert web.ask("POST", URL, json={"url": "http://127.0.0.1:9/b", "events": []}).json()["events"] == []
