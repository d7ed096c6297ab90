"""Entries of a list or register, told from prose by how their lines begin."""

from __future__ import annotations

import pytest

from tabellion.reading.boosting.entries import start_entries


@pytest.mark.parametrize(
    ("lines", "starts"),
    [
        (["2013-10-08 Servitude", "de passage"], [True, False]),
        (["08/10/2013 Servitude", "12.06.09 Hypothèque"], [True, True]),
        (["20 133 221 Servitude", "16 254 118 Hypothèque"], [True, True]),
        (["payable within", "30 days", "or at once"], [False, False, False]),
        (["No 12 Servitude", "No 13 Hypothèque", "légale"], [True, True, False]),
        (["Lot 12, Laval", "Lot 13, Laval", "Rang 4"], [True, True, False]),
        (["the deed", "the plan"], [False, False]),
        ([], []),
    ],
)
def test_entries_begin_alike(lines: list[str], starts: list[bool]) -> None:
    """A date always starts one; a number, or a word and a number, if another line begins in the same way."""
    assert start_entries(lines) == starts
