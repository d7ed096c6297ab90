"""One misread character that explains why a sum does not add up is proposed, with the reason."""

from __future__ import annotations

import pytest

from tabellion.reading.boosting.mend import AmountCorrection, mend_amounts


@pytest.mark.parametrize(
    ("parts", "total", "position", "after"),
    [
        (["95,00", "10,00"], "185,00", 2, "105,00"),
        (["1ε4,50", "26,90"], "161,40", 0, "134,50"),
        (["1 334,50", "266,90"], "1 6O1,4O", 2, "1 601,40"),
        (["5.49", "2.10", "7.00"], "14.69", 3, "14.59"),
        (["$1,000.00", "$50.00", "$97.50"], "$1,447.50", 3, "$1,147.50"),
    ],
)
def test_the_one_character_that_fixes_the_sum(parts: list[str], total: str, position: int, after: str) -> None:
    """In a part or in the total, a letter or a digit that looks alike."""
    mend = mend_amounts(parts, total)
    assert mend is not None
    assert (mend.position, mend.before, mend.after) == (position, [*parts, total][position], after)


def test_the_reason_is_given() -> None:
    """Which character was read as which, and the sum that then adds up."""
    assert mend_amounts(["95,00", "10,00"], "185,00") == AmountCorrection(
        2, "185,00", "105,00", "8 read instead of 0: 95,00 + 10,00 = 105,00"
    )


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        (["100,00", "20,00"], "120,00"),
        (["100,00"], "180,00"),
        (["100,00", "20,00"], "999,99"),
        (["x", "y"], "120,00"),
        (["100,00", "20,00"], "128,00"),  # 120 read for 128, or 108 read for 100
        ([], "1,00"),
    ],
)
def test_no_guess(parts: list[str], total: str) -> None:
    """Nothing to correct, nothing that one character explains, or more than one way: no proposal."""
    assert mend_amounts(parts, total) is None
