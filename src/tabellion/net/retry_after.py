"""The `Retry-After` header: when a server that refused a request wants to be asked again."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def parse_retry_after(text: str, now: float) -> float | None:
    """The seconds of a `Retry-After` header, a number or a date; None if it is neither."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now, 0.0)
