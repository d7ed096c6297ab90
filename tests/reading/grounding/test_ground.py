"""A value is located in the words, in whatever notation it is printed, or it is ungrounded."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.reading.grounding.ground import find_ungrounded, ground, ground_all
from tabellion.reading.grounding.index import Index
from tabellion.reading.page import Page, Word, around
from tests.reading.paper import page

INVOICE = page(
    "Société Générale d’Électricité  FACTURE n° FA-2026/001",
    "12 rue de la Paix  Date : 14 mars 2026",
    "75002 Paris  Échéance 13/04/2026",
    "TVA FR 40 392 809 137",
    "Désignation  Qté  Prix  Montant",
    "Réparation d'une instal-  2  617,25  1 234,50 €",
    "lation électrique",
    "Forfait  1  100,00  100,00 €",
    "Sous-total  1 334,50 €",
    "TVA 20 %  266,90 €",
    "Total  1 601,40 €",
)


def found(value: object, **how: Any) -> tuple[str, str] | None:
    place = ground(value, [INVOICE], **how)
    return (place.quote, place.how) if place else None


@pytest.mark.parametrize(
    ("value", "quote", "how"),
    [
        ("Société Générale d’Électricité", "Société Générale d’Électricité", "exact"),
        ("FA-2026/001", "FA-2026/001", "exact"),
        ("FR40392809137", "FR 40 392 809 137", "whitespace"),
        ("societe generale d'electricite", "Société Générale d’Électricité", "case"),
        ("FA 2026 001", "FA-2026/001", "punctuation"),
        ("12 rue de la Paix, 75002 Paris", "12 rue de la Paix 75002 Paris", "lines"),
        ("1601.40", "1 601,40", "number"),
        ("1,601.40", "1 601,40", "number"),
        ("1.601,40 EUR", "1 601,40", "number"),
        (Decimal("1334.5"), "1 334,50", "number"),
        (617.25, "617,25", "number"),
        (20, "20", "exact"),
        ("2026-03-14", "14 mars 2026", "date"),
        ("2026-04-13", "13/04/2026", "date"),
        ("Societe Generale d'Electrcite", "Société Générale d’Électricité", "fuzzy"),
    ],
)
def test_a_value_is_found_in_its_notation(value: object, quote: str, how: str) -> None:
    """Exact first, then ignoring white space, case and typography, then as a number or a date, then with errors."""
    place = ground(value, Index([INVOICE]))
    assert place is not None
    assert (place.quote, place.how) == (quote, how)
    assert place.box == around(word.box for word in place.words)
    assert place.page == 1


def test_the_place_with_the_fewest_errors_is_taken() -> None:
    """Of two similar places the closer one; too many errors make it another text."""
    pages = [page("Compagnie Electrique de Marseille", "Compagnie Electrique de Versailles")]
    near = ground("Compagnie Electriqve de Versaille", pages)
    assert near is not None
    assert (near.quote, near.how) == ("Compagnie Electrique de Versailles", "fuzzy")
    assert ground("Compagnie Electrique de Normandie", pages) is None


@pytest.mark.parametrize(
    "value", ["1601.41", "9999", "2026-03-15", "Durand et fils", "F", "234.50", "", "  ", "601,40", True]
)
def test_a_missing_value_is_ungrounded(value: object) -> None:
    """No box for another number, for a part of a longer one, for an empty value."""
    assert found(value) is None


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("1,234.50", "1234.5"), ("1.234,50", "1234.50"), ("$1,234.50", "1234.50"), ("1'234.50", "1234.50"),
        ("1’234.50", "1234.50"), ("€1234,5", "1234.50"), ("1 234 567,00", "1234567"), ("12,-", "12"), ("1.234", "1234"),
        ("1.234", "1.234"), ("-5,00", "-5.00"), ("5,00-", "-5.00"), ("(5.00)", "-5.00"), ("400,0000", "400"),
        ("19%", "19.00"), ("1 234,50", "1234.50"), ("0,30", "0.3"),
    ],
)  # fmt: skip
def test_numbers_are_found_in_every_notation(printed: str, value: str) -> None:
    """French, English, German, Swiss; with and without decimals, signs and currencies."""
    place = ground(value, [page(f"Montant : {printed} fin")], kind="money")
    assert place is not None
    assert place.quote == printed


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("1,234.50", "123450"),
        ("12,34,56", "123456"),
        ("5,00", "-5.00"),
        ("100.00", "10000"),
        ("2100,00", "100"),
        ("1.23", "123"),
    ],
)
def test_another_number_with_the_same_digits_does_not_match(printed: str, value: str) -> None:
    """Separators and sign decide."""
    assert ground(value, [page(printed)], kind="money") is None


def test_a_word_hyphenated_at_a_line_end_is_one_word() -> None:
    """The hyphen of a line end is ignored, one that belongs to the word is not."""
    sheet = [page("une instal-", "lation du sous-", "Préfet")]
    place, kept = ground("installation", sheet), ground("sous-Préfet", sheet)
    assert place is not None
    assert kept is not None
    assert (place.quote, place.how) == ("instal- lation", "whitespace")
    assert kept.quote == "sous- Préfet"


def test_columns_are_not_digit_groups() -> None:
    """A quantity beside a price is not a thousand; a thin space is."""
    assert ground("1100", [page("1   100,00")]) is None
    assert ground("100.00", [page("1   100,00")]) is not None
    assert ground("1100.00", [page("1 100,00")]) is not None
    assert ground("100.00", [page("1 100,00")]) is None


@pytest.mark.parametrize(
    "printed",
    ["2026-03-01", "01/03/2026", "03/01/26", "1.3.2026", "1. März 2026", "1er mars 2026", "March 1, 2026",
     "1st March 2026", "1 mars 2026", "01-MAR-2026", "01.03.26", "Mar 1 2026", "20260301"],
)  # fmt: skip
def test_dates_are_found_in_every_notation(printed: str) -> None:
    """Numbers in any order, names of months in three languages, short and long."""
    place = ground("2026-03-01", [page(f"vom {printed} bis")])
    assert place is not None
    assert place.quote == printed


def test_digits_are_never_guessed() -> None:
    """A letter that OCR confuses with a digit matches it, and is reported; another digit never matches."""
    place = ground("1005.80", [page("Total lOO5,8O")])
    assert place is not None
    assert (place.quote, place.how) == ("lOO5,8O", "confusion")
    assert ground("1005.80", [page("Total 1006,80")]) is None
    assert ground("FA-2026-017", [page("FA-2O26-0l7")]) is not None
    assert ground("FA-2026-017", [page("FA-2026-018")]) is None
    assert ground("Rechnung 4711 Müller", [page("Rechnung 4712 Müller")]) is None


def test_of_several_places_the_nearest_or_the_first() -> None:
    """Without a hint the first, with a label or a box the nearest; the count says that there were others."""
    pages = [page("Acompte  50,00", "rien", "Total dû  50,00"), page("Total  50,00", number=2)]
    first, near, below = ground("50.00", pages), ground("50.00", pages, near="Total dû"), ground("50.00", pages, page=2)
    assert first is not None
    assert near is not None
    assert below is not None
    assert (first.box[1], first.count) == (0.05, 3)
    assert near.box[1] > 0.08
    assert (below.page, below.count) == (2, 1)
    boxed = ground("50.00", pages, near=(0.0, 0.09, 0.1, 0.1), page=1)
    assert boxed is not None
    assert boxed.box == near.box


def test_rows_are_kept_together() -> None:
    """The values of one line item come from one row, even if others are identical."""
    sheet = page("Vis  2  5,00  10,00", "Clous  2  5,00  10,00")
    result = ground_all({"line_items": [{"description": "Clous", "quantity": "2", "amount": "10.00"}]}, [sheet])
    assert {cell["box"][1] for cell in result["line_items"][0].values()} == {sheet.words[-1].box[1]}


def test_a_whole_answer_is_grounded() -> None:
    """The shape stays; a model's quote is searched before its value; a missing one is marked."""
    data = {
        "total": {"value": "1601.40", "quote": "1 601,40 €", "confidence": 0.8},
        "vendor": "Générale",
        "due": None,
        "paid": False,
        "notes": ["Forfait", "Rabais"],
        "party": {"name": "Durand"},
        "lines": {"value": [{"description": "Forfait"}]},
    }
    result = ground_all(data, [INVOICE])
    assert result["total"]["quote"] == "1 601,40 €"
    assert (result["total"]["match"], result["total"]["confidence"]) == ("exact", 0.8)
    assert result["vendor"]["match"] == "exact"
    assert result["due"] is None
    assert result["paid"] is False
    assert result["party"]["name"] == {
        "value": "Durand",
        "page": None,
        "box": None,
        "quote": None,
        "match": "ungrounded",
    }
    assert result["lines"]["value"][0]["description"]["page"] == 1
    assert list(find_ungrounded(result)) == ["notes[1]", "party.name"]


