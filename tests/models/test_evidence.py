"""A model's values are looked for on the pages, and believed by what is found."""

from __future__ import annotations

from typing import Any

from tabellion.models.evidence import GROUNDED, MALFORMED, UNGROUNDED, evidence
from tabellion.reading.field import Field
from tabellion.reading.grounding.index import Index
from tests.models.bills import SMALL, pages_of, said

INDEX = Index(pages_of())


def heard(**values: Any) -> dict[str, Field]:
    return evidence(said(**values), SMALL, INDEX)


def test_a_value_within_its_quote_is_grounded() -> None:
    """The box is that of the value, the quote is the page's words, the page is where they stand."""
    total = heard(total=("120.00", "Total: 120.00"))["total"]
    assert (total.value, total.page, total.quote, total.source) == ("120.00", 1, "Total: 120.00", "model")
    assert total.reasons == ("model", "grounded: exact")
    assert total.confidence == GROUNDED
    word = next(word for word in pages_of()[0].words if word.text == "120.00")
    assert total.box == word.box


def test_a_wrong_page_is_only_a_hint() -> None:
    """The words decide: a page number that is not true does no harm."""
    answer = said(total=("120.00", "Total: 120.00"))
    answer["total"]["page"] = 7
    assert evidence(answer, SMALL, INDEX)["total"].page == 1


def test_a_quote_that_says_something_else_is_no_evidence() -> None:
    """A quote that is there does not ground a value that is not in it; the value is looked for by itself."""
    made_up = heard(total=("999.00", "Total: 120.00"))["total"]
    assert (made_up.box, made_up.confidence, made_up.reasons[-1]) == (None, UNGROUNDED, "ungrounded")
    elsewhere = heard(subtotal=("100.00", "Total: 120.00"))["subtotal"]
    assert elsewhere.box is not None
    assert UNGROUNDED < elsewhere.confidence < GROUNDED
    assert heard(vendor=("Globex", "Invoice number: A-77"))["vendor"].box is None


def test_what_is_nowhere_is_ungrounded() -> None:
    """No box is invented."""
    vendor = heard(vendor=("Globex Corporation", "Globex Corporation"))["vendor"]
    assert (vendor.page, vendor.box, vendor.quote, vendor.confidence) == (None, None, None, UNGROUNDED)


def test_values_that_are_not_printed_as_such_have_their_quote() -> None:
    """A currency by its sign, a yes by its words; a currency that the quote does not name is looked for."""
    assert evidence(said(currency=("EUR", "€")), SMALL, Index(pages_of("Total 12.00 €")))["currency"].box is not None
    assert heard(paid=(True, "Tax: 20.00"))["paid"].value is True
    assert heard(currency=("GBP", "Total: 120.00"))["currency"].box is None


def test_what_is_malformed_is_hardly_believed() -> None:
    """It stays as text for the rules to flag."""
    day = heard(day=("2026-02-30", None))["day"]
    assert (day.value, day.confidence) == ("2026-02-30", MALFORMED)
    assert "not a date (YYYY-MM-DD)" in day.reasons


def test_rows_are_as_sure_as_they_are_grounded() -> None:
    """A row counts when its quote and each of its amounts stand on one page."""
    index = Index(pages_of("Hammer 50.00", "Saw 70.00"))
    good = {"description": "Hammer", "amount": "50.00", "quote": "Hammer 50.00"}
    field = evidence(said(line_items=[good, {"description": "Saw", "amount": "71.00"}]), SMALL, index)["line_items"]
    assert field.value == [
        {"description": "Hammer", "amount": "50.00"}, {"description": "Saw", "amount": "71.00"},
    ]  # fmt: skip
    assert "1 of 2 rows grounded" in field.reasons
    assert field.page == 1
    both = evidence(said(line_items=[good]), SMALL, index)["line_items"]
    assert both.confidence > field.confidence
    nowhere = evidence(said(line_items=[{"description": "Drill", "amount": "9.00"}]), SMALL, index)["line_items"]
    assert (nowhere.box, nowhere.reasons) == (None, ("model", "ungrounded"))
