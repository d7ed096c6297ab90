"""Request bodies of review: strictly typed, unknown keys rejected."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tabellion.messages import Message
from tabellion.web.validation import Strict

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=100)]
Side = Annotated[float, Field(ge=0, le=1)]
LONGEST = 30 * 86_400  #: seconds that an item can be postponed


class ClaimNext(Strict):
    """Which item to claim."""

    type: Name | None = Field(default=None, description="Only documents of this type.")
    after: Annotated[str, Field(pattern="^[0-9a-z_]{1,64}$")] | None = Field(
        default=None, description="Continue after this item."
    )


class ClaimOptions(Strict):
    """How to claim an item."""

    takeover: bool = Field(default=False, description="Take the item over from its holder; for operators.")


class Postponement(Strict):
    """For how long to postpone an item."""

    seconds: int = Field(ge=1, le=LONGEST)
    reason: Words | None = None


class ReasonBody(Strict):
    """A reason."""

    reason: Words


class Assignment(Strict):
    """Whom to assign an item to."""

    to: Name | None = Field(description="A user's name; null: unassigned.")
    reason: Words | None = None


class FieldChange(Strict):
    """A change of one field."""

    action: Literal["correct", "confirm", "absent", "unlock"]
    value: Any = Field(default=None, description="For `correct`: the value, as a person would write it.")
    page: int | None = Field(default=None, ge=1, le=100_000)
    box: Annotated[list[Side], Field(min_length=4, max_length=4)] | None = None
    quote: Annotated[str, Field(max_length=2000)] | None = None

    @model_validator(mode="after")
    def _one_meaning(self) -> FieldChange:
        """Rejects values that would be ignored: the caller meant something by them."""
        if self.action != "correct" and any(part is not None for part in (self.value, self.page, self.box, self.quote)):
            raise ValueError(Message("expected.correction_alone"))
        if self.page is None and (self.box is not None or self.quote is not None):
            raise ValueError(Message("expected.page"))
        if self.box is not None and (self.box[0] > self.box[2] or self.box[1] > self.box[3]):
            raise ValueError(Message("expected.box"))
        return self


class FieldChanges(Strict):
    """Changes of fields by their names."""

    fields: Annotated[dict[str, FieldChange], Field(min_length=1, max_length=300)]


class FieldCheck(Strict):
    """Values to check, by field."""

    fields: Annotated[dict[str, Any], Field(max_length=300)]


class Draft(Strict):
    """Unsaved input; any small object."""

    model_config = ConfigDict(extra="allow")
    fields: Annotated[dict[str, Any], Field(max_length=300)] = Field(default_factory=dict)


class ApprovalEffort(Strict):
    """The effort, and whether to continue."""

    seconds: float | None = Field(default=None, ge=0, le=10_000_000)
    keystrokes: int | None = Field(default=None, ge=0, le=10_000_000)
    next: bool = Field(default=False, description="Claim the next item immediately.")

    def effort(self) -> dict[str, float]:
        """What was given of the effort."""
        return self.model_dump(include={"seconds", "keystrokes"}, exclude_none=True)


class Approval(ApprovalEffort):
    """An approval."""

    unseen: bool = Field(
        default=False, description="Approve it although fields with low confidence have not been reviewed."
    )


class TypeChoice(Strict):
    """The type of a document."""

    type: Name = Field(description="The name of a document type.")


class RejectionBody(ApprovalEffort):
    """Why a document is rejected."""

    code: Name
    reason: Words | None = None


SHAPES: tuple[type[BaseModel], ...] = (FieldChange,)  #: models nested in others
