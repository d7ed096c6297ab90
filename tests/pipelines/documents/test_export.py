"""Exports: ranges, corrected values, typed columns, no formulas, bounded memory."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion import Store
from tabellion.errors import NotMigrated
from tabellion.pipelines.documents import export as exporting
from tabellion.pipelines.documents import export_formats as sheets
from tabellion.pipelines.documents.export import Exported, Range, export, moment_of
from tabellion.pipelines.documents.export_formats import CSV_OWN, Format, ToFile, ToStream, escape_formula
from tabellion.reading.types.doctype import DocumentType
from tests.pipelines.documents.results import LEASE, lease
from tests.pipelines.documents.rows import DAY, insert


def types(name: str) -> DocumentType | None:
    """The types of these tests."""
    return lease() if name == "lease" else None


def export_bytes(url: str, format: Format, **options: Any) -> tuple[bytes, Exported]:  # noqa: A002
    """Return an export's bytes and its report."""
    stream = io.BytesIO()

    async def run() -> Exported:
        async with Store(url) as store:
            return await export(store, format, ToStream(stream), **{"types": types, **options})

    done = asyncio.run(run())
    return stream.getvalue(), done


def table(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def ids(data: bytes) -> list[str]:
    return [json.loads(line)["id"] for line in data.splitlines()]


def test_every_format_has_the_same_documents(url: str) -> None:
    """The oldest first, with the current values of the fields, typed."""
    insert(
        url,
        {"id": "02", "fields": {"tenant": "Zoë", "rent": "-1250.50", "begins": "2024-02-29", "rooms": [{"name": "a"}]},
         "locked": ["rent"], "review": "corrected"},
        {"id": "01", "fields": {"tenant": "A, \"B\"\nC", "furnished": True}},
        {"id": "03", "status": "failed", "error": '{"code": "pdf_damaged", "message": "broken"}'},
    )  # fmt: skip
    data, done = export_bytes(url, "csv")
    assert (done.documents, done.failed) == (2, 0)
    first, second = table(data)
    assert data.decode().splitlines()[0] == ",".join([*CSV_OWN, *(spec.name for spec in lease().fields)])
    assert (first["id"], first["tenant"], first["furnished"], first["rent"]) == ("01", 'A, "B"\nC', "true", "")
    assert (second["tenant"], second["rent"], second["begins"]) == ("Zoë", "-1250.50", "2024-02-29")
    assert (second["rooms"], second["reviewed"], second["pages"]) == ('[{"name": "a"}]', "true", "2")
    assert (first["review"], second["review"]) == ("", "corrected")
    assert (second["type_version"], second["created_at"]) == ("1", "2024-02-28T12:00:00.000000Z")

    data, _ = export_bytes(url, "jsonl")
    body = [json.loads(line) for line in data.splitlines()]
    assert [one["id"] for one in body] == ["01", "02"]
    assert body[1]["fields"]["rent"]["locked"] is True
    assert (body[1]["locked"], body[1]["review"], body[1]["notes"]) == (["rent"], "corrected", ["n"])

    data, _ = export_bytes(url, "parquet")
    found = pq.read_table(io.BytesIO(data))
    assert found.schema.field("rent").type == pa.decimal128(18, 4)
    assert found.column("rent").to_pylist() == [None, Decimal("-1250.5")]
    assert found.column("begins").to_pylist() == [None, date(2024, 2, 29)]
    assert found.column("locked").to_pylist() == [[], ["rent"]]


def test_corrected_values_are_exported(url: str) -> None:
    """The table of fields counts, not the reading."""
    insert(url, {"id": "01", "fields": {"rent": "1.00"}})

    async def correct() -> None:
        async with Store(url) as store:
            await store.database.fetch("UPDATE tabellion_extracted_fields SET value = $1, locked = TRUE", '"2.00"')

    asyncio.run(correct())
    assert table(export_bytes(url, "csv")[0])[0]["rent"] == "2.00"
    [row] = pq.read_table(io.BytesIO(export_bytes(url, "parquet")[0])).to_pylist()
    assert (row["rent"], row["locked"]) == (2, ["rent"])


def test_a_range_is_days_in_utc(url: str) -> None:
    """The first moment is included, the last is not; an end day is."""
    day = 86_400
    insert(url, *({"id": f"0{n}", "created_at": moment_of("2024-02-28") + n * day / 2} for n in range(5)))

    def between(since: str | None, until: str | None) -> list[str]:
        wanted = Range(
            None if since is None else moment_of(since), None if until is None else moment_of(until, end=True)
        )
        return ids(export_bytes(url, "jsonl", range=wanted)[0])

    assert between("2024-02-29", None) == ["02", "03", "04"]
    assert between(None, "2024-02-28") == ["00", "01"]
    assert between("2024-02-28T12:00:00Z", "2024-02-29T00:00:00+00:00") == ["01"]
    assert between("2024-02-28T13:00:00+01:00", "2024-02-29") == ["01", "02", "03"]
    assert between("2024-03-02", None) == []


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2024-02-30", "2024-13-01", "29.02.2024", "1709164799", "2024-02-28T25:00"]
)
def test_an_invalid_day_is_rejected(text: str) -> None:
    """With an example of a valid one."""
    with pytest.raises(ValueError, match="2024-02-29"):
        moment_of(text)


