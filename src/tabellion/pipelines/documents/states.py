"""The states of a document, every change from one to another, and the other statements that change its table.

Five columns make a state; no other module writes them.

`status`        the public state: queued, processing, completed, failed, duplicate
`chore`         work beside reading: NULL none, `bounded` read within its type's limit,
                `follow → following → followed | unfollowed` a duplicate waits for its original,
                `telling` a failure is reported, `rewrite → rewriting | unwritten` outputs are rewritten
`told`          whether a failure was reported: NULL not yet, `reported`, `unreported` it could not be
`duplicate_of`  the document whose result it shares
`former`        the state to return to if reading it once more fails, as JSON; NULL if it was not read before
"""

from __future__ import annotations

from typing import Any, cast

from tabellion.engine import sql
from tabellion.engine.job import Job
from tabellion.engine.queue import QueueStates
from tabellion.engine.sql import CHANNEL, NOW, Dialect, State
from tabellion.pipelines.documents.written_columns import FormerRequest, NewDocument, WrittenColumns

Change = tuple[str, dict[str, Any]]  #: a statement with `:name` placeholders, and its values
TABLE = "tabellion_documents"
#: The columns of the request that the current result belongs to; a new reading changes them before it has its own.
FORMER = ("type", "type_key", "model", "asked_model", "key", "duplicate_of")

# -- the states of its queues --------------------------------------------------------------------------------------


def reading_states(model: str) -> QueueStates:
    """The states of documents that a model reads."""
    ready: State = {"status": "queued", "chore": None, "model": model}
    return {"ready": ready, "running": "processing", "done": "completed", "failed": "failed"}


def bounded_reading_states(model: str, type_name: str) -> QueueStates:
    """The states of documents of a type with a limit: no row may be running in two queues."""
    return {
        "ready": {"status": "queued", "chore": None, "model": model, "type": type_name},
        "running": {"status": "processing", "chore": "bounded"},
        "done": {"status": "completed", "chore": None},
        "failed": {"status": "failed", "chore": None},
    }


#: Of duplicates whose original has ended; the column is `chore`.
FOLLOWING: QueueStates = {"ready": "follow", "running": "following", "done": "followed", "failed": "unfollowed"}
#: Of failed documents that have not been reported.
REPORTING: QueueStates = {
    "ready": {"status": "failed", "chore": None, "told": None},
    "running": {"chore": "telling"},
    "done": {"chore": None, "told": "reported"},
    "failed": {"chore": None, "told": "unreported"},
}
#: Of documents whose outputs are rewritten.
REWRITING: QueueStates = {
    "ready": {"status": "completed", "chore": "rewrite"},
    "running": {"chore": "rewriting"},
    "done": {"chore": None},
    "failed": {"chore": "unwritten"},
}

#: Version 7 of the tables: values of earlier versions.
RENAMED_VALUES = (
    f"UPDATE {TABLE} SET told = 'reported' WHERE told = 'told'",
    f"UPDATE {TABLE} SET told = 'unreported' WHERE told = 'untold'",
    f"UPDATE {TABLE} SET chore = 'unfollowed' WHERE chore = 'astray'",
)

# -- what handlers return, written with the end of their job --------------------------------------------------------

WAITS_FOR_ORIGINAL: WrittenColumns = {"status": "queued", "chore": "follow", "completed_at": None}
IS_DUPLICATE: WrittenColumns = {"status": "duplicate", "error": None}
HAS_FOLLOWED: WrittenColumns = {"chore": "followed"}
NEEDS_REWRITE: WrittenColumns = {"chore": "rewrite"}
HAS_NO_FORMER: WrittenColumns = {"former": None}


def fail(error: str) -> WrittenColumns:
    """A duplicate whose original has failed."""
    return {"status": "failed", "error": error}


def follow(original: str) -> WrittenColumns:
    """A duplicate whose original is now another document."""
    return {**WAITS_FOR_ORIGINAL, "duplicate_of": original}


def read_itself(version: int) -> WrittenColumns:
    """A duplicate whose original is gone: it is read itself."""
    return {"status": "queued", "completed_at": None, "chore": None, "duplicate_of": None, "version": version + 1}


