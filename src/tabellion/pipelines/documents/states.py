"""The states of a document, and every change from one to another.

Five columns make a state; nothing outside this module writes them in SQL.

`status`        queued, processing, completed, failed, duplicate: what people and programs are told
`chore`         what is being done with it beside reading: NULL nothing, `bounded` read within its type's limit,
                `follow → following → followed | astray` a duplicate waits for its original,
                `telling` a failure is told, `rewrite → rewriting | unwritten` outputs are written anew
`told`          whether a failure was told: NULL not yet, `told`, `untold` it could not be
`duplicate_of`  the document whose result it shares
`former`        what it goes back to if reading it once more fails, as JSON; NULL where it was not read before
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from tabellion.engine import sql
from tabellion.engine.job import Job
from tabellion.engine.sql import NOW, Dialect, State
from tabellion.engine.table import Row

Change = tuple[str, dict[str, Any]]  #: a statement with `:name` placeholders, and its values
TABLE = "tabellion_documents"

# -- the states of its queues --------------------------------------------------------------------------------------


class QueueStates(TypedDict):
    """The four states of a queue."""

    ready: State | str
    running: State | str
    done: State | str
    failed: State | str


def reading(model: str) -> QueueStates:
    """Of documents that a model reads."""
    ready: State = {"status": "queued", "chore": None, "model": model}
    return {"ready": ready, "running": "processing", "done": "completed", "failed": "failed"}


def bounded_reading(model: str, type_name: str) -> QueueStates:
    """Of documents of a type that says how many may be read at once: no row may be running in two queues."""
    return {
        "ready": {"status": "queued", "chore": None, "model": model, "type": type_name},
        "running": {"status": "processing", "chore": "bounded"},
        "done": {"status": "completed", "chore": None},
        "failed": {"status": "failed", "chore": None},
    }


#: Of duplicates whose original has ended; their `chore` is the column that moves.
FOLLOWING: QueueStates = {"ready": "follow", "running": "following", "done": "followed", "failed": "astray"}
#: Of failed documents of which nobody has been told.
TELLING: QueueStates = {
    "ready": {"status": "failed", "chore": None, "told": None},
    "running": {"chore": "telling"},
    "done": {"chore": None, "told": "told"},
    "failed": {"chore": None, "told": "untold"},
}
#: Of documents whose outputs are written anew.
REWRITING: QueueStates = {
    "ready": {"status": "completed", "chore": "rewrite"},
    "running": {"chore": "rewriting"},
    "done": {"chore": None},
    "failed": {"chore": "unwritten"},
}

# -- what handlers return, written with the end of their job --------------------------------------------------------

WAITS_FOR_ORIGINAL = {"status": "queued", "chore": "follow", "completed_at": None}
IS_DUPLICATE = {"status": "duplicate", "error": None}


def follows(original: str) -> Row:
    """A duplicate whose original is another one now."""
    return {**WAITS_FOR_ORIGINAL, "duplicate_of": original}


def takes_its_turn(version: int) -> Row:
    """A duplicate whose original is gone: it is read itself."""
    return {"status": "queued", "completed_at": None, "chore": None, "duplicate_of": None, "version": version + 1}


def goes_back(former: Row, columns: Sequence[str], error: str) -> Row:
    """A document that was read once more without success, as it was before; its error stays."""
    return {**{name: former.get(name) for name in columns}, "status": former["status"], "former": None, "error": error}


# -- what changes the states of documents from outside ---------------------------------------------------------------


def commit_with(job: Job, change: Change) -> None:
    """Has a change commit with the finish of this job."""
    text, values = change
    job.also(text, **values)


def read_again(id: str, **asked: Any) -> Change:  # noqa: A002 - the column's name
    """A document that has ended is read once more, as `asked` says; its version is returned.

    Not while its outputs are being written: a review that has just ended is told first, or nobody would hear of it.
    """
    named = ", ".join(f"{name} = :{name}" for name in asked)
    return (
        f"""UPDATE {TABLE} SET status = 'queued', chore = NULL, told = NULL, duplicate_of = NULL, {named},
  attempts = 0, error = NULL, done_pages = 0, started_at = NULL, completed_at = NULL, version = version + 1
