"""Points documents at the files of days that have their rows now: before the ones they point at are removed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tabellion.engine.sql import Dialect

SOME = 1000  #: documents in one statement


@dataclass(frozen=True, slots=True)
class MovedOutput:
    """A document whose row is in another file from now on."""

    id: str
    old: str  #: the file that goes
    new: str  #: the file of its day
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


def pointing(fetch: Fetch, dialect: Dialect) -> Point:
    """Points the documents of one database; one that has been written elsewhere meanwhile is left as it is."""

    async def point(moved: Sequence[MovedOutput]) -> None:
        for start in range(0, len(moved), SOME):
            await fetch(_POINT[dialect], json.dumps([asdict(one) for one in moved[start : start + SOME]]))

    return point