def restore(former: FormerRequest, error: str) -> WrittenColumns:
    """A document whose second reading failed, as it was before; its error stays."""
    request = cast("WrittenColumns", {name: former.get(name) for name in FORMER})
    return {**request, "status": former["status"], "former": None, "error": error}


# -- new documents ---------------------------------------------------------------------------------------------------


def insert(dialect: Dialect, row: NewDocument) -> Change:
    """Queues a new document; returns its status and the document it duplicates."""
    marks = ", ".join(f":{name}" for name in row)
    return _notify(f"INSERT INTO {TABLE} ({', '.join(row)}, created_at) VALUES ({marks}, {NOW})", dialect), {**row}


def insert_by_key(dialect: Dialect, row: NewDocument, *, reports: bool, rejects: bool) -> Change:
    """Queues a new document if it holds its key. Otherwise it is a duplicate of the holder, or, with `rejects`, not
    inserted. `reports`: a duplicate of a document that was read is reported. Returns the same as `insert`."""
    typed = {name: _cast(f":{name}", name, dialect) for name in row}
    mine, is_read = f"p.document_id = {typed['id']}", "o.status = 'completed'"
    text = f"""INSERT INTO {TABLE} ({", ".join(row)}, created_at, status, chore, duplicate_of, completed_at)
SELECT {", ".join(typed.values())}, {NOW},
  CASE WHEN {mine} THEN 'queued' WHEN {is_read} THEN 'duplicate' ELSE 'queued' END,
  CASE WHEN {mine} THEN NULL WHEN {is_read} THEN '{"follow" if reports else "followed"}' ELSE 'follow' END,
  CASE WHEN {mine} THEN NULL ELSE p.document_id END,
  CASE WHEN {mine} THEN NULL WHEN {is_read} THEN {NOW} END
FROM tabellion_processed_documents AS p LEFT JOIN {TABLE} AS o ON o.id = p.document_id
WHERE p.key = :key{f" AND {mine}" if rejects else ""}"""
    return _notify(text, dialect), {**row}


def _cast(mark: str, column: str, dialect: Dialect) -> str:
    """PostgreSQL needs the type of a parameter in a SELECT."""
    kind = {"bytes": "bigint", "max_attempts": "integer"}.get(column, "text")
    return f"CAST({mark} AS {kind})" if dialect == "postgresql" else mark


def _notify(insert: str, dialect: Dialect) -> str:
    """The insert with its result returned; on PostgreSQL it also notifies listeners when it commits."""
    returning = f"{insert} RETURNING status, duplicate_of"
    if dialect == "sqlite":
        return returning
    return f"WITH added AS ({returning}) SELECT status, duplicate_of, pg_notify('{CHANNEL}', '') FROM added"


# -- changes of state from outside a job -----------------------------------------------------------------------------


def commit_with(job: Job, *changes: Change) -> None:
    """Commits changes with this job's finish."""
    for text, values in changes:
        job.also(text, **values)


def read_again(id: str, **columns: Any) -> Change:  # noqa: A002 - the column's name
    """Queues a finished document once more with these `columns`; returns its version.

    Not while its outputs are being written: a review that has just ended is reported first, or nobody would learn of
    it.
    """
    named = ", ".join(f"{name} = :{name}" for name in columns)
    text = f"""UPDATE {TABLE} SET status = 'queued', chore = NULL, told = NULL, duplicate_of = NULL, {named},
  attempts = 0, error = NULL, done_pages = 0, started_at = NULL, completed_at = NULL, version = version + 1
WHERE id = :id AND status IN ('completed', 'failed', 'duplicate')
  AND coalesce(chore, '') NOT IN ('rewrite', 'rewriting')
RETURNING version"""
    return text, {"id": id, **columns}


def read_with_more(id: str, condition: str) -> Change:  # noqa: A002
    """Queues a document that was just read once more if the condition holds."""
    return f"UPDATE {TABLE} SET status = 'queued', completed_at = NULL WHERE id = :id AND ({condition})", {"id": id}


