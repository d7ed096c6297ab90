"""Alternative values of several readings combined."""

from __future__ import annotations

from tabellion.reading.alternative import MOST, Alternative, distinct, merge_alternatives
from tabellion.reading.field import Field

BOX = (0.1, 0.2, 0.3, 0.4)


def test_values_of_other_readings_come_first() -> None:
    """The words beside embedded XML, the model beside the words; each value once, never the chosen one."""
    chosen = {"total": Field("12.00", source="xml")}
    words = {"total": Field("13.00", 0.5, 2, BOX, "13,00", "ocr"), "vendor": Field("Acme", source="text")}
    model = {"total": Field("12.00", source="model"), "vendor": Field("ACME ", source="model")}
    offers = {"total": [Alternative("13.00"), Alternative("14.00", 1)], "tax": [Alternative("1.00")]}
    assert merge_alternatives(offers, chosen, words, model) == {
        "total": [Alternative("13.00", 2, BOX, "13,00", "words"), Alternative("14.00", 1)],
        "vendor": [Alternative("Acme", source="words")],
        "tax": [Alternative("1.00")],
    }


def test_a_reading_with_the_same_values_offers_nothing() -> None:
    """Fields whose only value is the chosen one are left out."""
    field = {"total": Field("12.00")}
    assert merge_alternatives({}, field, field) == {}


def test_offers_are_few_and_distinct() -> None:
    """Case and spaces do not make another value; an empty one is left out."""
    some = [
        Alternative("a b"),
        Alternative("A  B"),
        Alternative(None),
        Alternative(""),
        Alternative([{"x": 1}]),
        Alternative([{"x": 1}]),
    ]
    assert distinct("c", some) == [Alternative("a b"), Alternative([{"x": 1}])]
    assert len(distinct(None, [Alternative(str(number)) for number in range(20)])) == MOST


def test_an_offer_round_trips_as_json() -> None:
    """Its box rounded, its source as `from`."""
    offer = Alternative("12.00", 2, (0.123456, 0.2, 0.3, 0.4), "12,00", "xml")
    result = offer.as_dict()
    assert result == {"value": "12.00", "page": 2, "box": [0.1235, 0.2, 0.3, 0.4], "quote": "12,00", "from": "xml"}
    assert Alternative.from_dict(result).as_dict() == result
    assert Alternative.from_dict(Alternative("x").as_dict()) == Alternative("x")
