"""The rows of refs: how they are read by chunk, and everything that changes them but their queue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from tabellion.engine.database import FetchRows
from tabellion.engine.sql import NOW, Dialect
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.error_forms import last_attempt, marks, split_error
from tabellion.pipelines.batches.row_lists import in_list, select_rows
from tabellion.pipelines.batches.states import REFS_QUEUE, RefStatus, SkipReason

if TYPE_CHECKING:
    from tabellion.engine.moves import Numbered

#: Columns of inserted rows with their types on PostgreSQL.
_INSERTED = {
    "id": "text", "chunk": "text", "pi_position": "integer", "filename": "text", "staging_key": "text",
    "cdn_url": "text",
}  # fmt: skip


class Ref(TypedDict):
    """A ref of a chunk."""

    id: str
    pi_position: int  #: of its entity in the chunk
    filename: str
    staging_key: str
    loaded: bool
    status: str
    attempts: int
    reason: str | None
    error: str | None
    error_code: str | None
    error_params: str | None
    result_cid: str | None


_COLUMNS = ", ".join(Ref.__annotations__)


async def read_refs(fetch: FetchRows, chunk: str) -> list[Ref]:
    """The refs of a chunk."""
    return await fetch(f"SELECT {_COLUMNS} FROM {tables.REFS} WHERE chunk = $1 ORDER BY id", chunk)


async def read_unloaded_refs(fetch: FetchRows, chunk: str) -> list[Ref]:
    """The refs of a chunk whose files have not been loaded."""
    return await fetch(
        f"""SELECT {_COLUMNS} FROM {tables.REFS}
WHERE chunk = $1 AND status = '{RefStatus.PENDING}' AND NOT loaded ORDER BY id""",
        chunk,
    )


def insert_refs(rows: Sequence[Mapping[str, Any]], dialect: Dialect) -> Numbered:
    """The statement that adds refs."""
    text = f"INSERT INTO {tables.REFS} ({', '.join(_INSERTED)}) {select_rows(_INSERTED, dialect)}"
    return text, [json.dumps(rows, ensure_ascii=False)]


def load_refs(ids: Sequence[str], reason: SkipReason | None, dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """The statement that makes refs claimable, or skips them for a reason."""
    skip = f"status = '{RefStatus.SKIPPED}', reason = '{reason}', finished_at = {NOW}"
    text = f"""UPDATE {tables.REFS} SET {"loaded = TRUE" if reason is None else skip}
WHERE {in_list("id", "ids", dialect)} AND status = '{RefStatus.PENDING}'"""
    return text, {"ids": json.dumps(ids)}


def fail_ref(id_: str, error: str) -> Numbered:
    """The statement that ends a ref in an error, unless it was published."""
    text = f"""UPDATE {tables.REFS} SET status = '{RefStatus.ERROR}', reason = NULL, error = $2,
  error_code = $3, error_params = $4
WHERE id = $1 AND result_cid IS NULL"""
    return text, [id_, *split_error(error)]


def note_cids(dialect: Dialect, refs: Mapping[str, str]) -> Numbered:
    """The statement that writes the CIDs of refs, by their ids."""
    if dialect == "postgresql":
        text = f"""UPDATE {tables.REFS} AS r SET result_cid = n.value
FROM json_each_text(CAST($1 AS json)) AS n WHERE r.id = n.key"""
    else:
        text = f"""UPDATE {tables.REFS} SET result_cid = (SELECT n.value FROM json_each($1) AS n
  WHERE n.key = {tables.REFS}.id)
WHERE id IN (SELECT n.key FROM json_each($1) AS n)"""
    return text, [json.dumps(refs)]


def end_refs(chunk: str) -> tuple[str, dict[str, Any]]:
    """The statement that keeps the failed refs of a chunk that ends for its retry, with the codes of their attempts.

    The error of a ref whose last attempt has none was found while it was published, and has its code already.
    """
    error, code, params = (
        last_attempt(REFS_QUEUE, f"{tables.REFS}.id", column) for column in ("error", "error_code", "error_params")
    )
    text = f"""UPDATE {tables.REFS} SET chunk_ended = TRUE,
  error_code = CASE WHEN {error} IS NULL THEN error_code ELSE {code} END,
  error_params = CASE WHEN {error} IS NULL THEN error_params ELSE {params} END
WHERE chunk = :chunk AND status = '{RefStatus.ERROR}' AND NOT chunk_ended"""
    return text, {"chunk": chunk}


def restart_refs(chunk: str) -> Numbered:
    """The statement that has the failed refs of a chunk loaded and read again."""
    text = f"""UPDATE {tables.REFS} SET status = '{RefStatus.PENDING}', loaded = FALSE, error = NULL,
  error_code = NULL, error_params = NULL, chunk_ended = FALSE, finished_at = NULL
WHERE chunk = $1 AND status IN ('{RefStatus.ERROR}', '{RefStatus.PENDING}')"""
    return text, [chunk]


def delete_refs(chunks: Sequence[str]) -> Numbered:
    """The statement that removes the refs of chunks."""
    return f"DELETE FROM {tables.REFS} WHERE chunk IN ({marks(1, len(chunks))})", [*chunks]
