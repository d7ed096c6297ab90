"""The queue, the review screen and the statistics as HTML: access rules and translations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion import messages
from tabellion.pipelines.documents.review import queue
from tabellion.pipelines.documents.review.claims import BACK
from tabellion.pipelines.documents.review.rejection import REJECTIONS
from tabellion.pipelines.documents.review_reasons import REASONS
from tabellion.pipelines.documents.routes import pages
from tabellion.web.pages import static
from tests.pipelines.documents.review.items import TEXT, put
from tests.web.browser import signed_in
from tests.web.live import Live, live


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application with a document type for these tests."""
    folder = tmp_path_factory.mktemp("review-pages")
    (folder / "types").mkdir()
    (folder / "types" / "bill.yaml").write_text(TEXT)
    with live(folder, {"prod": f"sqlite:///{folder}/prod.db"}, types=(str(folder / "types"),)) as one:
        yield one


def test_the_queue_offers_every_type_and_reason(place: Live) -> None:
    """As choices of its filters, in the user's language."""
    text = signed_in(place, "viewer").get("/queue", headers={"Accept-Language": "fr"}).text
    assert '<option value="bill">Bill</option>' in text
    for code in REASONS:
        assert f'<option value="{code}">{messages.translate("fr", f"queue.reason.{code}")}</option>' in text
    assert 'id="claim"' not in text
    assert 'id="claim"' in signed_in(place, "reviewer").get("/queue").text


def test_a_reviewer_reads_every_rejection_in_their_language() -> None:
    """Rejection reasons and trail entries are translated."""
    for language in messages.LANGUAGES:
        for code in (*REJECTIONS, BACK, "read_again", "reread", "taken_over"):
            assert f"review.because.{code}" in messages.catalogue(language)


def test_the_screen_names_its_item_and_preloads_its_scripts(place: Live) -> None:
    """The browser loads them at once, and not one after the other."""
    item = place.store("prod", put)
    text = signed_in(place, "viewer").get(f"/review/{item}").text
    [data] = re.findall(r'id="data">(.*?)</script>', text)
    body = json.loads(data)
    assert (body["item"], body["kept"]) == (item, queue.HOLD)
    assert body["types"]["invoice"] == "Invoice"
    for name in pages.modules():
        assert f'<link rel="modulepreload" href="{static.address(name)}">' in text
    folder = Path(pages.__file__).parent.parent / "static"
    imported = re.findall(r'from "\./(review\w*\.js)"', (folder / "review.js").read_text())
    assert set(imported) < set(pages.modules())


def test_an_unknown_item_is_a_page_that_says_so(place: Live) -> None:
    """Not an empty screen."""
    answer = signed_in(place, "viewer").get("/review/01m7gjv2zca8ks8m6pqrvakah4")
    assert answer.status_code == 404
    assert messages.translate("en", "base.error_not_found") in answer.text


@pytest.mark.parametrize(("role", "status"), [("reviewer", 403), ("operator", 200)])
def test_statistics_are_for_operators(place: Live, role: str, status: int) -> None:
    """Other roles cannot see who worked how."""
    answer = signed_in(place, role).get("/numbers")
    assert answer.status_code == status
    assert ('href="/numbers"' in answer.text) == (role == "operator")


def test_the_list_shows_overdue_escalated_or_finished_items(place: Live) -> None:
    """And no others then; finished ones whatever their ending."""
    waits, late, hard, done, turned = (place.store("prod", put) for _ in range(5))
    place.sql("UPDATE tabellion_review_items SET due_at = 1 WHERE id = $1", late)
    place.sql("UPDATE tabellion_review_items SET escalated_at = 1, escalated_by = 'anna' WHERE id = $1", hard)
    place.sql("UPDATE tabellion_review_items SET status = 'approved', finished_at = 10 WHERE id = $1", done)
    place.sql("UPDATE tabellion_review_items SET status = 'rejected', finished_at = 20 WHERE id = $1", turned)

    def listed(question: str) -> list[str]:
        answer = place.get(f"/api/review/items?{question}").json()
        return [one["id"] for one in answer["items"] if one["id"] in (waits, late, hard, done, turned)]

    assert listed("overdue=true") == [late]
    assert listed("escalated=true") == [hard]
    assert listed("status=done") == [turned, done]
    assert sorted(listed("status=open")) == sorted([waits, late, hard])
