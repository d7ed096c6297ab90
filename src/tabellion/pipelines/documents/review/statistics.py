"""Review statistics: effort, corrections by field, and deadlines."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Annotated, Any, TypedDict

from tabellion.answers import Answer, Doc
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.pipelines.documents.review.queue import ENDINGS, Ending

PERSON_COLUMNS = (
    "person", "documents", "approved", "corrected", "rejected", "seconds_mean", "seconds_median", "keystrokes_mean",
    "keystrokes_median", "fields", "corrections", "agreement", "in_time", "overdue",
)  # fmt: skip
FIELD_COLUMNS = ("field", "seen", "corrected", "share")
EVERYBODY = "(everybody)"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")

#: The person that a field counts for.
_DECIDED = "coalesce(CASE WHEN f.manually_corrected THEN f.corrected_by END, r.reviewer)"


class Spread(Answer):
    """Mean and median of the recorded values; null if none."""

    mean: float | None
    median: float | None
    sum: float | None


class ReviewTotals(Answer):
    """Finished items, the effort and the outcomes."""

    documents: int
    approved: int
    corrected: int
    rejected: int
    seconds: Spread
    keystrokes: Spread
    fields: Annotated[
        int, Doc("Fields of documents that were not rejected; each counts for who corrected, or else finished it.")
    ]
    corrections: Annotated[dict[str, int], Doc("How many of them were corrected, by field name.")]
    agreement: Annotated[float | None, Doc("The share of fields left unchanged.")]
    in_time: Annotated[
        float | None,
        Doc("The share finished on time, of finished items and overdue open items."),
    ]
    overdue: Annotated[int, Doc("Items that were due in the period and are still open.")]


class PersonSums(ReviewTotals):
    """The same of one person."""

    name: str


class FieldSums(Answer):
    """How often a field was corrected."""

    name: str
    seen: int
    corrected: int
    share: float | None


class Numbers(Answer):
    """Review statistics of a period."""

    since: str
    until: str
    people: list[PersonSums]
    totals: ReviewTotals
    fields: list[FieldSums]


class _Spent(TypedDict):
    seconds: float | None
    keystrokes: int | None


class _Ended(_Spent):
    reviewer: str | None
    status: Ending
    in_time: int


class _Judged(TypedDict):
    person: str | None
    name: str
    seen: int
    corrected: int


@dataclass(slots=True)
class _Facts:
    """The rows of one person, or of everybody."""

    ended: list[_Ended] = field(default_factory=list)
    judged: list[_Judged] = field(default_factory=list)
    spent: list[_Spent] = field(default_factory=list)
    late: int = 0


async def numbers(store: Store, since: float, until: float) -> Numbers:
    """What was finished between two times, in seconds since 1970: per person, per field, and in total.

    An item counts with its last ending; deleted documents do not count. A field counts for the person who corrected it,
    else for the one who finished the item. Time counts for each person, also on items that were reopened.
    """
    ended: list[_Ended] = await store.database.fetch(
        f"""SELECT r.reviewer, r.status, r.seconds, r.keystrokes,
  CASE WHEN r.finished_at <= r.due_at THEN 1 ELSE 0 END AS in_time
FROM tabellion_review_items AS r WHERE {_within(store.dialect)} AND r.status IN {ENDINGS}""",
        since, until,
    )  # fmt: skip
    judged: list[_Judged] = await store.database.fetch(
        f"""SELECT {_DECIDED} AS person, f.name, count(*) AS seen,
  count(*) FILTER (WHERE f.manually_corrected) AS corrected
FROM tabellion_review_items AS r JOIN tabellion_extracted_fields AS f ON f.document_id = r.document_id
WHERE {_within(store.dialect)} AND r.status IN ('approved', 'corrected') GROUP BY {_DECIDED}, f.name""",
        since, until,
    )  # fmt: skip
    late = await _late(store, since, until)
    spent = await _fetch_spent(store, since, until)
    facts: dict[str, _Facts] = defaultdict(_Facts)
    for row in ended:
        facts[row["reviewer"] or ""].ended.append(row)
    for field_row in judged:
        facts[field_row["person"] or ""].judged.append(field_row)
    for row in spent:
        facts[row["actor"]].spent.append(row)
    for row in late:
        if row["person"] is not None:  # unassigned items only count in the total
            facts[row["person"]].late += row["late"]
    people: list[PersonSums] = [
        {**_summarise(person_facts), "name": name} for name, person_facts in sorted(facts.items())
    ]
    everybody = _Facts([*ended], [*judged], [*ended], sum(row["late"] for row in late))
    return {
        "since": iso(since), "until": iso(until), "people": people, "totals": _summarise(everybody),
        "fields": _fields(judged),
    }  # fmt: skip


async def _late(store: Store, since: float, until: float) -> list[Any]:
    """How many items were due between two times and are still open, by holder or assignee."""
    person = "coalesce(CASE WHEN r.status = 'in_review' THEN r.reviewer END, r.assigned_to)"
    return await store.database.fetch(
        f"""SELECT {person} AS person, count(*) AS late FROM tabellion_review_items AS r
