"""The `Retry-After` header in its two forms."""

from __future__ import annotations

import pytest

from tabellion.net.retry_after import parse_retry_after


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("9" * 40, 999_999_999.0),
        ("soon", None),
        ("", None),
        ("-1", None),
        ("٣", None),
    ],
)
def test_a_number_or_a_date_is_seconds(text: str, seconds: float | None) -> None:
    """Of a date that has passed none; anything else is nothing."""
    assert parse_retry_after(text, 10.0) == seconds
