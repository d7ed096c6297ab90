"""Why a document was rejected: the code of a reason, and what the reviewer noted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, NotRequired

from tabellion.accounts.audit import HistoryEntry
from tabellion.answers import Answer, Doc
from tabellion.messages import Message, Translatable, translatable

#: Reasons for a rejection. Codes are stable: people script against them.
REJECTIONS = {
    code: Message(f"rejection.{code}")
    for code in (
        "unreadable", "wrong_type", "incomplete", "duplicate", "not_ours", "contradictory", "suspicious", "other",
    )
}  # fmt: skip


class RejectionReason(Answer):
    """A reason for rejecting a document."""

    code: str
    text: str
    translatable: NotRequired[Translatable]


class Rejection(RejectionReason):
    """Why a document was rejected."""

    note: Annotated[str | None, Doc("What the reviewer noted.")]


def describe_reason(code: str) -> RejectionReason:
    """A reason with its sentence."""
    text = REJECTIONS[code]
    return {"code": code, "text": text, **translatable(text=text)}


def store_rejection(code: str, note: str | None) -> str:
    """A rejection as the column `reason` of an item has it."""
    return json.dumps({"code": code, "note": note}, ensure_ascii=False)


def load_rejection(stored: str | None) -> Rejection | None:
    """The rejection in a column or an audit entry; earlier versions stored `code` or `code: note`."""
    if not stored:
        return None
    if stored.startswith("{"):
        parts = json.loads(stored)
        return {**describe_reason(parts["code"]), "note": parts["note"]}
    code, _, note = stored.partition(": ")
    return {**describe_reason(code), "note": note or None} if code in REJECTIONS else None


def summarize(rejection: Rejection) -> str:
    """A rejection in one line, as the API has always had it: `unreadable: page 2 is black`."""
    return f"{rejection['code']}: {rejection['note']}" if rejection["note"] else rejection["code"]


def complete_history(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Entries whose rejections have a code and a note, however they were stored."""
    return [_complete(entry) if entry["action"] == "rejected" else entry for entry in entries]


def _complete(entry: HistoryEntry) -> HistoryEntry:
    code = entry["more"].get("code")
    rejection = load_rejection(store_rejection(code, entry["reason"]) if code else entry["reason"])
    if rejection is None:
        return entry
    more = {**entry["more"], "code": rejection["code"], "note": rejection["note"]}
    return {**entry, "reason": summarize(rejection), "more": more}
