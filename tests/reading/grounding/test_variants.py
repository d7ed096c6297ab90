"""Printed notations of dates."""

from __future__ import annotations

from datetime import date

import pytest

from tabellion.reading.grounding.variants import days_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3jui2024", {date(2024, 6, 3), date(2024, 7, 3)}), ("3juin2024", {date(2024, 6, 3)}),
        ("3juil.2024", {date(2024, 7, 3)}), ("3mrz2024", {date(2024, 3, 3)}),
        ("3/4/2024", {date(2024, 4, 3), date(2024, 3, 4)}),
    ],
)  # fmt: skip
def test_every_possible_date_of_a_text_is_found(text: str, found: set[date]) -> None:
    """An abbreviation of two months gives both, as does 3/4."""
    assert {day for start, _, day in days_in(text) if start == 0 and day.year == 2024} == found
