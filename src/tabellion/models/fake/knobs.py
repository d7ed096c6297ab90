"""Knobs: the failures that a request can ask this server for, and their notation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Literal, get_args

from tabellion.errors import ConfigurationError
from tabellion.models.fake.quota import BUCKET, Window, window_of

Form = Literal["full", "text", "header", "bare"]

#: Every knob and what it does; the table in docs/reference/fake-model.md is checked against it.
KNOBS: dict[str, str] = {
    "rate": "429 above this many requests per second",
    "window": "how `rate` is counted: `bucket:1`, `fixed:60` or `sliding:60`, the length in seconds",
    "latency": "seconds before the answer: `3`, `0.5-2` or `exp:1.5`",
    "429": "too many requests, with every hint the provider gives; `429=36` sets the delay",
    "429bare": "too many requests, without a retry delay",
    "429text": "too many requests; the retry delay is only in the message",
    "429header": "too many requests; the retry delay is only in a Retry-After header",
    "hint": "how a 429 states the retry delay: `full`, `text`, `header` or `bare`",
    "400": "bad request",
    "401": "not authenticated",
    "402": "payment required",
    "403": "permission denied",
    "404": "no such model",
    "500": "internal error",
    "502": "bad gateway",
    "503": "overloaded",
    "504": "the provider's own deadline passed",
    "errorlist": "error bodies come inside a one-element list",
    "detail": "error bodies as FastAPI servers write them (OpenAI)",
    "hang": "never answers",
    "drip": "a byte every 0.2 s, without end",
    "reset": "the connection is closed in the middle of the body",
    "html": "an HTML page instead of JSON, with status 200 or that of an error knob",
    "truncate": "half an answer, ended by the token limit",
    "empty": "no answer at all, ended by the token limit",
    "schema": "valid JSON that breaks the schema",
    "repeat": "a repetition loop up to the token limit",
    "block": "blocked content",
    "thought": "a thought precedes the answer",
    "huge": "a reply of 64 MB; `huge=N` of N MB",
    "rotate90": "olmOCR models call an upright picture rotated until it is wider than high",
}

HINT_AFTER = 30.0  # the retry delay of a plain 429, in seconds
HUGE = 64  # MB
_NUMBERS = ("rate", "huge", "429", "429bare", "429text", "429header")
_STATUS = re.compile(r"([45]\d\d)(bare|text|header)?")


@dataclass(frozen=True, slots=True)
class Latency:
    """The seconds before an answer: constant, between two bounds, or exponential with a mean."""

    low: float
    high: float
    exponential: bool = False

    def draw(self, chance: Random) -> float:
        """The seconds for one answer."""
        if self.exponential:
            return chance.expovariate(1 / self.low)
        return self.low if self.low == self.high else chance.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Knobs:
    """The knobs of one request."""

    rate: float | None = None
    window: Window = BUCKET
    latency: Latency | None = None
    after: float = HINT_AFTER
    hint: Form = "full"
    huge: int = HUGE
    chances: Mapping[str, float] = field(default_factory=dict)  #: every other knob and its probability

    def draw(self, chance: Random) -> frozenset[str]:
        """The knobs that apply to this request; certain ones draw no random number."""
        return frozenset(
            name for name, probability in self.chances.items() if probability >= 1 or chance.random() < probability
        )


@lru_cache(4096)
def knobs(*texts: str) -> Knobs:
    """The knobs in these texts; a later text overrides an earlier one, knob by knob."""
    values: dict[str, str] = {}
    for text in texts:
        values |= _split(text)
    return _knobs(values)


def _split(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, _, value = word.partition("=")
        name = name.strip().lower()
        if name not in KNOBS:
            raise ConfigurationError(f"unknown knob {name!r}; known: {', '.join(KNOBS)}")
        values[name] = value.strip()
    return values


def _knobs(values: Mapping[str, str]) -> Knobs:
    rate = latency = None
    window = BUCKET
    after, form, huge = HINT_AFTER, "full", HUGE
    chances: dict[str, float] = {}
    for name, value in values.items():
        if name == "rate":
            rate = _number(name, value)
        elif name == "window":
            window = window_of(value)
        elif name == "latency":
            latency = latency_of(value)
        elif name == "hint":
            form = value
        else:
            status = _STATUS.fullmatch(name)
            number, chances[status[1] if status else name] = _chance(name, value)
            if name.startswith("429"):
                after = HINT_AFTER if number is None else number
                form = status[2] or form if status else form
            elif name == "huge" and number is not None:
                huge = max(1, int(number))
    if form not in get_args(Form):
        raise ConfigurationError(f"hint={form}: it is one of {', '.join(get_args(Form))}")
    return Knobs(rate, window, latency, after, form, huge, chances)  # type: ignore[arg-type]


def _chance(name: str, value: str) -> tuple[float | None, float]:
    """A knob's number, where it takes one, and its probability: `429=36:10%`, `503=0.1`."""
    number, probability = None, 1.0
    for word in filter(None, value.split(":")):
        if word.endswith("%"):
            probability = _number(name, word[:-1]) / 100
        elif name in _NUMBERS:
            number = _number(name, word)
        else:
            probability = _number(name, word)
    if probability > 1:
        raise ConfigurationError(f"{name}={value}: must be a probability, 0 to 1 or in %")
    return number, probability


def latency_of(text: str) -> Latency:
    """Parses a latency: `3`, `0.5-2` or `exp:1.5`."""
    kind, _, mean = text.partition(":")
    if kind == "exp" and mean:
        seconds = _number("latency", mean)
        return Latency(seconds, seconds, exponential=seconds > 0)
    low, dash, high = text.partition("-")
    if dash:
        bounds = _number("latency", low), _number("latency", high)
        return Latency(min(bounds), max(bounds))
    return Latency(_number("latency", text), _number("latency", text))


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9 or (name == "rate" and number == 0):
        raise ConfigurationError(f"{name}={text}: not a valid value; {name} is {KNOBS[name]}")
    return number