WHERE id = :id AND status IN ('completed', 'failed', 'duplicate')
  AND coalesce(chore, '') NOT IN ('rewrite', 'rewriting')
RETURNING version""",
        {"id": id, **asked},
    )


def read_with_more(id: str, condition: str) -> Change:  # noqa: A002
    """A document that was just read is read once more where the condition holds."""
    return f"UPDATE {TABLE} SET status = 'queued', completed_at = NULL WHERE id = :id AND ({condition})", {"id": id}


def take_place(id: str, heir: str, former: str | None = None) -> list[Change]:  # noqa: A002
    """The oldest duplicate of a document is read in its stead, and the others are its duplicates from here on."""
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
    """Every duplicate of a document, failed ones too, is one of another."""
    return f"UPDATE {TABLE} SET duplicate_of = :heir WHERE duplicate_of = :id", {"id": id, "heir": heir}


def detach_failed(id: str) -> Change:  # noqa: A002
    """Duplicates that failed with a document which becomes something else have nothing to do with it any more."""
    return f"UPDATE {TABLE} SET duplicate_of = NULL WHERE duplicate_of = :id AND status = 'failed'", {"id": id}


def wait_again(id: str, status: str, *, forget_error: bool = False) -> Change:  # noqa: A002
    """The duplicates of a document that have this status wait for it once more."""
    forgotten = "error = NULL, " if forget_error else ""
    return (
        f"""UPDATE {TABLE} SET status = 'queued', chore = 'follow', {forgotten}completed_at = NULL
WHERE duplicate_of = :id AND status = '{status}'""",
        {"id": id},
    )


def fail_waiting(id: str, key: str, error: str) -> Change:  # noqa: A002
    """Duplicates that wait with another question than this one do not get its answer: they fail."""
    return (
        f"""UPDATE {TABLE} SET status = 'failed', chore = NULL, told = NULL, duplicate_of = NULL, error = :error,
  completed_at = {NOW} WHERE duplicate_of = :id AND key <> :key AND status = 'queued' AND chore = 'follow'""",
        {"id": id, "key": key, "error": error},
    )


def rewrite(id: str) -> Change:  # noqa: A002
    """Outputs are written anew, and begun again if that is under way; those of a document in reading are anyway."""
    return (
        f"""UPDATE {TABLE} SET chore = 'rewrite', version = version + 1
WHERE id = :id AND status = 'completed' AND coalesce(chore, 'rewrite') IN ('rewrite', 'rewriting', 'unwritten')""",
        {"id": id},
    )


def rewrite_where(id: str, condition: str) -> Change:  # noqa: A002
    """Outputs of a document that has just ended are written anew where the condition holds."""
    return (
        f"""UPDATE {TABLE} SET chore = 'rewrite', version = version + 1
WHERE id = :id AND status = 'completed' AND ({condition})""",
        {"id": id},
    )


def untold(id: str) -> Change:  # noqa: A002
    """A failure that was told, of a document that is read once more: failing again is news."""
    return f"UPDATE {TABLE} SET told = NULL WHERE id = :id", {"id": id}


def requeue_stranded(dialect: Dialect, after: float) -> Change:
    """Documents whose reader died, and whose queue went with a change of the configuration, are read again."""
    return (
        f"""UPDATE {TABLE} SET status = 'queued', chore = NULL WHERE status = 'processing' AND NOT EXISTS (
  SELECT 1 FROM tabellion_attempts AS a WHERE a.key = {TABLE}.id AND a.settled_at IS NULL
  AND a.lease_until > {sql.later(repr(-after), dialect)}) RETURNING id""",
        {},
    )


def removable(id: str) -> Change:  # noqa: A002
    """Removes a document that nobody reads and whose outputs nobody writes; its id is returned."""
    return (
        f"""DELETE FROM {TABLE} WHERE id = :id AND status <> 'processing' AND coalesce(chore, '') <> 'rewriting'
RETURNING id""",
        {"id": id},
    )
