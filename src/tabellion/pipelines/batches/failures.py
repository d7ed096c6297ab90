"""Groups the failed refs of a batch by their error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from tabellion.answers import Answer, Doc
from tabellion.messages import Message, Translatable, translatable
from tabellion.monitor.fingerprint import shape
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.error_forms import (
    AttemptedRow,
    ErrorForm,
    kind,
    marks,
    read_forms,
    split_error,
    stored_form,
)
from tabellion.pipelines.batches.states import (
    ENDED,
    FETCHING_QUEUE,
    PUBLISHING_QUEUE,
    REF_STATUS,
    REFS_QUEUE,
    REPORTED_CODE,
    REPORTED_PARAMS,
    RefStatus,
    quote_list,
)

if TYPE_CHECKING:
    from tabellion.engine.store import Store

MOST_ERRORS = 50
MOST_EXAMPLES = 5  #: refs that are shown for an error
MOST_TEXTS = 2000  #: different texts of errors that are grouped, the most frequent ones
PLACES_AT_ONCE = 400  #: rows whose attempts one statement reads


class FailedRefExample(Answer):
    """One of the refs with an error."""

    chunk_id: str
    pi: str
    filename: str


class RefError(Answer):
    """An error, and the refs that have it: those with the same code are one error, and texts without a code that
    differ only in numbers, ids and paths."""

    error: Annotated[str, Doc("The most frequent text.")]
    translatable: NotRequired[Translatable]
    refs: int
    examples: list[FailedRefExample]


async def failed_refs(store: Store, batch_id: str) -> list[RefError]:
    """The errors of a batch's refs, the most frequent first. As in its progress, what was not published has failed:
    with the error of its entity or chunk, if it has none of its own."""
    rows: list[_Failed] = await store.database.fetch(
        f"""SELECT f.error, f.error_code, min(f.error_params) AS error_params, f.queue, min(f.key) AS key, count(*) AS n
FROM ({_FAILED}) AS f
GROUP BY f.error, f.error_code, f.queue ORDER BY count(*) DESC, min(f.id) LIMIT {MOST_TEXTS}""",
        batch_id, *_not_published(),
    )  # fmt: skip
    groups = (await _group(store, rows))[:MOST_ERRORS]
    return [
        RefError(
            error=group[0][0]["error"], refs=sum(row["n"] for row, _ in group),
            examples=await _examples(store, batch_id, [row["error"] for row, _ in group[:MOST_EXAMPLES]]),
            **translatable(error=Message.from_stored(group[0][0]["error"], group[0][1])),
        )
        for group in groups
    ]  # fmt: skip


class _Failed(TypedDict):
    """Refs with the same error."""

    error: str
    error_code: str | None
    error_params: str | None
    queue: str  #: whose attempts have its code until the chunk has ended; empty for entities
    key: str  #: of one of their rows there
    n: int


async def _group(store: Store, rows: Sequence[_Failed]) -> list[list[tuple[_Failed, ErrorForm | None]]]:
    """Errors of the same kind with their forms, the most frequent kind first."""
    forms = [stored_form(row["error"], row["error_code"], row["error_params"]) for row in rows]
    # Of texts without a code that have one shape, the most frequent one is looked up: their kind is the same.
    first: dict[tuple[str, str], AttemptedRow] = {}
    for row, known in zip(rows, forms, strict=True):
        if not known and row["queue"]:
            first.setdefault((row["queue"], shape(row["error"])), (row["queue"], row["key"]))
    found, places = dict[AttemptedRow, ErrorForm](), list(first.values())
    for start in range(0, len(places), PLACES_AT_ONCE):
        found |= await read_forms(store.database.fetch, places[start : start + PLACES_AT_ONCE])
    kinds: list[str] = []
    coded: dict[str, str] = {}  # the kind of each shape that has a code in some row
    for row, known in zip(rows, forms, strict=True):
        alike = shape(row["error"])
        similar = known or found.get(first.get((row["queue"], alike), ("", "")))
        kinds.append(kind(row["error"], similar))
        if similar:
            coded[alike] = kinds[-1]
    groups: dict[str, list[tuple[_Failed, ErrorForm | None]]] = {}
    for row, known, own in zip(rows, forms, kinds, strict=True):
        # A text that was stored with a code, and without one by an earlier version, is one error.
        groups.setdefault(coded.get(own, own), []).append((row, known or found.get((row["queue"], row["key"]))))
    return sorted(groups.values(), key=lambda group: -sum(row["n"] for row, _ in group))


def _choose(ref: str, pi: str, chunk: str, none: str) -> str:
    """The column of the error that a failed ref has: its own, of its entity, or of its chunk."""
    return f"""CASE WHEN r.error <> '' THEN {ref} WHEN p.entity_error IS NOT NULL THEN {pi}
    WHEN c.publishing_error IS NOT NULL OR c.fetching_error IS NOT NULL THEN {chunk} ELSE {none} END"""


#: The failed refs of a batch ($1) with their errors ($2 and its code $3 if there is none). Of chunks without failures
#: no ref is read. The code of a chunk's error is in its row when its end was reported.
_FAILED = "\nUNION ALL ".join(
    f"""SELECT r.id, r.filename, c.chunk_id, p.pi,
  coalesce(nullif(r.error, ''), p.entity_error, c.publishing_error, c.fetching_error, CAST($2 AS text)) AS error,
  {_choose("r.error_code", "p.error_code", REPORTED_CODE, "CAST($3 AS text)")} AS error_code,
  {_choose("r.error_params", "p.error_params", REPORTED_PARAMS, "NULL")} AS error_params,
  CASE WHEN r.error <> '' THEN '{REFS_QUEUE}' WHEN p.entity_error IS NOT NULL THEN ''
    WHEN c.publishing_error IS NOT NULL THEN '{PUBLISHING_QUEUE}'
    ELSE '{FETCHING_QUEUE}' END AS queue,
  CASE WHEN r.error <> '' THEN r.id ELSE c.id END AS key
FROM {tables.CHUNKS} AS c JOIN {tables.REFS} AS r ON r.chunk = c.id
JOIN {tables.PIS} AS p ON p.chunk = r.chunk AND p.position = r.pi_position
WHERE c.batch_id = $1 AND {which}"""
    for which in (
        f"c.phase NOT IN ({quote_list(ENDED)}) AND r.status = '{RefStatus.ERROR}'",
        f"""c.phase IN ({quote_list(ENDED)}) AND coalesce(c.failed_refs, 1) > 0
  AND {REF_STATUS} = '{RefStatus.ERROR}'""",
    )
)


async def _examples(store: Store, batch_id: str, errors: Sequence[str]) -> list[FailedRefExample]:
    """Some of the refs with one of these errors."""
    rows = await store.database.fetch(
        f"""SELECT f.chunk_id, f.pi, f.filename FROM ({_FAILED}) AS f
WHERE f.error IN ({marks(4, len(errors))}) ORDER BY f.id LIMIT {MOST_EXAMPLES}""",
        batch_id, *_not_published(), *errors,
    )  # fmt: skip
    return [FailedRefExample(chunk_id=row["chunk_id"], pi=row["pi"], filename=row["filename"]) for row in rows]


def _not_published() -> tuple[str, str | None]:
    return split_error(Message("batch.not_published"))[:2]
