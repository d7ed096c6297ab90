"""Groups the failed refs of a batch by their error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from tabellion.answers import Answer, Doc
from tabellion.messages import Message, Translatable, Translated
from tabellion.monitor.fingerprint import shape
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.error_forms import StoredError, read_forms, translatable_field
from tabellion.pipelines.batches.states import (
    ENDED,
    FETCHING_QUEUE,
    PUBLISHING_QUEUE,
    REF_STATUS,
    REFS_QUEUE,
    RefStatus,
    quote_list,
)

if TYPE_CHECKING:
    from tabellion.engine.store import Store

MOST_EXAMPLES = 5  #: refs that are shown for an error
MOST_TEXTS = 2000  #: different texts of errors that are grouped, the most frequent ones


class FailedRefExample(Answer):
    """One of the refs with an error."""

    chunk_id: str
    pi: str
    filename: str


class RefError(Answer):
    """An error, and the refs that have it: texts that differ only in numbers, ids and paths are one error."""

    error: Annotated[str, Doc("The most frequent text.")]
    translatable: NotRequired[Translatable]
    refs: int
    examples: list[FailedRefExample]


async def failed_refs(store: Store, batch_id: str, limit: int = 50) -> list[RefError]:
    """The errors of a batch's refs, the most frequent first. As in its progress, what was not published has failed:
    with the error of its entity or chunk, if it has none of its own."""
    rows = await store.database.fetch(
        f"""SELECT f.error, count(*) AS n, min(f.id) AS first, min(f.chunk) AS chunk FROM ({_FAILED}) AS f
GROUP BY f.error ORDER BY count(*) DESC, min(f.id) LIMIT {MOST_TEXTS}""",
        batch_id, str.__str__(Message("batch.not_published")),
    )  # fmt: skip
    alike: dict[str, list[Any]] = {}
    for row in rows:
        alike.setdefault(shape(row["error"]), []).append(row)
    groups = sorted(alike.values(), key=lambda group: -sum(row["n"] for row in group))[:limit]
    forms = await read_forms(store, [error for group in groups for error in _places(group[0])])
    return [
        RefError(
            error=group[0]["error"], refs=sum(row["n"] for row in group),
            examples=await _examples(store, batch_id, [row["error"] for row in group[:MOST_EXAMPLES]]),
            **next((translatable_field(forms, error) for error in _places(group[0]) if error in forms), Translated()),
        )
        for group in groups
    ]  # fmt: skip


#: The failed refs of a batch ($1) with their errors ($2 if there is none). Of chunks without failures no ref is read.
_FAILED = "\nUNION ALL ".join(
    f"""SELECT r.id, r.chunk, r.filename, c.chunk_id, p.pi,
  coalesce(nullif(r.error, ''), p.entity_error, c.publishing_error, c.fetching_error, CAST($2 AS text)) AS error
FROM {tables.CHUNKS} AS c JOIN {tables.REFS} AS r ON r.chunk = c.id
JOIN {tables.PIS} AS p ON p.chunk = r.chunk AND p.position = r.pi_position
WHERE c.batch_id = $1 AND {which}"""
    for which in (
        f"c.phase NOT IN ({quote_list(ENDED)}) AND r.status = '{RefStatus.ERROR}'",
        f"""c.phase IN ({quote_list(ENDED)}) AND coalesce(c.failed_refs, 1) > 0
  AND {REF_STATUS} = '{RefStatus.ERROR}'""",
    )
)


def _places(row: Any) -> list[StoredError]:
    """Where the register may have the code of an error: with a ref, or with the chunk."""
    queues = ((REFS_QUEUE, row["first"]), (PUBLISHING_QUEUE, row["chunk"]), (FETCHING_QUEUE, row["chunk"]))
    return [(queue, key, row["error"]) for queue, key in queues]


async def _examples(store: Store, batch_id: str, errors: Sequence[str]) -> list[FailedRefExample]:
    """Some of the refs with one of these errors."""
    marks = ", ".join(f"${number}" for number in range(3, len(errors) + 3))
    rows = await store.database.fetch(
        f"""SELECT f.chunk_id, f.pi, f.filename FROM ({_FAILED}) AS f
WHERE f.error IN ({marks}) ORDER BY f.id LIMIT {MOST_EXAMPLES}""",
        batch_id, str.__str__(Message("batch.not_published")), *errors,
    )  # fmt: skip
    return [FailedRefExample(chunk_id=row["chunk_id"], pi=row["pi"], filename=row["filename"]) for row in rows]
