"""The properties of a document that are known before its pages are read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tabellion.messages import restore_text, translatable
from tabellion.reading.sniff import Kind


@dataclass(frozen=True, slots=True)
class Header:
    """The properties of a document that are known before its pages are read."""

    kind: Kind
    count: int  #: of pages
    size: int  #: in bytes
    notes: tuple[str, ...] = ()
    claims: dict[str, dict[str, str]] | None = None  #: {"facturx": {"profile", "filename", "type"}}
    attachments: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)  #: embedded XML
    damage: str | None = None  #: why parts may be missing although it was read

    def as_dict(self) -> dict[str, Any]:
        """The header as JSON for the parent."""
        embedded = [[name, base64.b64encode(content).decode()] for name, content in self.attachments]
        return {
            "kind": self.kind.value, "count": self.count, "bytes": self.size, "notes": list(self.notes),
            "claims": self.claims, "attachments": embedded, "damage": self.damage,
            **translatable(notes=self.notes, damage=self.damage),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Header:
        """Restores the result of `as_dict`."""
        claims = data["claims"]
        return cls(
            Kind(data["kind"]), int(data["count"]), int(data["bytes"]), tuple(map(str, restore_text(data, "notes"))),
            {str(key): {str(k): str(v) for k, v in value.items()} for key, value in claims.items()} if claims else None,
            tuple((str(name), base64.b64decode(content)) for name, content in data["attachments"]),
            None if data.get("damage") is None else str(restore_text(data, "damage")),
        )  # fmt: skip