def take_place(id: str, heir: str, former: str | None = None) -> list[Change]:  # noqa: A002
    """Has the oldest duplicate of a document read in its place; the others become its duplicates."""
    return [
        (
            f"""UPDATE {TABLE} SET status = 'queued', chore = NULL, told = NULL, duplicate_of = NULL, error = NULL,
  completed_at = NULL, former = :former, version = version + 1 WHERE id = :heir""",
            {"heir": heir, "former": former},
        ),
        (
            f"UPDATE {TABLE} SET duplicate_of = :heir WHERE duplicate_of = :id AND status <> 'failed'",
            {"id": id, "heir": heir},
        ),
    ]


def follow_heir(id: str, heir: str) -> Change:  # noqa: A002
    """Makes every duplicate of a document, failed ones included, a duplicate of another."""
    return f"UPDATE {TABLE} SET duplicate_of = :heir WHERE duplicate_of = :id", {"id": id, "heir": heir}


def change_duplicates(id: str, **columns: Any) -> Change:  # noqa: A002
    """Sets these columns of the duplicates of a document."""
    named = ", ".join(f"{name} = :{name}" for name in columns)
    return f"UPDATE {TABLE} SET {named} WHERE duplicate_of = :id", {"id": id, **columns}


def restore_duplicates(id: str, failed: str, former: WrittenColumns) -> Change:  # noqa: A002
    """Gives duplicates that moved with a document to another request (the key `failed`) its former request back."""
    shared = [name for name in FORMER if name != "duplicate_of"]
    text = f"""UPDATE {TABLE} SET {", ".join(f"{name} = :{name}" for name in shared)}
WHERE duplicate_of = :id AND status = 'duplicate' AND key = :failed"""
    return text, {"id": id, "failed": failed, **{name: value for name, value in former.items() if name in shared}}


def detach_failed(id: str) -> Change:  # noqa: A002
    """Detaches duplicates that failed with a document which becomes something else."""
    return f"UPDATE {TABLE} SET duplicate_of = NULL WHERE duplicate_of = :id AND status = 'failed'", {"id": id}


def wait_again(id: str, status: str, *, forget_error: bool = False) -> Change:  # noqa: A002
    """Has the duplicates of a document that have this status wait for it once more."""
    forgotten = "error = NULL, " if forget_error else ""
    text = f"""UPDATE {TABLE} SET status = 'queued', chore = 'follow', {forgotten}completed_at = NULL
WHERE duplicate_of = :id AND status = '{status}'"""
    return text, {"id": id}


def fail_waiting(id: str, key: str, error: str) -> Change:  # noqa: A002
    """Fails waiting duplicates whose request (`key`) is another than this one: its result is not theirs."""
    text = f"""UPDATE {TABLE} SET status = 'failed', chore = NULL, told = NULL, duplicate_of = NULL, error = :error,
  completed_at = {NOW} WHERE duplicate_of = :id AND key <> :key AND status = 'queued' AND chore = 'follow'"""
    return text, {"id": id, "key": key, "error": error}


def rewrite(id: str) -> Change:  # noqa: A002
    """Has outputs rewritten, restarting a rewrite under way; for a document being read they are written anyway."""
    text = f"""UPDATE {TABLE} SET chore = 'rewrite', version = version + 1
WHERE id = :id AND status = 'completed' AND coalesce(chore, 'rewrite') IN ('rewrite', 'rewriting', 'unwritten')"""
    return text, {"id": id}


def rewrite_where(id: str, condition: str) -> Change:  # noqa: A002
    """Has the outputs of a document that has just ended rewritten if the condition holds."""
    text = f"""UPDATE {TABLE} SET chore = 'rewrite', version = version + 1
WHERE id = :id AND status = 'completed' AND ({condition})"""
    return text, {"id": id}


def forget_report(id: str) -> Change:  # noqa: A002
    """Marks the failure of a document that is read once more as not reported: a new failure must be reported."""
    return f"UPDATE {TABLE} SET told = NULL WHERE id = :id", {"id": id}


