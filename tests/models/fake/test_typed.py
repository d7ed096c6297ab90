"""Typed values out of text."""

from __future__ import annotations

import pytest

from tabellion.models.fake import typed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.56 CAD", 1234.56), ("1.234,56 €", 1234.56), ("1 234,56", 1234.56), ("CHF 1'234.50", 1234.5),
        ("-12", -12), ("1,5", 1.5), ("1,500", 1500), ("1.500.000", 1_500_000), ("12 of 30", 12), ("none", None),
        ("9" * 40, None),
    ],
)  # fmt: skip
def test_numbers(text: str, value: float | None) -> None:
    """English, French, German and Swiss notations are read."""
    assert typed.number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-11-30", "2026-11-30"), ("30.11.2026", "2026-11-30"), ("11/30/2026", "2026-11-30"),
        ("due 5 Mar 2026", "2026-03-05"), ("March 5, 2026", "2026-03-05"), ("2026-13-40", None), ("soon", None),
    ],
)  # fmt: skip
def test_dates(text: str, value: str | None) -> None:
    """Whatever the order, the result is ISO."""
    assert typed.day(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("Yes", True), ("oui.", True), ("no", False), ("perhaps", None), ("", None)]
)
def test_booleans(text: str, value: bool | None) -> None:
    """The first word decides."""
    assert typed.parse_boolean(text) is value


def test_a_phrase_is_found_whatever_its_case_and_separators() -> None:
    """credit_note matches `Credit Note`, not `credit notes`."""
    assert typed.position("credit_note", "a Credit Note") == 2
    assert typed.position("credit_note", "credit notes") == -1
    assert typed.position("", "anything") == -1
