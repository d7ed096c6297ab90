"""Why something cannot be done to a review item, each with the facts that say what to do instead.

ReviewError
├── Assigned      the item is somebody else's
├── Closed        the item is finished
├── Escalated     the item waits for an operator
├── NotApprovable what is required is not there, or a rule does not hold
├── Held          somebody else has claimed the item
├── NoSuchItem    there is no such item
├── NotAllowed    this takes an operator
├── Open          the item is not finished
├── NotHeld       who changes an item must have claimed it
├── ReviewPaused  nobody can claim anything now
├── InvalidValues a value does not fit its field
├── Stale         the item was changed meanwhile
├── TooMany       who holds as many items as one can must finish some
├── Untyped       the document is none of the types there are
├── Unseen        nobody has looked at fields that are not sure
├── TypeBroken    nobody can say what a document of this type must have
└── Underway      the document is being read again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tabellion.errors import TabellionError
from tabellion.messages import Message, join_sentences, quote_value, restore_text
from tabellion.reading.issue import ToldIssue
from tabellion.reading.types.yamlnode import TypeFileError

if TYPE_CHECKING:
    from tabellion.pipelines.documents.review.fields import Unsure


class Changed(TypedDict):
    """What somebody has made of a field meanwhile."""

    value: Any
    by: str | None
    at: str | None


class ReviewError(TabellionError):
    """Something stands in the way of what was asked of a review item."""


class NoSuchItem(ReviewError):  # noqa: N818 - what it is
    """There is no such review item."""


class Held(ReviewError):  # noqa: N818 - a state
    """Somebody else has claimed the item."""

    def __init__(self, holder: str, until: float | None, *, takeover: bool = False) -> None:
        self.holder, self.until = holder, until  #: until when, in seconds since 1970, unless they go on
        self.takeover = takeover  #: whether who asked may take it from them
        super().__init__(Message("item.held", who=holder))


class NotHeld(ReviewError):  # noqa: N818 - a state
    """Who changes an item must have claimed it, and this claim is not there, or over."""

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
        self.takeover = takeover  #: whether who asked may have it all the same, if they say so
        super().__init__(Message("item.assigned", who=to))


class Escalated(ReviewError):  # noqa: N818 - a state
    """The item was escalated: it waits for an operator."""


class NotAllowed(ReviewError):  # noqa: N818 - what it is
    """Only an operator may do this."""


class ReviewPaused(ReviewError):  # noqa: N818 - a state
    """Somebody has paused the review queue: nothing can be claimed until it is resumed."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason or None
        super().__init__(Message("item.queue_paused", text=reason) if reason else Message("problem.queue_paused"))


class TooMany(ReviewError):  # noqa: N818 - a state
    """The person holds as many items as one can."""

    def __init__(self, held: Sequence[str]) -> None:
        self.held = list(held)  #: their ids
        super().__init__(Message("item.too_many_held", n=len(held)))


class Underway(ReviewError):  # noqa: N818 - a state
    """The document is being read again: its item can be worked on when that has ended."""


class TypeBroken(ReviewError):  # noqa: N818 - a state
    """The file of the document's type has a mistake: until it is mended nobody knows what to ask of the fields."""

    def __init__(self, name: str, error: TypeFileError) -> None:
        self.type = name
        self.file, first = Path(error.file).name, error.mistakes[0]
        self.line = first.line
        super().__init__(
            Message("item.type_broken", value=quote_value(name), file=self.file, n=self.line, text=first.what)
        )


class Stale(ReviewError):  # noqa: N818 - a state
    """The item was changed since the version that the change was made on."""

    def __init__(self, version: int, fields: Mapping[str, Changed]) -> None:
        self.version = version
        self.fields = fields  #: those that have changed since
        super().__init__(Message("item.version", n=version))


class NotApprovable(ReviewError):  # noqa: N818 - a state
    """The item cannot be approved as it is."""

    def __init__(self, missing: Sequence[str] = (), failing: Sequence[ToldIssue] = (), *, empty: bool = False) -> None:
        self.missing, self.failing = list(missing), list(failing)
        whole = [name for name in missing if "[" not in name]
        cells = [name for name in missing if "[" in name]
        parts = [Message("item.fields_missing", fields=whole)] if whole else []
        # A cell cannot be marked: its row is there, and must be whole.
        parts += [Message("item.cell_missing", fields=cells)] if cells else []
        parts += [Message("item.nothing_read")] if empty else []
        super().__init__(join_sentences([*parts, *(str(restore_text(issue, "message")) for issue in failing)]))


class Untyped(ReviewError):  # noqa: N818 - a state
    """The document is of none of the types there are: it has no fields, and nothing of it can be approved."""


class Unseen(ReviewError):  # noqa: N818 - a state
    """Fields are less sure than their type demands, and nobody has looked at them."""

    def __init__(self, fields: Sequence[Unsure]) -> None:
        self.fields = list(fields)
        super().__init__(Message("item.fields_unseen", fields=[one["name"] for one in fields]))


class InvalidValues(ReviewError):  # noqa: N818 - what happened
    """Values that do not fit their fields; nothing was changed."""

    def __init__(self, problems: Mapping[str, str], *, beside: bool = False, fix: str = "") -> None:
        self.problems = dict(problems)  #: a sentence for each field
        self.beside = beside  #: they are no fields of the document, but stand beside them
        self.fix = fix or Message("item.fix_value")  #: what to do about the first of them
        super().__init__(join_sentences(problems.values()))
