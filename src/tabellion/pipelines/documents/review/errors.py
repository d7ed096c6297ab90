"""Errors of review, each with the facts that show what to do instead.

ReviewError
├── Assigned             the item is assigned to somebody else
├── Closed               the item is finished
├── Escalated            the item waits for an operator
├── FieldsUnreviewed     uncertain fields have not been reviewed
├── InvalidValues        a value does not fit its field
├── ItemChanged          the item was changed meanwhile
├── ItemHeld             somebody else has claimed the item
├── NoDocumentType       the document has no type
├── NoSuchItem           there is no such item
├── NotAllowed           only an operator may do this
├── NotApprovable        a required field is missing, or a rule fails
├── NotHeld              changing an item requires a claim
├── Open                 the item is not finished
├── ReprocessingUnderway the document is being read again
├── ReviewPaused         the review queue is paused
├── TooMany              the person holds the maximum of items
└── TypeBroken           the file of the document's type has a mistake
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tabellion.errors import TabellionError
from tabellion.messages import Message, join_sentences, quote_value, restore_text
from tabellion.reading.issue import IssueJson
from tabellion.reading.types.yamlnode import TypeFileError

if TYPE_CHECKING:
    from tabellion.pipelines.documents.review.fields import UncertainField


class Changed(TypedDict):
    """The current value of a field that somebody else has changed."""

    value: Any
    by: str | None
    at: str | None


class ReviewError(TabellionError):
    """The base of all errors of review."""


class NoSuchItem(ReviewError):  # noqa: N818 - what it is
    """There is no such review item."""


class ItemHeld(ReviewError):  # noqa: N818 - a state
    """Somebody else has claimed the item."""

    def __init__(self, holder: str | None, until: float | None, *, takeover: bool = False) -> None:
        self.holder = holder  #: None: its row was locked, or changed hands too often to tell
        self.until = until  #: when the claim expires unless renewed, in seconds since 1970
        self.takeover = takeover  #: whether the caller may take it over
        super().__init__(Message("item.held", who=holder) if holder else Message("problem.item_held"))


class NotHeld(ReviewError):  # noqa: N818 - a state
    """Changing an item requires a claim, and the caller has none, or it has expired."""

    def __init__(self, holder: str | None = None, until: float | None = None) -> None:
        self.holder, self.until = holder, until
        super().__init__(Message("item.lost", who=holder) if holder else Message("item.not_held"))


class Closed(ReviewError):  # noqa: N818 - a state
    """The item is finished."""

    def __init__(self, status: str, reviewer: str | None) -> None:
        self.status, self.reviewer = status, reviewer
        by = {"who": reviewer} if reviewer else {}
        super().__init__(Message("item.finished_by" if reviewer else "item.finished", status=status, **by))


class Open(ReviewError):  # noqa: N818 - a state
    """The item is not finished."""


class Assigned(ReviewError):  # noqa: N818 - a state
    """The item is assigned to somebody else."""

    def __init__(self, to: str, *, takeover: bool = False) -> None:
        self.to = to
        self.takeover = takeover  #: whether the caller may take it over
        super().__init__(Message("item.assigned", who=to))


class Escalated(ReviewError):  # noqa: N818 - a state
    """The item was escalated: it waits for an operator."""


class NotAllowed(ReviewError):  # noqa: N818 - what it is
    """Only an operator may do this."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or Message("item.operators_only"))


class ReviewPaused(ReviewError):  # noqa: N818 - a state
    """The review queue is paused: nothing can be claimed until it is resumed."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason or None
        super().__init__(Message("item.queue_paused", text=reason) if reason else Message("problem.queue_paused"))


class TooMany(ReviewError):  # noqa: N818 - a state
    """The person holds the maximum of items."""

    def __init__(self, held: Sequence[str]) -> None:
        self.held = list(held)  #: their ids
        super().__init__(Message("item.too_many_held", n=len(held)))


class ReprocessingUnderway(ReviewError):  # noqa: N818 - a state
    """The document is being read again: its item can be changed when that has ended."""


class TypeBroken(ReviewError):  # noqa: N818 - a state
    """The file of the document's type has a mistake: until it is corrected, fields cannot be checked."""

    def __init__(self, name: str, error: TypeFileError) -> None:
        self.type = name
        self.file, first = Path(error.file).name, error.mistakes[0]
        self.line = first.line
        super().__init__(
            Message("item.type_broken", value=quote_value(name), file=self.file, n=self.line, text=first.what)
        )


class ItemChanged(ReviewError):  # noqa: N818 - a state
    """The item was changed since the version that the change is based on."""

    def __init__(self, version: int, fields: Mapping[str, Changed]) -> None:
        self.version = version
        self.fields = fields  #: those that have changed since
        super().__init__(Message("item.version", n=version))


class NotApprovable(ReviewError):  # noqa: N818 - a state
    """The item cannot be approved as it is."""

    def __init__(self, missing: Sequence[str] = (), failing: Sequence[IssueJson] = (), *, empty: bool = False) -> None:
        self.missing, self.failing = list(missing), list(failing)
        field_names = [name for name in missing if "[" not in name]
        cells = [name for name in missing if "[" in name]
        parts = [Message("item.fields_missing", fields=field_names)] if field_names else []
        # A cell cannot be marked as absent: its row exists, and must be complete.
        parts += [Message("item.cell_missing", fields=cells)] if cells else []
        parts += [Message("item.nothing_read")] if empty else []
        super().__init__(join_sentences([*parts, *(str(restore_text(issue, "message")) for issue in failing)]))


class NoDocumentType(ReviewError):  # noqa: N818 - a state
    """The document has no type, and so no fields that could be approved."""


class FieldsUnreviewed(ReviewError):  # noqa: N818 - a state
    """Fields are below the confidence that their type requires, and nobody has reviewed them."""

    def __init__(self, fields: Sequence[UncertainField]) -> None:
        self.fields = list(fields)
        super().__init__(Message("item.fields_unseen", fields=[field["name"] for field in fields]))


class InvalidValues(ReviewError):  # noqa: N818 - what happened
    """Values that do not fit their fields; nothing was changed."""

    def __init__(self, problems: Mapping[str, str], *, beside: bool = False, fix: str = "") -> None:
        self.problems = dict(problems)  #: a message for each field
        self.beside = beside  #: whether they are request parameters, not fields of the document
        self.fix = fix or Message("item.fix_value")  #: what to do about the first of them
        super().__init__(join_sentences(problems.values()))
