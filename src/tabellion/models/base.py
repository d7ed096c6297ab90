"""What every model is: one method from parts to a reply, and the words for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

Schema = Mapping[str, Any]  #: plain JSON Schema of the object that is wanted


@dataclass(frozen=True, slots=True)
class Blob:
    """A page image or a whole file."""

    data: bytes = field(repr=False)
    type: str  #: its media type: image/png, application/pdf
    name: str = ""


Part = str | Blob

#: The media types that a model takes when it says nothing about it: the pictures that every server with eyes knows.
PICTURES = frozenset({"image/png", "image/jpeg"})


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call cost."""

    input: int = 0  #: everything sent, cached tokens included
    output: int = 0  #: what was answered, without the thoughts
    thoughts: int = 0
    cached: int = 0  #: the part of the input that the provider had in its cache

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input, self.output + other.output,
            self.thoughts + other.thoughts, self.cached + other.cached,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    text: str = field(repr=False)
    object: Any = field(default=None, repr=False)  #: the parsed answer when a schema was asked for
    usage: Usage = Usage()
    cost: float | None = None  #: in US dollars; None when nobody knows the price
    model: str = ""
    seconds: float = 0.0
    finish: str = "stop"
    request_id: str = ""
    source: str = "call"  #: or a memo: "resume" of the same job's earlier try, "duplicate" of another's question


@dataclass(frozen=True, slots=True)
class Ask:
    """How a call is to be made; everything has a default that suits reading documents."""

    system: str | None = None
    temperature: float = 0.0
    max_tokens: int = 8192
    thinking: int | None = 0  #: thinking budget in tokens; None leaves it to the provider
    deadline: float = 120.0  #: seconds for the whole call, whatever the server does meanwhile
    attempt: int = 1  #: which try this is: later ones may ask differently
    hint: Mapping[str, Any] = field(default_factory=dict)  #: what the last bad output taught: {"rotate": 90}

    def __post_init__(self) -> None:
        for name in ("temperature", "max_tokens"):  # the lesson of the last try wins over the caller's habit
            if name in self.hint:
                object.__setattr__(self, name, self.hint[name])

    def again(self, hint: Mapping[str, Any]) -> Ask:
        """The same, once more and wiser: pass the hint of the `BadOutput` that ended the last try."""
        return replace(self, attempt=self.attempt + 1, hint={**self.hint, **hint})


class Model(Protocol):
    """One outside API."""

    name: str  #: what its gate and its memos are kept under, e.g. "gemini"
    model: str  #: the provider's own name for it, e.g. "gemini-2.5-flash"

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Sends the parts and returns the reply, or raises one of `tabellion.models.errors`."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...


def takes(model: object) -> frozenset[str]:
    """The media types that a model reads: its attribute `takes`; an empty one is a model that reads text only."""
    return frozenset(getattr(model, "takes", PICTURES))
