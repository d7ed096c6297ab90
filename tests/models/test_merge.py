"""Two readings, one answer: agreement raises the confidence, a contradiction lowers it, arithmetic decides."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.models.merge import confidence_against, confidence_of_both, merge_fields
from tabellion.reading.field import Field
from tests.models.bills import SMALL

BOX = (0.1, 0.1, 0.2, 0.2)


def words(value: Any, confidence: float = 0.7, source: str = "text", **more: Any) -> Field:
    return Field(value, confidence, 1, BOX, str(value), source, ("grounded",), **more)


def model(value: Any, confidence: float = 0.9) -> Field:
    return Field(value, confidence, 1, (0.5, 0.5, 0.6, 0.6), str(value), "model", ("model", "grounded: exact"))


def one(name: str, mine: Field | None, theirs: Field | None) -> Field | None:
    return merge_fields({name: mine} if mine else {}, {name: theirs} if theirs else {}, SMALL).get(name)


def test_agreement_raises_the_confidence_and_keeps_the_words_box() -> None:
    """Higher than either, never 1."""
    field = one("total", words("120.00"), model("120"))
    assert field is not None
    assert (field.value, field.box, field.source) == ("120.00", BOX, "text")
    assert field.confidence == pytest.approx(0.97)
    assert field.reasons[-1] == "model and page text agree"
    assert confidence_of_both(0.98, 0.98) < 1


def test_of_a_contradiction_the_likelier_side_wins_with_less_confidence() -> None:
    """The other value is reported."""
    field = one("total", words("12.00", 0.6), model("120.00", 0.9))
    assert field is not None
    assert (field.value, field.source) == ("120.00", "model")
    assert field.reasons[-1] == "page text says 12.00"
    assert field.confidence == pytest.approx(confidence_against(0.9, 0.6)) != 0.9
    assert field.confidence < 0.9
    other = one("total", words("12.00", 0.95), model("120.00", 0.9))
    assert other is not None
    assert (other.value, other.reasons[-1]) == ("12.00", "model says 120.00")


def test_a_value_of_one_side_is_taken_as_it_is() -> None:
    """With its own confidence."""
    assert one("number", None, model("A-77")) == model("A-77")
    assert one("number", words("A-77"), None) == words("A-77")
    assert one("number", None, None) is None


def test_xml_always_wins() -> None:
    """Its values stay, missing ones are not filled in, and a contradiction is reported."""
    xml = words("120.00", 1.0, "xml")
    found = merge_fields({"total": xml}, {"total": model("1.00"), "tax": model("0.50"), "number": model("A-77")}, SMALL)
    assert (found["total"].value, found["total"].confidence) == ("120.00", 1.0)
    assert found["total"].reasons[-1] == "model says 1.00"
    assert "tax" not in found
    assert found["number"].value == "A-77"
    assert one("total", xml, model("120.00")) == xml


def test_nearly_equal_names_do_not_contradict() -> None:
    """The likelier spelling at the words' own place."""
    field = one("vendor", words("Acme Too1s Ltd", 0.6, "ocr"), model("Acme Tools Ltd"))
    assert field is not None
    assert (field.value, field.box, field.confidence) == ("Acme Tools Ltd", BOX, 0.9)
    assert field.reasons[-1] == "model and page text nearly agree"


def test_sums_are_chosen_so_that_they_add_up() -> None:
    """A likelier value loses to one that makes the sum; all three become more certain."""
    mine = {"subtotal": words("120.00", 0.8), "tax": words("20.00", 0.8), "total": words("120.00", 0.8)}
    theirs = {"subtotal": model("100.00", 0.7), "tax": model("20.00", 0.7), "total": model("140.00", 0.6)}
    found = merge_fields(mine, theirs, SMALL)
    chosen = [found[name].value for name in ("subtotal", "tax", "total")]
    assert chosen == ["100.00", "20.00", "120.00"]
    assert all("amounts add up" in found[name].reasons for name in ("subtotal", "tax", "total"))
    assert "page text says 120.00" in found["subtotal"].reasons
    assert found["subtotal"].confidence > confidence_against(0.7, 0.8)


def test_sums_that_cannot_add_up_are_left_alone() -> None:
    """Numbers that do not add up, or are not numbers, prove nothing."""
    mine = {"subtotal": words("1.00"), "tax": words("1.00"), "total": words("9.00")}
    assert merge_fields(mine, {"total": model("8.00", 0.6)}, SMALL)["total"].value == "9.00"
    assert merge_fields(mine, {"total": model("eight", 0.2)}, SMALL)["total"].value == "9.00"


def rows(*amounts: str) -> list[dict[str, Any]]:
    return [{"description": "a", "amount": amount} for amount in amounts]


@pytest.mark.parametrize(
    ("mine", "theirs", "taken"),
    [
        (rows("60.00", "40.00"), rows("50.00", "50.00"), rows("50.00", "50.00")),
        (rows("60.00", "40.00"), rows("50.00"), rows("60.00", "40.00")),
        (rows("60.00"), rows("50.00"), rows("50.00")),
        (rows("60.00"), rows("120.00"), rows("120.00")),
        (rows("60.00"), rows("sixty"), rows("60.00")),
        (rows("60.00"), None, rows("60.00")),
    ],
)
def test_rows_of_the_side_that_adds_up(mine: Any, theirs: Any, taken: Any) -> None:
    """The model's where they add up, else the other side's if they do, else the model's."""
    fields = {"line_items": model(theirs, 0.6)} if theirs else {}
    sums = {"subtotal": words("100.00"), "total": words("120.00")}
    assert merge_fields({**sums, "line_items": words(mine, 0.9)}, fields, SMALL)["line_items"].value == taken


def test_rows_that_add_up_are_more_certain() -> None:
    """And say so."""
    table = {"line_items": model(rows("60.00", "40.00"), 0.7)}
    field = merge_fields({"subtotal": words("100.00")}, table, SMALL)["line_items"]
    assert field.reasons[-1] == "items add up"
    assert field.confidence > 0.7
    assert merge_fields({"subtotal": words("99.00")}, table, SMALL)["line_items"].confidence == 0.7
