"""Points documents at the daily files that now have their rows, before the small files are removed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.sql import Dialect
from tabellion.pipelines.documents import states

SOME = 1000  #: documents per statement


@dataclass(frozen=True, slots=True)
class MovedOutput:
    """A document whose row is now in another file."""

    id: str
    old: str  #: the file that is removed
    new: str  #: the daily file
    sha256: str  #: of that file


Point = Callable[[Sequence[MovedOutput]], Awaitable[None]]
Fetch = Callable[..., Awaitable[list[dict[str, Any]]]]


def point_with(fetch: Fetch, dialect: Dialect) -> Point:
    """A function that updates the documents of one database, except those written elsewhere meanwhile."""

    async def point(moved: Sequence[MovedOutput]) -> None:
        for start in range(0, len(moved), SOME):
            payload = json.dumps([asdict(output) for output in moved[start : start + SOME]])
            text, values = sql.bind(*states.point_outputs(dialect, payload))
            await fetch(text, *values)

    return point
