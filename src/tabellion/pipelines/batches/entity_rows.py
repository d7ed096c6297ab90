"""The rows of a chunk's entities: how they are read, and everything that changes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from tabellion.engine.database import FetchRows
from tabellion.engine.sql import Dialect
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.error_forms import marks, split_error
from tabellion.pipelines.batches.row_lists import select_rows

if TYPE_CHECKING:
    from tabellion.engine.moves import Numbered

#: Columns of inserted rows with their types on PostgreSQL.
_INSERTED = {"chunk": "text", "position": "integer", "pi": "text", "current_tip": "text"}


class ChunkEntity(TypedDict):
    """An entity of a chunk."""

    position: int
    pi: str
    current_tip: str  #: that the orchestrator knew
    new_tip: str | None
    new_version: int | None
    entity_error: str | None
    error_code: str | None
    error_params: str | None


_COLUMNS = ", ".join(ChunkEntity.__annotations__)


async def read_entities(fetch: FetchRows, chunk: str) -> list[ChunkEntity]:
    """The entities of a chunk."""
    return await fetch(f"SELECT {_COLUMNS} FROM {tables.PIS} WHERE chunk = $1 ORDER BY position", chunk)


def insert_entities(rows: Sequence[Mapping[str, Any]], dialect: Dialect) -> Numbered:
    """The statement that adds entities."""
    text = f"INSERT INTO {tables.PIS} ({', '.join(_INSERTED)}) {select_rows(_INSERTED, dialect)}"
    return text, [json.dumps(rows, ensure_ascii=False)]


def note_version(chunk: str, position: int, tip: str, number: int, run: int) -> Numbered:
    """The statement that writes which version of an entity was appended."""
    text = f"""UPDATE {tables.PIS} SET new_tip = $3, new_version = $4, published_run = $5, entity_error = NULL,
  error_code = NULL, error_params = NULL
WHERE chunk = $1 AND position = $2"""
    return text, [chunk, position, tip, number, run]


def fail_entity(chunk: str, position: int, error: str) -> Numbered:
    """The statement that writes why an entity was not published."""
    text = f"""UPDATE {tables.PIS} SET entity_error = $3, error_code = $4, error_params = $5
WHERE chunk = $1 AND position = $2"""
    return text, [chunk, position, *split_error(error)]


def clear_error(chunk: str, position: int) -> Numbered:
    """The statement that removes the error of an earlier attempt of this run."""
    text = f"""UPDATE {tables.PIS} SET entity_error = NULL, error_code = NULL, error_params = NULL
WHERE chunk = $1 AND position = $2"""
    return text, [chunk, position]


def clear_errors(chunk: str) -> Numbered:
    """The statement that removes the errors of a chunk's entities."""
    text = f"UPDATE {tables.PIS} SET entity_error = NULL, error_code = NULL, error_params = NULL WHERE chunk = $1"
    return text, [chunk]


def delete_entities(chunks: Sequence[str]) -> Numbered:
    """The statement that removes the entities of chunks."""
    return f"DELETE FROM {tables.PIS} WHERE chunk IN ({marks(1, len(chunks))})", [*chunks]
