"""Webhook endpoints over HTTP: made, listed without their secret, removed."""

from __future__ import annotations

from datetime import datetime

from tests.models.bills import bill
from tests.web.live import Live, problem

URL = "/api/webhooks"


def test_an_endpoint_lives_from_its_making_to_its_end(web_any: Live) -> None:
    """Its secret is shown once; a document may name it."""
    answer = web_any.ask("POST", URL, json={"url": "http://127.0.0.1:9/hook", "events": ["document.completed"]})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["secret"].startswith("whsec_")
    listed = web_any.get(URL)
    [one] = listed.json()["webhooks"]
    assert (one["id"], one["url"], one["events"]) == (made["id"], made["url"], ["document.completed"])
    assert made["secret"] not in listed.text
    assert datetime.fromisoformat(one["created_at"]).tzinfo is not None
    document = web_any.upload(bill(), data={"webhook": made["id"]})
    assert web_any.get(document["status_url"]).json()["webhook"] == made["id"]
    assert web_any.ask("DELETE", f"{URL}/{made['id']}").status_code == 204
    told = problem(web_any.ask("DELETE", f"{URL}/{made['id']}"), 404, "not_found")
    assert told["translatable"]["detail"]["code"] == "problem.no_such_endpoint"
    assert web_any.get(URL).json() == {"webhooks": []}


def test_an_endpoint_is_told_of_everything_unless_said_otherwise(web: Live) -> None:
    """`*`, or only what names it."""
    assert web.ask("POST", URL, json={"url": "http://127.0.0.1:9/a"}).json()["events"] == ["*"]
    assert web.ask("POST", URL, json={"url": "http://127.0.0.1:9/b", "events": []}).json()["events"] == []
