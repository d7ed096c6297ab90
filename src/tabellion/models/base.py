"""The interface of models: one method from parts to a reply, and their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

Schema = Mapping[str, Any]  #: plain JSON Schema of the requested object


@dataclass(frozen=True, slots=True)
class Blob:
    """A page image or a whole file."""

    data: bytes = field(repr=False)
    type: str  #: its media type: image/png, application/pdf
    name: str = ""


Part = str | Blob

#: The default media types of a model: the pictures that every server with vision supports.
PICTURES = frozenset({"image/png", "image/jpeg"})


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a call."""

    input: int = 0  #: everything sent, cached tokens included
    output: int = 0  #: the answer, without the thoughts
    thoughts: int = 0
    cached: int = 0  #: the part of the input from the provider's cache

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input, self.output + other.output,
            self.thoughts + other.thoughts, self.cached + other.cached,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer."""

    text: str = field(repr=False)
    object: Any = field(default=None, repr=False)  #: the parsed answer, with a schema
    usage: Usage = Usage()
    cost: float | None = None  #: in US dollars; None where the price is unknown
    model: str = ""
    seconds: float = 0.0
    finish: str = "stop"
    request_id: str = ""
    source: str = "call"  #: or a memo: "resume" from the same job's earlier attempt, "duplicate" from another job


@dataclass(frozen=True, slots=True)
class Ask:
    """The options of a call, with defaults for reading documents."""

    system: str | None = None
    temperature: float = 0.0
    max_tokens: int = 8192
    thinking: int | None = 0  #: thinking budget in tokens; None leaves it to the provider
    deadline: float = 120.0  #: seconds for the whole call
    attempt: int = 1  #: the number of the attempt: later ones may ask differently
    hint: Mapping[str, Any] = field(default_factory=dict)  #: from the last BadOutput: {"rotate": 90}

    def __post_init__(self) -> None:
        for name in ("temperature", "max_tokens"):  # the hint overrides the caller's option
            if name in self.hint:
                object.__setattr__(self, name, self.hint[name])

    def again(self, hint: Mapping[str, Any]) -> Ask:
        """The options of the next attempt: pass the hint of the `BadOutput` that ended the last one."""
        return replace(self, attempt=self.attempt + 1, hint={**self.hint, **hint})


class Model(Protocol):
    """One external API."""

    name: str  #: the key of its gate and its memos, e.g. "gemini"
    model: str  #: the provider's own name for it, e.g. "gemini-2.5-flash"

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Sends the parts and returns the reply, or raises one of `tabellion.models.errors`."""
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...


def takes(model: object) -> frozenset[str]:
    """The media types that a model reads: its attribute `takes`, which is empty for a model that reads only text."""
    return frozenset(getattr(model, "takes", PICTURES))
