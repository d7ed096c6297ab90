"""Each limit rejects what exceeds it, with its own code and both numbers."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from tabellion.reading.errors import CODES, Unreadable
from tabellion.reading.limits import Limits

SMALL = Limits(bytes=10, pages=2, pixels=100, ratio=4)


def refusal(check: object, *found: int) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        check(*found)  # type: ignore[operator]
    return caught.value


def test_a_value_at_the_limit_passes() -> None:
    """A limit is the most that is allowed."""
    SMALL.check_bytes(10)
    SMALL.check_pages(2)
    SMALL.check_image(10, 10, 25)


@pytest.mark.parametrize(
    ("check", "found", "code", "said"),
    [
        ("check_bytes", (11,), "too_large", "11 bytes; the limit is 10"),
        ("check_pages", (3,), "too_many_pages", "3 pages; the limit is 2"),
        ("check_image", (11, 10), "image_too_large", "11 x 10 = 110 pixels; the limit is 100"),
        ("check_image", (10, 10, 24), "ratio_exceeded", "24 bytes to 100 pixels; the limit is 4"),
    ],
)
def test_an_error_names_the_limit_and_the_value(check: str, found: tuple[int, ...], code: str, said: str) -> None:
    """Each limit has its own code; the sentence has both numbers."""
    error = refusal(getattr(SMALL, check), *found)
    assert error.code == code
    assert code in CODES
    assert said in str(error)


def test_a_small_image_may_have_a_high_ratio() -> None:
    """The ratio is checked only for large images."""
    SMALL.check_image(5, 5, 1)


def test_limits_round_trip_as_json() -> None:
    """A child gets the same limits."""
    limits = Limits(pages=7, page_seconds=1.5)
    assert Limits.from_dict(limits.as_dict()) == limits
    assert Limits.from_dict({}) == Limits()


def test_a_limit_of_zero_is_an_error() -> None:
    """Zero and less are rejected where they are set."""
    with pytest.raises(ValueError, match="pages must be more than 0"):
        replace(SMALL, pages=0)


def test_every_code_and_limit_is_documented() -> None:
    """docs/reference/reading.md names each error code and each limit."""
    text = (Path(__file__).parent.parent.parent / "docs" / "reference" / "reading.md").read_text()
    for name in [*CODES, *(one.name for one in fields(Limits))]:
        assert f"`{name}`" in text, name
