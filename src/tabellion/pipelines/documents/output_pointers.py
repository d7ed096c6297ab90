"""Points documents at the daily files that now have their rows, before the small files are removed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tabellion.engine.sql import Dialect

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

_POINT: dict[Dialect, str] = {
    "postgresql": """UPDATE tabellion_documents AS d SET parquet_path = m.new, parquet_sha256 = m.sha256
FROM json_to_recordset(CAST($1 AS json)) AS m (id text, old text, new text, sha256 text)
WHERE d.id = m.id AND d.parquet_path = m.old""",
    "sqlite": """UPDATE tabellion_documents AS d SET parquet_path = json_extract(m.value, '$.new'),
  parquet_sha256 = json_extract(m.value, '$.sha256') FROM json_each($1) AS m
WHERE d.id = json_extract(m.value, '$.id') AND d.parquet_path = json_extract(m.value, '$.old')""",
}


def point_with(fetch: Fetch, dialect: Dialect) -> Point:
    """A function that updates the documents of one database, except those written elsewhere meanwhile."""

    async def point(moved: Sequence[MovedOutput]) -> None:
        for start in range(0, len(moved), SOME):
            await fetch(_POINT[dialect], json.dumps([asdict(output) for output in moved[start : start + SOME]]))

    return point
