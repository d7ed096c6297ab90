"""Numbers for people: what review costs, where readings are wrong, and whether deadlines hold."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.pipelines.documents.review.queue import ENDINGS

Row = Mapping[str, Any]
PERSON_COLUMNS = (
    "person", "documents", "approved", "corrected", "rejected", "seconds_mean", "seconds_median", "keystrokes_mean",
    "keystrokes_median", "fields", "corrections", "agreement", "in_time", "overdue",
)  # fmt: skip
FIELD_COLUMNS = ("field", "seen", "corrected", "share")
EVERYBODY = "(everybody)"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


#: Whose a field is.
_DECIDED = "coalesce(CASE WHEN f.manually_corrected THEN f.corrected_by END, r.reviewer)"


@dataclass(slots=True)
class _Told:
    """What is known of one person, or of everybody."""

    ended: list[Row] = field(default_factory=list)
    judged: list[Row] = field(default_factory=list)
    spent: list[Row] = field(default_factory=list)
    late: int = 0


async def numbers(store: Store, since: float, until: float) -> dict[str, Any]:
    """What was finished between two times, in seconds since 1970: per person, per field, and in all.

    What counts is an item's last ending; documents that were deleted since do not count. A field is whose word on it
    was the last: who corrected it, else who finished the item. Time is everybody's own, also of what was opened again.
    """
    ended = await store.database.fetch(
        f"""SELECT r.reviewer, r.status, r.seconds, r.keystrokes,
  CASE WHEN r.finished_at <= r.due_at THEN 1 ELSE 0 END AS in_time
FROM tabellion_review_items AS r WHERE {_within(store.dialect)} AND r.status IN {ENDINGS}""",
        since, until,
    )  # fmt: skip
    judged = await store.database.fetch(
        f"""SELECT {_DECIDED} AS person, f.name, count(*) AS seen,
  count(*) FILTER (WHERE f.manually_corrected) AS corrected
FROM tabellion_review_items AS r JOIN tabellion_extracted_fields AS f ON f.document_id = r.document_id
WHERE {_within(store.dialect)} AND r.status IN ('approved', 'corrected') GROUP BY {_DECIDED}, f.name""",
        since, until,
    )  # fmt: skip
    late = await _late(store, since, until)
    spent = await _spent(store, since, until)
    told: dict[str, _Told] = defaultdict(_Told)
    for row in ended:
        told[row["reviewer"] or ""].ended.append(row)
    for row in judged:
        told[row["person"] or ""].judged.append(row)
    for row in spent:
        told[row["actor"]].spent.append(row)
    for row in late:
        if row["person"] is not None:  # what is nobody's is late all the same
            told[row["person"]].late += row["late"]
    people = [{"name": name} | _summed(one) for name, one in sorted(told.items())]
    everybody = _Told([*ended], [*judged], [*ended], sum(row["late"] for row in late))
    return {
        "since": iso(since), "until": iso(until), "people": people, "totals": _summed(everybody),
        "fields": _fields(judged),
    }  # fmt: skip


async def _late(store: Store, since: float, until: float) -> list[dict[str, Any]]:
    """How many items were due between two times and are open still, by who has them or is to."""
    whose = "coalesce(CASE WHEN r.status = 'in_review' THEN r.reviewer END, r.assigned_to)"
    return await store.database.fetch(
        f"""SELECT {whose} AS person, count(*) AS late FROM tabellion_review_items AS r
WHERE r.status IN ('pending', 'in_review') AND {_within(store.dialect, "r.due_at")} AND r.due_at < {NOW}
GROUP BY {whose}""",
        since, until,
    )  # fmt: skip


async def _spent(store: Store, since: float, until: float) -> list[dict[str, Any]]:
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


def _summed(told: _Told) -> dict[str, Any]:
    ended, judged = told.ended, told.judged
    seen = sum(row["seen"] for row in judged)
    corrections: dict[str, int] = defaultdict(int)
    for row in judged:
        corrections[row["name"]] += row["corrected"]
    changed = sum(corrections.values())
    return {
        "documents": len(ended),
        **{ending: sum(row["status"] == ending for row in ended) for ending in ENDINGS},
        "seconds": _spread(row["seconds"] for row in told.spent),
        "keystrokes": _spread(row["keystrokes"] for row in told.spent),
        "fields": seen, "corrections": {name: count for name, count in sorted(corrections.items()) if count},
        "agreement": _share(seen - changed, seen),
        "in_time": _share(sum(row["in_time"] for row in ended), len(ended) + told.late), "overdue": told.late,
    }  # fmt: skip


def _spread(values: Iterable[float | None]) -> dict[str, float | None]:
    """Mean, median and sum of what was noted; who does not tell does not count."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return {"mean": None, "median": None, "sum": None}
    return {"mean": round(fmean(known), 2), "median": round(median(known), 2), "sum": round(sum(known), 2)}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _fields(judged: Sequence[Row]) -> list[dict[str, Any]]:
    seen: dict[str, int] = defaultdict(int)
    corrected: dict[str, int] = defaultdict(int)
    for row in judged:
        seen[row["name"]] += row["seen"]
        corrected[row["name"]] += row["corrected"]
    made = [
        {"name": name, "seen": seen[name], "corrected": corrected[name], "share": _share(corrected[name], seen[name])}
        for name in seen
    ]
    return sorted(made, key=lambda one: (-(one["share"] or 0), one["name"]))


def per_person(told: Mapping[str, Any]) -> str:
    """The numbers of people as CSV, everybody together last."""
    rows = [
        [
            name, one["documents"], one["approved"], one["corrected"], one["rejected"], one["seconds"]["mean"],
            one["seconds"]["median"], one["keystrokes"]["mean"], one["keystrokes"]["median"], one["fields"],
            sum(one["corrections"].values()), one["agreement"], one["in_time"],
            one["overdue"],
        ]
        for name, one in [*((one["name"], one) for one in told["people"]), (EVERYBODY, told["totals"])]
    ]  # fmt: skip
    return _csv(PERSON_COLUMNS, rows)


def per_field(told: Mapping[str, Any]) -> str:
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
