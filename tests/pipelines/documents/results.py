"""Processed documents as tests write them."""

from __future__ import annotations

from typing import Any

from tabellion.reading.types import typefile
from tabellion.reading.types.doctype import DocumentType

LEASE = """\
name: lease
version: "1"
fields:
  tenant: {type: name, required: true}
  begins: date
  rent: money
  rate: percent
  furnished: bool
  currency: currency
  rooms: {type: list, items: {name: text, area: number, since: date}}
"""
LEAP = 1709164799.25  #: 2024-02-28T23:59:59.25Z: the day depends on the zone


def lease(text: str = LEASE) -> DocumentType:
    """A type with a field of each kind."""
    return typefile.compile_type(text)


def field(value: Any, confidence: float = 0.9, **more: Any) -> dict[str, Any]:
    """A field as in a reading."""
    return {"value": value, "confidence": confidence, "page": 1, "box": [0.1, 0.2, 0.3, 0.4], "quote": str(value),
            "source": "text", "reasons": ["beside its label"], **more}  # fmt: skip


def document(id: str = "01", fields: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:  # noqa: A002
    """A row of `documents` with its reading."""
    values: dict[str, Any] = {
        "tenant": "Zoë Müller", "begins": "2024-03-01", "rent": "1250.50", "rate": "9.975", "furnished": False,
        "currency": "CAD", "rooms": [{"name": "kitchen", "area": "12.5", "since": "2001-01-31"}, {"name": "attic"}],
    }  # fmt: skip
    shown = {name: field(value) for name, value in (values if fields is None else fields).items()}
    result = {
        "verdict": "warn", "fields": shown, "notes": ["a note"],
        "issues": [{"code": "missing", "severity": "warning", "message": "x", "fields": ["rent"], "rule": ""}],
        "pages": [{"number": 1, "source": "ocr", "quality": 0.9, "size": [612.0, 792.0], "rotation": 0}],
    }  # fmt: skip
    return {"id": id, "name": "lease.pdf", "sha256": "ab" * 32, "model": "local", "created_at": LEAP, "version": 1,
            "result": result, **more}  # fmt: skip