def test_a_range_is_ordered_by_time_and_complete(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order of arrival, whatever their ids, even with many at one moment."""
    monkeypatch.setattr(exporting, "BATCH", 2)
    moments = [DAY + 2e-6, DAY + 1e-6, DAY + 1e-6, DAY + 1e-6, DAY + 1e-6, DAY + 1e-6, DAY, DAY + 90_000]
    insert(url, *({"id": f"{number:02}", "created_at": moment} for number, moment in enumerate(moments)))
    data, done = export_bytes(url, "jsonl", range=Range(since=DAY, until=DAY + 86_400))
    assert ids(data) == ["06", "01", "02", "03", "04", "05", "00"]
    assert done.documents == 7
    assert ids(export_bytes(url, "jsonl")[0]) == [f"{number:02}" for number in range(8)]


def test_a_range_uses_the_index(sqlite_url: str) -> None:
    """A day of a large table does not scan the table."""
    insert(sqlite_url, {"id": "01"})

    async def plan() -> str:
        async with Store(sqlite_url) as store:
            where, values = exporting._condition(store, Range(since=DAY, until=DAY + 1))
            text = exporting._page("sqlite", where, len(values), True, first=False)
            rows = await store.database.fetch(f"EXPLAIN QUERY PLAN {text}", *values, "zz", "", 0.0)
        return "\n".join(str(row["detail"]) for row in rows)

    assert "SEARCH d USING INDEX tabellion_documents_created" in asyncio.run(plan())


def test_types_and_statuses_filter_it(url: str) -> None:
    """Each may be repeated; a duplicate has the values of its original."""
    insert(
        url,
        {"id": "01", "fields": {"rent": "5"}},
        {"id": "02", "found_type": "sale", "type_key": "sale/3/ff"},
        {"id": "03", "status": "duplicate", "duplicate_of": "01", "found_type": None, "verdict": None, "result": None},
        {"id": "04", "status": "queued", "found_type": None, "type": "lease"},
    )  # fmt: skip
    assert ids(export_bytes(url, "jsonl", range=Range(types=("lease",)))[0]) == ["01"]
    assert ids(export_bytes(url, "jsonl", range=Range(types=("lease", "sale")))[0]) == ["01", "02"]
    both = Range(types=("lease",), statuses=("completed", "duplicate", "queued"))
    rows = table(export_bytes(url, "csv", range=both)[0])
    assert [(row["id"], row["status"], row["rent"], row["duplicate_of"]) for row in rows] == [
        ("01", "completed", "5", ""), ("03", "duplicate", "5", "01"), ("04", "queued", "", ""),
    ]  # fmt: skip
    columns = pq.read_table(io.BytesIO(export_bytes(url, "parquet", range=both)[0])).to_pydict()
    assert (columns["status"], columns["rent"]) == (["completed", "duplicate", "queued"], [5, 5, None])
    with pytest.raises(ValueError, match="unknown status 'done'"):
        Range(statuses=("done",))


def test_missing_or_conflicting_types_lose_no_document(url: str) -> None:
    """Their fields are text; fields that no type knows have columns too."""
    other = lease(LEASE.replace("name: lease", "name: sale").replace("begins: date", "begins: text"))
    known = {"lease": lease(), "sale": other}
    insert(
        url,
        {"id": "01", "fields": {"begins": "2024-02-29", "rent": "1"}},
        {"id": "02", "found_type": "sale", "fields": {"begins": "some day", "colour": "red"}},
        {"id": "03", "found_type": "gone", "fields": {"rent": "2", "weight": ["a"]}},
    )  # fmt: skip
    found = pq.read_table(io.BytesIO(export_bytes(url, "parquet", types=known.get)[0])).to_pydict()
    assert found["begins"] == ["2024-02-29", "some day", None]
    assert (found["colour"], found["weight"]) == ([None, "red", None], [None, None, '["a"]'])
    assert found["rent"] == [1, None, 2]
    assert [row["colour"] for row in table(export_bytes(url, "csv", types=known.get)[0])] == ["", "red", ""]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_cell_is_a_formula(sqlite_url: str, start: str) -> None:
    """In fields, in file names, in lists; amounts stay numbers."""
    evil = f'{start}HYPERLINK("http://evil")'
    insert(sqlite_url, {"id": "01", "name": evil, "fields": {"tenant": evil, "rent": evil, "rate": "-5"}})
    [row] = table(export_bytes(sqlite_url, "csv")[0])
    assert row["tenant"] == row["name"] == row["rent"] == f"'{evil}"
    assert row["rate"] == "-5"
    assert escape_formula("plain = text") == "plain = text"


def test_amounts_are_numbers_in_csv(sqlite_url: str, tmp_path: Path) -> None:
    """DuckDB reads the column as numbers, signs included."""
    insert(
        sqlite_url,
        *({"id": f"0{n}", "fields": {"rent": text}} for n, text in enumerate(["-12.50", "+3", "1000000.25"])),
    )
    (tmp_path / "a.csv").write_bytes(export_bytes(sqlite_url, "csv")[0])
    with duckdb.connect() as connection:
        [(total,)] = connection.execute(f"SELECT sum(rent) FROM '{tmp_path}/a.csv'").fetchall()
    assert float(total) == 999990.75


def test_a_broken_row_is_reported_and_the_others_exported(url: str) -> None:
    """Someone may have written into the tables by hand."""
    insert(url, {"id": "01"}, {"id": "02", "result": "{broken"}, {"id": "03"})
    data, done = export_bytes(url, "jsonl")
    assert ids(data) == ["01", "03"]
    assert (done.documents, done.failed) == (2, 1)
    assert done.mishaps[0].startswith("02: its row cannot be exported (JSONDecodeError")


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_an_empty_range_is_a_valid_empty_file(url: str, format: Format) -> None:  # noqa: A002
    """With the columns of the requested type."""
    insert(url)
    data, done = export_bytes(url, format, range=Range(types=("lease",)))
    assert done.documents == 0
    if format == "parquet":
        assert "rent" in pq.read_table(io.BytesIO(data)).column_names
        assert pq.read_table(io.BytesIO(export_bytes(url, format)[0])).num_rows == 0
    else:
        assert table(data) == [] if format == "csv" else data == b""


def test_a_database_without_documents_is_reported(sqlite_url: str) -> None:
    """And no tables are created."""
    with pytest.raises(NotMigrated, match="nothing has been submitted"):
        export_bytes(sqlite_url, "csv")


def test_a_file_appears_once_it_is_complete(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the database goes down midway, the old file stays and nothing else is left."""
    insert(url, *({"id": f"{n:04}"} for n in range(6)))
    monkeypatch.setattr(exporting, "BATCH", 2)
    target = tmp_path / "out" / "a.jsonl"

    def run(progress: exporting.Progress | None = None) -> None:
        async def go() -> None:
            async with Store(url) as store:
                await export(store, "jsonl", ToFile(target), types=types, progress=progress)

        asyncio.run(go())

    run()
    before = target.read_bytes()
    seen = []

    def fail(done: int, count: int) -> None:
        seen.append((done, count))
        if done == 4:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        run(fail)
    assert seen == [(2, 6), (4, 6)]
    assert {path.name: path.read_bytes() for path in target.parent.iterdir()} == {"a.jsonl": before}


def test_documents_submitted_meanwhile_are_not_included(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export ends, however many are submitted while it runs."""
    insert(sqlite_url, *({"id": f"{n:04}"} for n in range(4)))
    monkeypatch.setattr(exporting, "BATCH", 2)
    added: list[int] = []

    def more(done: int, count: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        added.append(done)
        with ThreadPoolExecutor(1) as thread:  # the loop of the export is running
            thread.submit(insert, sqlite_url, {"id": f"9{len(added):03}"}).result()

    data, _ = export_bytes(sqlite_url, "jsonl", progress=more)
    assert ids(data) == ["0000", "0001", "0002", "0003"]


class _Counted:
    """A target that only counts, and records peak memory while it is written."""

    def __init__(self) -> None:
        self.bytes, self.most = 0, 0

    def write(self, data: bytes) -> None:
        self.bytes += len(data)
        self.most = max(self.most, tracemalloc.get_traced_memory()[0])

    def finish(self) -> None: ...

    def discard(self) -> None: ...


@pytest.fixture
def traced() -> Iterator[None]:
    """Memory is traced."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_memory_does_not_grow_with_the_range(
    sqlite_url: str, traced: None, format: Format, monkeypatch: pytest.MonkeyPatch  # noqa: A002
) -> None:  # fmt: skip
    """Ten times the documents, the same memory."""
    monkeypatch.setattr(exporting, "BATCH", 20)
    monkeypatch.setattr(sheets, "GROUP", 40)

    def most(count: int) -> tuple[int, int]:
        target = _Counted()

        async def run() -> None:
            async with Store(sqlite_url) as store:
                await export(store, format, target, types=types, range=Range(until=DAY + count))

        asyncio.run(run())
        return target.most, target.bytes

    values: Sequence[str] = [f"{'x' * 4000}{n}" for n in range(600)]
    insert(sqlite_url, *({"id": f"{n:04}", "created_at": DAY + n, "fields": {"tenant": values[n]}} for n in range(600)))
    most(60)  # what is loaded once is loaded
    small, large = most(60), most(600)
    assert large[0] - small[0] < 600_000  # the documents are 2.4 MB of texts
    if format != "parquet":
        assert large[1] > 8 * small[1]


def test_exports_filter_by_review_status(url: str) -> None:
    """`none` needs no review; a started one is pending; rejected documents are separate."""
    reviews = {"01": None, "02": "pending", "03": "in_review", "04": "approved", "05": "corrected", "06": "rejected"}
    insert(url, *({"id": id_, "review": review} for id_, review in reviews.items()))
    asked = {
        ("none",): ["01"], ("pending",): ["02", "03"], ("none", "approved", "corrected"): ["01", "04", "05"],
        ("rejected",): ["06"], (): list(reviews),
    }  # fmt: skip
    for wanted, found in asked.items():
        data, _ = export_bytes(url, "jsonl", range=Range(reviews=wanted))
        assert ids(data) == found
    body = [json.loads(line)["review"] for line in export_bytes(url, "jsonl")[0].splitlines()]
    assert body == [None, "pending", "pending", "approved", "corrected", "rejected"]
    with pytest.raises(ValueError, match="unknown review 'aproved'; known: none, pending"):
        Range(reviews=("aproved",))
