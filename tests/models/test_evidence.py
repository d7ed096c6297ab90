"""A model's values are searched on the pages, and trusted accordingly."""

from __future__ import annotations

from typing import Any

from tabellion.models.evidence import GROUNDED, MALFORMED, UNGROUNDED, evidence
from tabellion.reading.field import Field
from tabellion.reading.grounding.index import Index
from tests.models.bills import SMALL, pages_of, reply_about

INDEX = Index(pages_of())


def evaluate(**values: Any) -> dict[str, Field]:
    return evidence(reply_about(**values), SMALL, INDEX)


def test_a_value_within_its_quote_is_grounded() -> None:
    """The box is the value's, the quote is the page's words, the page is theirs."""
    total = evaluate(total=("120.00", "Total: 120.00"))["total"]
    assert (total.value, total.page, total.quote, total.source) == ("120.00", 1, "Total: 120.00", "model")
    assert total.reasons == ("model", "grounded: exact")
    assert total.confidence == GROUNDED
    word = next(word for word in pages_of()[0].words if word.text == "120.00")
    assert total.box == word.box


def test_a_wrong_page_is_only_a_hint() -> None:
    """The words decide: a wrong page number does no harm."""
    answer = reply_about(total=("120.00", "Total: 120.00"))
    answer["total"]["page"] = 7
    assert evidence(answer, SMALL, INDEX)["total"].page == 1


def test_a_quote_without_the_value_is_no_evidence() -> None:
    """The value is then searched by itself."""
    made_up = evaluate(total=("999.00", "Total: 120.00"))["total"]
    assert (made_up.box, made_up.confidence, made_up.reasons[-1]) == (None, UNGROUNDED, "ungrounded")
    elsewhere = evaluate(subtotal=("100.00", "Total: 120.00"))["subtotal"]
    assert elsewhere.box is not None
    assert UNGROUNDED < elsewhere.confidence < GROUNDED
    assert evaluate(vendor=("Globex", "Invoice number: A-77"))["vendor"].box is None


def test_a_value_not_on_the_page_is_ungrounded() -> None:
    """No box is invented."""
    vendor = evaluate(vendor=("Globex Corporation", "Globex Corporation"))["vendor"]
    assert (vendor.page, vendor.box, vendor.quote, vendor.confidence) == (None, None, None, UNGROUNDED)


def test_values_that_are_not_printed_literally_have_their_quote() -> None:
    """A currency by its sign, a yes by its words; a currency that the quote does not name is searched."""
    assert (
        evidence(reply_about(currency=("EUR", "€")), SMALL, Index(pages_of("Total 12.00 €")))["currency"].box
        is not None
    )
    assert evaluate(paid=(True, "Tax: 20.00"))["paid"].value is True
    assert evaluate(currency=("GBP", "Total: 120.00"))["currency"].box is None


def test_a_malformed_value_is_hardly_trusted() -> None:
    """It stays as text for the rules to flag."""
    day = evaluate(day=("2026-02-30", None))["day"]
    assert (day.value, day.confidence) == ("2026-02-30", MALFORMED)
    assert "not a date (YYYY-MM-DD)" in day.reasons


def test_rows_are_as_certain_as_their_evidence() -> None:
    """A row counts when its quote and each of its amounts are on one page."""
    index = Index(pages_of("Hammer 50.00", "Saw 70.00"))
    good = {"description": "Hammer", "amount": "50.00", "quote": "Hammer 50.00"}
    field = evidence(reply_about(line_items=[good, {"description": "Saw", "amount": "71.00"}]), SMALL, index)[
        "line_items"
    ]
    assert field.value == [
        {"description": "Hammer", "amount": "50.00"}, {"description": "Saw", "amount": "71.00"},
    ]  # fmt: skip
    assert "1 of 2 rows grounded" in field.reasons
    assert field.page == 1
    both = evidence(reply_about(line_items=[good]), SMALL, index)["line_items"]
    assert both.confidence > field.confidence
    nowhere = evidence(reply_about(line_items=[{"description": "Drill", "amount": "9.00"}]), SMALL, index)["line_items"]
    assert (nowhere.box, nowhere.reasons) == (None, ("model", "ungrounded"))
