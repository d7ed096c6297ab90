"""Offers of several readings put together."""

from __future__ import annotations

from tabellion.reading.field import Field
from tabellion.reading.offer import MOST, Offer, beside, distinct

BOX = (0.1, 0.2, 0.3, 0.4)


def test_what_other_readings_say_comes_first() -> None:
    """The words beside embedded XML, the model beside the words; each value once, never the chosen one."""
    chosen = {"total": Field("12.00", source="xml")}
    words = {"total": Field("13.00", 0.5, 2, BOX, "13,00", "ocr"), "vendor": Field("Acme", source="text")}
    model = {"total": Field("12.00", source="model"), "vendor": Field("ACME ", source="model")}
    offers = {"total": [Offer("13.00"), Offer("14.00", 1)], "tax": [Offer("1.00")]}
    assert beside(offers, chosen, words, model) == {
        "total": [Offer("13.00", 2, BOX, "13,00", "words"), Offer("14.00", 1)],
        "vendor": [Offer("Acme", source="words")],
        "tax": [Offer("1.00")],
    }


def test_a_reading_that_has_nothing_to_add_offers_nothing() -> None:
    """Fields whose only value is the chosen one are not there."""
    field = {"total": Field("12.00")}
    assert beside({}, field, field) == {}


def test_offers_are_few_and_distinct() -> None:
    """Letters and spaces do not make another value; an empty one is none."""
    some = [Offer("a b"), Offer("A  B"), Offer(None), Offer(""), Offer([{"x": 1}]), Offer([{"x": 1}])]
    assert distinct("c", some) == [Offer("a b"), Offer([{"x": 1}])]
    assert len(distinct(None, [Offer(str(number)) for number in range(20)])) == MOST


def test_an_offer_is_told_and_heard() -> None:
    """Its box rounded, its source as `from`."""
    offer = Offer("12.00", 2, (0.123456, 0.2, 0.3, 0.4), "12,00", "xml")
    told = offer.told()
    assert told == {"value": "12.00", "page": 2, "box": [0.1235, 0.2, 0.3, 0.4], "quote": "12,00", "from": "xml"}
    assert Offer.heard(told).told() == told
    assert Offer.heard(Offer("x").told()) == Offer("x")
