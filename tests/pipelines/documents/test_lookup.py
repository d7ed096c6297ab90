"""Looking up documents: one, many, and their progress."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents import lookup
from tabellion.pipelines.documents.lookup import BadQuery, get, list_documents, states
from tabellion.pipelines.documents.settings import Settings
from tests.pipelines.documents.papers import edit_field, paper, process_all, put, submit_bills, submit_file, write_type
from tests.table_owner import owning
from tests.workers import ask


def change(url: str, key: str, **values: Any) -> None:
    with owning(url, create=False) as owner:
        for column, value in values.items():
            owner(f"UPDATE tabellion_documents SET {column} = $1 WHERE id = $2", value, key)


def listed(url: str, filters: dict[str, Any] | None = None, **how: Any) -> list[str]:
    return [one["id"] for one in ask(url, lambda store: list_documents(store, filters, **how))[0]]


def test_a_queued_document_has_what_is_known(url: str, settings: Settings) -> None:
    """No fields, no outputs, no error; its times as ISO 8601."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    found = ask(url, lambda store: get(store, one.id))
    assert found is not None
    assert (found["id"], found["status"], found["type"], found["model"]) == (one.id, "queued", "invoice", "local")
    assert (found["fields"], found["issues"], found["error"], found["progress"]) == ({}, [], None, None)
    assert found["outputs"] == {"json": None, "parquet": None}
    assert datetime.fromisoformat(found["created_at"]) - datetime.now(UTC) < timedelta(seconds=60)
    assert json.loads(json.dumps(found)) == found


def test_a_missing_document(url: str) -> None:
    """Neither an unknown id nor an invalid one finds anything."""
    for key in ("0" * 26, "nothing", "", "' OR 1 = 1 --"):
        assert ask(url, lambda store, key=key: get(store, key)) is None  # type: ignore[misc]


def test_progress_is_shown_while_it_is_read(url: str, settings: Settings) -> None:
    """Page 3 of 12, alone or for many at once."""
    one, other = submit_bills(url, settings, 0, 1)
    change(url, one.id, status="processing", pages=12, done_pages=3)
    found = ask(url, lambda store: get(store, one.id))
    assert found is not None
    assert found["progress"] == {"done": 3, "pages": 12}
    assert ask(url, lambda store: states(store, [one.id, other.id, "0" * 26, "x"])) == {
        one.id: {"status": "processing", "progress": {"done": 3, "pages": 12}, "version": 1},
        other.id: {"status": "queued", "progress": None, "version": 1},
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [('{"code": "pdf_encrypted", "message": "requires a password", "attempts": 1}', "pdf_encrypted"),
     ("Unavailable: 503", "try_failed"),
     ("{not json", "try_failed"), ('{"a": 1}', "try_failed")],
)  # fmt: skip
def test_an_error_is_always_a_problem(text: str, code: str) -> None:
    """Whatever the column contains."""
    found = lookup.problem(text, 2)
    assert found is not None
    assert found["code"] == code
    assert found["message"]


def test_lists_are_paged_newest_first(url: str, settings: Settings) -> None:
    """Each document once, whatever is submitted meanwhile."""
    ids = [one.id for one in submit_bills(url, settings, *range(5))]

    async def pages(store: Store) -> list[list[str]]:
        seen, cursor = [], None
        while True:
            rows, cursor = await list_documents(store, cursor=cursor, limit=2)
            seen.append([one["id"] for one in rows])
            if cursor is None:
                return seen

    found = ask(url, pages)
    assert [len(page) for page in found] == [2, 2, 1]
    assert [one for page in found for one in page] == sorted(ids, reverse=True)
    assert "result" not in ask(url, list_documents)[0][0]


def test_lists_are_filtered(url: str, settings: Settings) -> None:
    """By status, type, model, name, hash, original and time."""
    one, other = submit_bills(url, settings, 0, 1, type="invoice")
    [third] = submit_bills(url, settings, 0, type="invoice")
    change(url, one.id, status="failed")
    assert listed(url, {"status": "failed"}) == [one.id]
    assert set(listed(url, {"type": "invoice", "model": "local"})) == {one.id, other.id, third.id}
    assert listed(url, {"type": "receipt"}) == []
    assert listed(url, {"duplicate_of": one.id}) == [third.id]
    assert set(listed(url, {"sha256": put(settings, 0).sha256})) == {one.id, third.id}
    hour = timedelta(hours=1)
    assert len(listed(url, {"created_after": datetime.now(UTC) - hour})) == 3
    assert listed(url, {"created_before": (datetime.now(UTC) - hour).timestamp()}) == []
    assert listed(url, {"review": "pending"}) == []


def test_a_duplicate_is_listed_with_the_values_of_its_original(url: str, settings: Settings) -> None:
    """As when looked up alone: type, verdict and outputs; and filters find it by them."""
    one, other = submit_bills(url, settings, 0, 0)
    process_all(url, settings)
    found: Any = {row["id"]: row for row in ask(url, list_documents)[0]}
    assert (found[other.id]["status"], found[other.id]["duplicate_of"]) == ("duplicate", one.id)
    for name in ("type", "verdict", "pages", "outputs", "hashes", "reasons"):
        assert found[other.id][name] == found[one.id][name] is not None
    assert found[one.id]["type"] == "invoice"
    for filters in ({"type": "invoice"}, {"verdict": found[one.id]["verdict"]}):
        assert listed(url, filters) == [other.id, one.id]
    alone: Any = ask(url, lambda store: get(store, other.id))
    assert alone is not None
    assert {name: alone[name] for name in found[other.id]} == found[other.id]


@pytest.mark.parametrize(
    ("filters", "how", "field"),
    [({"status": "done"}, {}, "status"), ({"id; DROP": "1"}, {}, "id; DROP"),
     ({"created_after": "noon"}, {}, "created_after"),
     ({}, {"limit": 0}, "limit"), ({}, {"limit": 10**9}, "limit"), ({}, {"cursor": "x"}, "cursor")],
)  # fmt: skip
def test_an_invalid_list_request_names_the_field(
    url: str, filters: dict[str, Any], how: dict[str, Any], field: str
) -> None:
    """The database is not queried."""
    with pytest.raises(BadQuery) as caught:
        listed(url, filters, **how)
    assert caught.value.field == field


def test_settled_issues_are_no_longer_shown(url: str, settings: Settings) -> None:
    """While a document is reviewed, its issues, reasons and verdict follow the current fields."""
    write_type(settings, "slip", "  iban: {type: id, required: true}\n  note: {type: text, required: true}\n")
    key = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)

    def look_up() -> Any:
        return ask(url, lambda store: get(store, key, settings.types.get))

    before = look_up()
    assert [one["fields"] for one in before["issues"]] == [["iban"], ["note"]]
    assert {name for one in before["reasons"] for name in one["fields"]} == {"iban", "note"}
    edit_field(url, key, "iban", "DE89370400440532013000")
    between = look_up()
    assert [one["fields"] for one in between["issues"]] == [["note"]]
    assert (between["reasons"][0]["fields"], len(between["reasons"]), between["verdict"]) == (["note"], 1, "reject")
    edit_field(url, key, "note", None, "absent")
    after = look_up()
    assert (after["issues"], after["reasons"], after["verdict"]) == ([], [], "accept")
