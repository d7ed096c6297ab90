"""Numbers for people: what review costs, where readings are wrong, and whether deadlines hold."""

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

#: Whose a field is.
_DECIDED = "coalesce(CASE WHEN f.manually_corrected THEN f.corrected_by END, r.reviewer)"


class Spread(Answer):
    """Mean and median of the recorded values; null if none."""

    mean: float | None
    median: float | None
    sum: float | None


class Sums(Answer):
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


class PersonSums(Sums):
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
    totals: Sums
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
    """What is known of one person, or of everybody."""

    ended: list[_Ended] = field(default_factory=list)
    judged: list[_Judged] = field(default_factory=list)
    spent: list[_Spent] = field(default_factory=list)
    late: int = 0


async def numbers(store: Store, since: float, until: float) -> Numbers:
    """What was finished between two times, in seconds since 1970: per person, per field, and in all.

    What counts is an item's last ending; documents that were deleted since do not count. A field is whose word on it
    was the last: who corrected it, else who finished the item. Time is everybody's own, also of what was opened again.
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
    told: dict[str, _Facts] = defaultdict(_Facts)
    for row in ended:
        told[row["reviewer"] or ""].ended.append(row)
    for one in judged:
        told[one["person"] or ""].judged.append(one)
    for row in spent:
        told[row["actor"]].spent.append(row)
    for row in late:
        if row["person"] is not None:  # what is nobody's is late all the same
            told[row["person"]].late += row["late"]
    people: list[PersonSums] = [{**_summarise(its), "name": name} for name, its in sorted(told.items())]
    everybody = _Facts([*ended], [*judged], [*ended], sum(row["late"] for row in late))
    return {
        "since": iso(since), "until": iso(until), "people": people, "totals": _summarise(everybody),
        "fields": _fields(judged),
    }  # fmt: skip


async def _late(store: Store, since: float, until: float) -> list[Any]:
    """How many items were due between two times and are open still, by who has them or is to."""
    whose = "coalesce(CASE WHEN r.status = 'in_review' THEN r.reviewer END, r.assigned_to)"
    return await store.database.fetch(
        f"""SELECT {whose} AS person, count(*) AS late FROM tabellion_review_items AS r
WHERE r.status IN ('pending', 'in_review') AND {_within(store.dialect, "r.due_at")} AND r.due_at < {NOW}
GROUP BY {whose}""",
        since, until,
    )  # fmt: skip


async def _fetch_spent(store: Store, since: float, until: float) -> list[Any]:
    """What each ending took whoever ended; an item that was opened again has several."""
    noted = (
        "CAST(a.body AS json)->>'{0}' AS {0}"
        if store.dialect == "postgresql"
        else "json_extract(a.body, '$.{0}') AS {0}"
    )
    # The trail's times are texts: what is cut off their ends sorts before them.
    first, last = (str(iso(moment)).removesuffix("Z") for moment in (since, until))
    return await store.database.fetch(
        f"""SELECT a.actor, {noted.format("seconds")}, {noted.format("keystrokes")}
FROM tabellion_review_items AS r JOIN tabellion_audit_log AS a ON a.item_id = r.id
WHERE {_within(store.dialect)} AND r.status IN {ENDINGS} AND a.action IN ('approved', 'rejected')
  AND a.at >= $3 AND a.at < $4""",
        since, until, first, last,
    )  # fmt: skip


def _within(dialect: Dialect, column: str = "r.finished_at") -> str:
    first, last = ("to_timestamp($1::float8)", "to_timestamp($2::float8)") if dialect == "postgresql" else ("$1", "$2")
    return f"{column} >= {first} AND {column} < {last}"


def _summarise(told: _Facts) -> Sums:
    ended, judged = told.ended, told.judged
    seen = sum(row["seen"] for row in judged)
    corrections: dict[str, int] = defaultdict(int)
    for row in judged:
        corrections[row["name"]] += row["corrected"]
    changed = sum(corrections.values())
    endings = Counter(row["status"] for row in ended)
    return {
        "documents": len(ended), "approved": endings["approved"], "corrected": endings["corrected"],
        "rejected": endings["rejected"], "seconds": _spread(row["seconds"] for row in told.spent),
        "keystrokes": _spread(row["keystrokes"] for row in told.spent),
        "fields": seen, "corrections": {name: count for name, count in sorted(corrections.items()) if count},
        "agreement": _share(seen - changed, seen),
        "in_time": _share(sum(row["in_time"] for row in ended), len(ended) + told.late), "overdue": told.late,
    }  # fmt: skip


def _spread(values: Iterable[float | None]) -> Spread:
    """Mean, median and sum of what was noted; who does not tell does not count."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return {"mean": None, "median": None, "sum": None}
    return {"mean": round(fmean(known), 2), "median": round(median(known), 2), "sum": round(sum(known), 2)}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _fields(judged: Sequence[_Judged]) -> list[FieldSums]:
    seen: dict[str, int] = defaultdict(int)
    corrected: dict[str, int] = defaultdict(int)
    for row in judged:
        seen[row["name"]] += row["seen"]
        corrected[row["name"]] += row["corrected"]
    made: list[FieldSums] = [
        {"name": name, "seen": seen[name], "corrected": corrected[name], "share": _share(corrected[name], seen[name])}
        for name in seen
    ]
    return sorted(made, key=lambda one: (-(one["share"] or 0), one["name"]))


def per_person(told: Numbers) -> str:
    """The numbers of people as CSV, everybody together last."""
    rows = [
        [
            name, one["documents"], one["approved"], one["corrected"], one["rejected"], one["seconds"]["mean"],
            one["seconds"]["median"], one["keystrokes"]["mean"], one["keystrokes"]["median"], one["fields"],
            sum(one["corrections"].values()), one["agreement"], one["in_time"],
            one["overdue"],
        ]
        for name, one in _by_name(told)
    ]  # fmt: skip
    return _csv(PERSON_COLUMNS, rows)


def _by_name(told: Numbers) -> list[tuple[str, Sums]]:
    return [*((one["name"], one) for one in told["people"]), (EVERYBODY, told["totals"])]


def per_field(told: Numbers) -> str:
    """The numbers of fields as CSV, those corrected most first."""
    rows = [[one["name"], one["seen"], one["corrected"], one["share"]] for one in told["fields"]]
    return _csv(FIELD_COLUMNS, rows)


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return written.getvalue()


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
