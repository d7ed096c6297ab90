"""Why a document could not be read: one exception with a stable code and a message.

Unreadable (Permanent)     its `code` is one of CODES
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabellion.errors import Permanent
from tabellion.messages import Message, restore_text

#: Every code and what it means. Codes are stable: people script against them.
CODES = {
    code: Message(f"unreadable.{code}")
    for code in (
        "empty_file", "file_missing", "type_unsupported", "too_large", "too_many_pages", "image_too_large",
        "ratio_exceeded", "timed_out", "resource_limit", "reader_crashed", "pdf_encrypted", "pdf_damaged",
        "pdf_empty", "image_damaged", "page_missing",
    )
}  # fmt: skip
LONGEST = 1000  # characters of a message from a child
INVALID = Message("unreadable.invalid_result")


class Unreadable(Permanent):
    """A document could not be read, and trying again will not help."""

    def __init__(self, code: str, message: str = "") -> None:
        self.code = code
        super().__init__(message or CODES[code])


def restore_message(sent: Mapping[str, Any]) -> str:
    """The message of an error that a reading child sent; a compromised child may send anything."""
    text = str(sent.get("message", ""))[:LONGEST]
    return str(restore_text({"message": text, "translatable": sent.get("translatable")}, "message"))
