"""Numbers for people: what review costs, where readings are wrong, and whether deadlines hold."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store
from tabellion.review.items import iso
from tabellion.review.queue import ENDINGS

Row = Mapping[str, Any]
PERSON_COLUMNS = (
    "person", "documents", "approved", "corrected", "rejected", "seconds_mean", "seconds_median", "keystrokes_mean",
    "keystrokes_median", "fields", "corrections", "agreement", "in_time",
)  # fmt: skip
FIELD_COLUMNS = ("field", "seen", "corrected", "share")
EVERYBODY = "(everybody)"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


async def numbers(store: Store, since: float, until: float) -> dict[str, Any]:
    """What was finished between two times, in seconds since 1970: per person, per field, and in all.

    What counts is an item's last ending; documents that were deleted since do not count.
    """
    ended = await store.database.fetch(
        f"""SELECT r.reviewer, r.status, r.seconds, r.keystrokes,
  CASE WHEN r.finished_at <= r.due_at THEN 1 ELSE 0 END AS in_time
FROM review_items AS r WHERE {_within(store.dialect)} AND r.status IN {ENDINGS}""",
        since, until,
    )  # fmt: skip
    judged = await store.database.fetch(
        f"""SELECT r.reviewer, f.name, count(*) AS seen, count(*) FILTER (WHERE f.manually_corrected) AS corrected
FROM review_items AS r JOIN extracted_fields AS f ON f.document_id = r.document_id
WHERE {_within(store.dialect)} AND r.status IN ('approved', 'corrected') GROUP BY r.reviewer, f.name""",
        since, until,
    )  # fmt: skip
    by_person: dict[str, list[Row]] = defaultdict(list)
    for row in ended:
        by_person[row["reviewer"] or ""].append(row)
    people = [
        {"name": name} | _summed(rows, [one for one in judged if (one["reviewer"] or "") == name])
        for name, rows in sorted(by_person.items())
    ]
    return {
        "since": iso(since), "until": iso(until), "people": people, "totals": _summed(ended, judged),
        "fields": _fields(judged),
    }  # fmt: skip


def _within(dialect: Dialect) -> str:
    first, last = ("to_timestamp($1::float8)", "to_timestamp($2::float8)") if dialect == "postgresql" else ("$1", "$2")
    return f"r.finished_at >= {first} AND r.finished_at < {last}"


def _summed(ended: Sequence[Row], judged: Sequence[Row]) -> dict[str, Any]:
    seen = sum(row["seen"] for row in judged)
    corrections: dict[str, int] = defaultdict(int)
    for row in judged:
        corrections[row["name"]] += row["corrected"]
    changed = sum(corrections.values())
    return {
        "documents": len(ended),
        **{ending: sum(row["status"] == ending for row in ended) for ending in ENDINGS},
        "seconds": _spread(row["seconds"] for row in ended),
        "keystrokes": _spread(row["keystrokes"] for row in ended),
        "fields": seen, "corrections": {name: count for name, count in sorted(corrections.items()) if count},
        "agreement": _share(seen - changed, seen), "in_time": _share(sum(row["in_time"] for row in ended), len(ended)),
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