def requeue_stranded(dialect: Dialect, after: float) -> Change:
    """Requeues documents whose worker died and whose queue is no longer configured."""
    text = f"""UPDATE {TABLE} SET status = 'queued', chore = NULL WHERE status = 'processing' AND NOT EXISTS (
  SELECT 1 FROM tabellion_attempts AS a WHERE a.key = {TABLE}.id AND a.settled_at IS NULL
  AND a.lease_until > {sql.later(repr(-after), dialect)}) RETURNING id"""
    return text, {}


# -- columns beside the state ---------------------------------------------------------------------------------------


def record_postponement(id: str, worker: str | None, error: str, cost: float | None) -> Change:  # noqa: A002
    """Stores why a document that this worker is reading waits, and what it has cost so far."""
    text = f"""UPDATE {TABLE} SET error = :error, cost = :cost
WHERE id = :id AND worker = :worker AND status = 'processing'"""
    return text, {"id": id, "worker": worker, "error": error, "cost": cost}


def limit_attempts(id: str, attempts: int) -> Change:  # noqa: A002
    """Sets the number of attempts that the detected type allows."""
    return f"UPDATE {TABLE} SET max_attempts = :attempts WHERE id = :id", {"id": id, "attempts": attempts}


def store_progress(dialect: Dialect, reports: str) -> Change:
    """Stores the pages read of documents that their workers (`w`) still have; `reports` is JSON."""
    if dialect == "postgresql":
        text = f"""UPDATE {TABLE} AS t SET pages = r.p, done_pages = r.d
FROM json_to_recordset(CAST(:reports AS json)) AS r (id text, w text, d integer, p integer)
WHERE t.id = r.id AND t.worker = r.w AND t.status = 'processing'"""
    else:
        text = f"""UPDATE {TABLE} AS t
SET pages = json_extract(r.value, '$.p'), done_pages = json_extract(r.value, '$.d')
FROM json_each(:reports) AS r
WHERE t.id = json_extract(r.value, '$.id') AND t.worker = json_extract(r.value, '$.w') AND t.status = 'processing'"""
    return text, {"reports": reports}


def point_outputs(dialect: Dialect, moved: str) -> Change:
    """Points documents whose rows are still in the file `old` at the file `new`; `moved` is JSON."""
    if dialect == "postgresql":
        text = f"""UPDATE {TABLE} AS d SET parquet_path = m.new, parquet_sha256 = m.sha256
FROM json_to_recordset(CAST(:moved AS json)) AS m (id text, old text, new text, sha256 text)
WHERE d.id = m.id AND d.parquet_path = m.old"""
    else:
        text = f"""UPDATE {TABLE} AS d SET parquet_path = json_extract(m.value, '$.new'),
  parquet_sha256 = json_extract(m.value, '$.sha256') FROM json_each(:moved) AS m
WHERE d.id = json_extract(m.value, '$.id') AND d.parquet_path = json_extract(m.value, '$.old')"""
    return text, {"moved": moved}


# -- deletions -------------------------------------------------------------------------------------------------------


def discard(id: str) -> Change:  # noqa: A002
    """Deletes a document that has just been inserted."""
    return f"DELETE FROM {TABLE} WHERE id = :id", {"id": id}


def delete(id: str) -> Change:  # noqa: A002
    """Deletes a document that is not being read and whose outputs are not being written; returns its id."""
    text = f"""DELETE FROM {TABLE} WHERE id = :id AND status <> 'processing' AND coalesce(chore, '') <> 'rewriting'
RETURNING id"""
    return text, {"id": id}


def delete_where(id: str, condition: str, dialect: Dialect) -> Change:  # noqa: A002
    """Deletes a document `d` for which the condition holds, in which `item` is its review item; returns its id.

    The item is locked and read again: a person may have reopened it meanwhile.
    """
    lock = "FOR UPDATE" if dialect == "postgresql" else ""
    text = f"""WITH item AS MATERIALIZED (
  SELECT status, finished_at FROM tabellion_review_items WHERE document_id = :id {lock}
)
DELETE FROM {TABLE} AS d WHERE d.id = :id AND {condition} RETURNING id"""
    return text, {"id": id}
