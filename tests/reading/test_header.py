"""Headers cross from the child as JSON."""

from __future__ import annotations

from tabellion.reading.header import Header
from tabellion.reading.sniff import Kind


def test_headers_round_trip_as_json() -> None:
    """A header is read back unchanged."""
    header = Header(Kind.PDF, 2, 10, ("note",), {"facturx": {"profile": "BASIC"}}, (("a.xml", b"\xff"),))
    assert Header.from_dict(header.as_dict()) == header
