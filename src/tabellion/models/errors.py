"""Errors of model calls, by how the engine handles them.

ModelError
├── Rejected        this request will never work (a Permanent: the job fails)
├── KeyRefused      the key is wrong, expired or out of money (a RateLimited: the gate pauses, no attempt is spent)
├── Throttled       too many requests (a RateLimited: later, no attempt is spent)
├── Unavailable     the server or the connection to it is failing (retried)
└── BadOutput       an answer that cannot be used (retried, differently)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tabellion.errors import Permanent, RateLimited, TabellionError
from tabellion.models.base import Usage

LONGEST_RAW = 64 * 1024
LONGEST_HINT = 3600.0  # seconds: the longest pause that a server may request

Fault = Literal["truncated", "html", "json", "schema", "repetition", "empty", "rotation", "too_large"]


class ModelError(TabellionError):
    """A model call without a usable reply."""

    status: int | None = None  #: the HTTP status, where there was one
    request_id: str = ""
    usage: Usage = Usage()  #: tokens that were billed although there is no reply
    cost: float | None = None  #: their cost; None where nothing is known to have been billed


class Rejected(ModelError, Permanent):  # noqa: N818 - a verdict
    """The provider refuses this request permanently: bad request, blocked content, or a removed model."""


class KeyRefused(ModelError, RateLimited):  # noqa: N818 - a verdict
    """The provider rejects the key; the job is not the cause."""

    def __init__(self, message: str) -> None:
        RateLimited.__init__(self, after=60.0, message=message)


class Throttled(ModelError, RateLimited):  # noqa: N818 - a verdict
    """The provider limits the request rate."""

    def __init__(self, message: str, hint: float | None = None) -> None:
        self.hint = None if hint is None else min(max(hint, 0.0), LONGEST_HINT)  #: the delay that the server requests
        RateLimited.__init__(self, after=self.hint if self.hint is not None else 1.0, message=message)


class Unavailable(ModelError):  # noqa: N818 - a state
    """The provider or the connection to it is failing."""

    def __init__(self, message: str = "", hint: float | None = None) -> None:
        self.hint = None if hint is None else min(max(hint, 0.0), LONGEST_HINT)  #: the delay that the server requests
        super().__init__(message)


class BadOutput(ModelError):  # noqa: N818 - a verdict
    """The provider answered, but the answer cannot be used."""

    def __init__(
        self, message: str, fault: Fault, *, raw: str = "", usage: Usage | None = None, cost: float | None = None,
        hint: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.fault = fault
        self.raw = raw[:LONGEST_RAW]
        self.usage = usage or Usage()
        self.cost = cost  #: a bad answer is billed, too
        self.hint = dict(hint or {})  #: what the next attempt should do differently
        super().__init__(message)