WHERE r.status IN ('pending', 'in_review') AND {_within(store.dialect, "r.due_at")} AND r.due_at < {NOW}
GROUP BY {person}""",
        since, until,
    )  # fmt: skip


async def _fetch_spent(store: Store, since: float, until: float) -> list[Any]:
    """The effort of each ending, by person; a reopened item has several."""
    extract = (
        "CAST(a.body AS json)->>'{0}' AS {0}"
        if store.dialect == "postgresql"
        else "json_extract(a.body, '$.{0}') AS {0}"
    )
    # Times in the audit log are texts: without the Z, a bound sorts before all times that start with it.
    first, last = (str(iso(moment)).removesuffix("Z") for moment in (since, until))
    return await store.database.fetch(
        f"""SELECT a.actor, {extract.format("seconds")}, {extract.format("keystrokes")}
FROM tabellion_review_items AS r JOIN tabellion_audit_log AS a ON a.item_id = r.id
WHERE {_within(store.dialect)} AND r.status IN {ENDINGS} AND a.action IN ('approved', 'rejected')
  AND a.at >= $3 AND a.at < $4""",
        since, until, first, last,
    )  # fmt: skip


def _within(dialect: Dialect, column: str = "r.finished_at") -> str:
    first, last = ("to_timestamp($1::float8)", "to_timestamp($2::float8)") if dialect == "postgresql" else ("$1", "$2")
    return f"{column} >= {first} AND {column} < {last}"


def _summarise(facts: _Facts) -> ReviewTotals:
    ended, judged = facts.ended, facts.judged
    field_count = sum(row["seen"] for row in judged)
    corrections: dict[str, int] = defaultdict(int)
    for row in judged:
        corrections[row["name"]] += row["corrected"]
    changed = sum(corrections.values())
    endings = Counter(row["status"] for row in ended)
    return {
        "documents": len(ended), "approved": endings["approved"], "corrected": endings["corrected"],
        "rejected": endings["rejected"], "seconds": _spread(row["seconds"] for row in facts.spent),
        "keystrokes": _spread(row["keystrokes"] for row in facts.spent),
        "fields": field_count, "corrections": {name: count for name, count in sorted(corrections.items()) if count},
        "agreement": _share(field_count - changed, field_count),
        "in_time": _share(sum(row["in_time"] for row in ended), len(ended) + facts.late), "overdue": facts.late,
    }  # fmt: skip


def _spread(values: Iterable[float | None]) -> Spread:
    """Mean, median and sum of the recorded values; missing ones do not count."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return {"mean": None, "median": None, "sum": None}
    return {"mean": round(fmean(known), 2), "median": round(median(known), 2), "sum": round(sum(known), 2)}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _fields(judged: Sequence[_Judged]) -> list[FieldSums]:
    totals: dict[str, int] = defaultdict(int)
    corrected: dict[str, int] = defaultdict(int)
    for row in judged:
        totals[row["name"]] += row["seen"]
        corrected[row["name"]] += row["corrected"]
    sums: list[FieldSums] = [
        {
            "name": name,
            "seen": totals[name],
            "corrected": corrected[name],
            "share": _share(corrected[name], totals[name]),
        }
        for name in totals
    ]
    return sorted(sums, key=lambda field_sums: (-(field_sums["share"] or 0), field_sums["name"]))


def per_person(statistics: Numbers) -> str:
    """The statistics of people as CSV, the totals last."""
    named = [(person["name"], person) for person in statistics["people"]]
    rows = [
        [
            name, sums["documents"], sums["approved"], sums["corrected"], sums["rejected"], sums["seconds"]["mean"],
            sums["seconds"]["median"], sums["keystrokes"]["mean"], sums["keystrokes"]["median"], sums["fields"],
            sum(sums["corrections"].values()), sums["agreement"], sums["in_time"],
            sums["overdue"],
        ]
        for name, sums in (*named, (EVERYBODY, statistics["totals"]))
    ]  # fmt: skip
    return _csv(PERSON_COLUMNS, rows)


def per_field(statistics: Numbers) -> str:
    """The statistics of fields as CSV, most corrected first."""
    rows = [
        [field_sums["name"], field_sums["seen"], field_sums["corrected"], field_sums["share"]]
        for field_sums in statistics["fields"]
    ]
    return _csv(FIELD_COLUMNS, rows)


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    """A cell, quoted if a spreadsheet would take it for a formula."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
