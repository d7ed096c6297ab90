"""One judgement of a stored document: the API, the review screen and the outputs cannot differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents.lookup import get
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.review import item_view
from tabellion.pipelines.documents.settings import Settings
from tests.pipelines.documents.papers import (
    document,
    edit_field,
    finish_review,
    paper,
    process_all,
    rows,
    submit_file,
    write_type,
)
from tests.pipelines.documents.review.items import CLEO
from tests.waiting import eventually
from tests.workers import ask, make_worker, working

FIELDS = """\
  iban: {type: id, required: true}
  note: {type: text, required: true}
validation: [{name: small, rule: total < 1}]
"""
DIFFERS = {"code": "xml_differs", "severity": "warning", "message": "no", "fields": ["vendor"], "rule": "twice"}


@pytest.fixture
def key(url: str, settings: Settings) -> str:
    """A document in review: two missing values, a rule that fails, and an issue that only a reading finds."""
    write_type(settings, "slip", FIELDS)
    one = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    [stored] = rows(url, "SELECT result FROM tabellion_documents")
    result = json.loads(stored["result"])
    result["issues"].append(DIFFERS)
    rows(url, "UPDATE tabellion_documents SET result = $1 RETURNING id", json.dumps(result))
    return one


def shown(url: str, settings: Settings, key: str) -> dict[str, Any]:
    """What the API and the review screen show: issues and verdict; and the reasons of the API."""

    async def look(store: Store) -> dict[str, Any]:
        found = await get(store, key, settings.types.get)
        assert found is not None
        assert found["review"] is not None
        item = await item_view.get(store, settings.types.get, found["review"]["id"], CLEO)
        return {
            "api": (*compare(found["issues"]), found["verdict"]),
            "screen": (*compare(item["issues"]), item["document"]["verdict"]),
            "reasons": [(one["code"], *one["fields"]) for one in found["reasons"]],
        }

    return ask(url, look)


def compare(issues: Any) -> list[tuple[str, ...]]:
    """Issues as they can be compared."""
    return [(one["code"], one["severity"], *one["fields"]) for one in issues]


def written(url: str, settings: Settings, key: str) -> tuple[Any, ...]:
    """The issues and the verdict of the outputs, after the review was ended and reopened."""
    finish_review(url, key)
    rows(url, "UPDATE tabellion_review_items SET status = 'pending', reviewer = NULL RETURNING id")
    process_all(url, settings)
    [row] = rows(url, "SELECT verdict, result FROM tabellion_documents")
    result = json.loads(row["result"])
    assert row["verdict"] == result["verdict"]
    return (*compare(result["issues"]), row["verdict"])


def lock(url: str, key: str) -> None:
    """Lock fields as a person; one of them as rows of other programs are locked: without a state."""
    edit_field(url, key, "iban", "DE89370400440532013000")
    edit_field(url, key, "vendor", "Acme Tools Ltd")
    rows(url, "UPDATE tabellion_extracted_fields SET state = NULL WHERE name = 'vendor' RETURNING name")


@pytest.mark.parametrize("locked", [False, True])
def test_screen_api_and_outputs_agree(url: str, settings: Settings, key: str, locked: bool) -> None:
    """With and without locked fields, also one that is locked without a state."""
    if locked:
        lock(url, key)
    before = shown(url, settings, key)
    assert before["screen"] == before["api"]
    about = {name for issue in before["api"][:-1] for name in issue[2:]}
    assert ({"iban", "vendor"} & about, "note" in about) == (set() if locked else {"iban", "vendor"}, True)
    assert before["api"][-1] == "reject"
    assert written(url, settings, key) == before["api"]
    assert shown(url, settings, key) == before


def test_screen_api_and_outputs_agree_after_a_field_is_unlocked(url: str, settings: Settings, key: str) -> None:
    """What the reading found about it counts again, although the outputs do not have it."""
    lock(url, key)
    written(url, settings, key)
    rows(url, "UPDATE tabellion_extracted_fields SET locked = FALSE, state = NULL RETURNING name")
    after = shown(url, settings, key)
    assert after["screen"] == after["api"]
    assert ("xml_differs", "warning", "vendor") in after["api"]
    assert written(url, settings, key) == after["api"]


@pytest.mark.parametrize("broken", [True, False])
@pytest.mark.parametrize("locked", [False, True])
def test_without_a_usable_type_everything_is_as_stored(
    url: str, settings: Settings, key: str, broken: bool, locked: bool
) -> None:
    """The file of the type has a mistake or is gone: nothing disappears, nothing is added, and no output changes."""
    stored = document(url, key)
    if locked:
        lock(url, key)
    path = Path(settings.types.folders[0], "slip.yaml")
    if broken:
        path.write_text("name: slip\nnonsense: [")
    else:
        path.unlink()
    now = shown(url, settings, key)
    assert now["screen"] == now["api"] == (*compare(stored["issues"]), "reject")
    assert len(stored["issues"]) == 4
    assert now["reasons"] == [(one["code"], *one["fields"]) for one in stored["reasons"]]
    kept = "SELECT verdict, result, json_sha256 FROM tabellion_documents"
    before = rows(url, kept)
    finish_review(url, key)
    with working(make_worker(url, *documents_queues(replace(settings, retry_base=0.02)))):
        tried = "SELECT 1 FROM tabellion_attempts WHERE queue = 'reviewed' AND error IS NOT NULL"
        eventually(lambda: rows(url, tried) != [], within=30)
    assert rows(url, kept) == before
    ended = shown(url, settings, key)
    assert ended["screen"] == ended["api"] == now["api"]


def test_values_typed_without_a_type_keep_the_stored_issues(url: str, settings: Settings, key: str) -> None:
    """The screen asks after every change: they must not disappear then."""
    found = document(url, key)
    Path(settings.types.folders[0], "slip.yaml").unlink()
    item = found["review"]["id"]
    checked = ask(url, lambda store: item_view.check(store, settings.types.get, item, {"total": "1.00"}))
    assert compare(checked["issues"]) == compare(found["issues"])