def test_nothing_is_found_across_pages() -> None:
    """A value is on one page."""
    pages = [page("Grand"), page("Total", number=2)]
    assert ground("Grand Total", pages) is None
    assert ground("GRANDTOTAL", pages) is None


def test_without_pages_there_are_no_places() -> None:
    """Empty pages and no pages are not an error."""
    assert ground("x", []) is None
    assert ground("12.00", [page()]) is None


WORD = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Sc"]), min_size=1, max_size=12)


@given(st.lists(st.lists(WORD, min_size=1, max_size=6), min_size=1, max_size=6), st.data())
def test_words_of_a_line_are_found(rows: list[list[str]], data: st.DataObject) -> None:
    """Any run of words of a line is found, with exactly their box."""
    words = [
        Word(text, (0.1 * column, 0.1 * row, 0.1 * column + 0.05, 0.1 * row + 0.02), line=row)
        for row, line in enumerate(rows)
        for column, text in enumerate(line)
    ]
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start, min(len(words) - 1, start + 4)))
    wanted = [word.text for word in words[start : end + 1]]
    place = ground(" ".join(wanted), [Page(1, 1, 1, "text", words=tuple(words))], kind="text")
    assert place is not None
    assert place.how == "exact"
    assert [word.text for word in place.words] == wanted
    assert place.box == around(word.box for word in place.words)


@given(
    st.decimals(0, 10**9, places=2),
    st.sampled_from([(" ", ","), (",", "."), (".", ","), ("'", "."), ("", ","), ("", ".")]),
)
def test_any_amount_is_found_in_any_notation(amount: Decimal, marks: tuple[str, str]) -> None:
    """However it is printed, and never as another amount."""
    printed = f"{amount:,.2f}".replace(",", "_").replace(".", marks[1]).replace("_", marks[0])
    sheet = [page(f"Total  {printed}  EUR")]
    place = ground(f"{amount:.2f}", sheet, kind="money")
    assert place is not None
    assert place.quote == printed
    assert ground(f"{amount + 1:.2f}", sheet, kind="money") is None


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=8))
def test_it_never_raises(value: str, texts: list[str]) -> None:
    """Any value, any words: an answer, never an exception."""
    words = tuple(Word(text, (0.0, 0.1 * row, 0.5, 0.1 * row + 0.05), line=row) for row, text in enumerate(texts))
    ground_all({"a": value}, [Page(1, 1, 1, "ocr", words=words)])
