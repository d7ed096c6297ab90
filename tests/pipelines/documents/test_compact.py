"""Compaction: one file per day, and never a duplicate or missing row for queries written as in the docs."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion.pipelines.documents import compact as compacting
from tabellion.pipelines.documents import daily
from tabellion.pipelines.documents.compact import Compacted, compact, days, forget, templates_of
from tabellion.pipelines.documents.daily import Template, daily_path, is_daily
from tabellion.pipelines.documents.outputs import write
from tabellion.reading.types.doctype import DocumentType
from tabellion.storage.lake import Lake, LakeError
from tests.engine.made_tables import asynchronous
from tests.pipelines.documents.results import LEAP, LEASE, document, lease

ROOT = Path(__file__).parents[3]
DAY = date(2024, 2, 28)
SALE = lease(LEASE.replace("name: lease", "name: sale").replace("rent: money", "price: money"))
PROGRAM = """
import asyncio, sys
from datetime import date
from tabellion.pipelines.documents.compact import compact
from tabellion.storage.lake import Lake
asyncio.run(compact(Lake(sys.argv[1]), date(2024, 2, 28), remove=True, grace=float(sys.argv[2])))
"""


def views() -> list[str]:
    """The queries of the docs."""
    return re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "how-to" / "outputs.md").read_text(), re.DOTALL)


def query_lake(folder: Path, query: str = "SELECT id, version, rent, type FROM documents ORDER BY id") -> list[Any]:
    """Return DuckDB's answer with the view of the docs."""
    with duckdb.connect() as connection:
        connection.execute(views()[1].replace("tabellion-data", str(folder)))
        return list(connection.execute(query).fetchall())


async def put(
    lake: Lake, *ids: str, doctype: DocumentType | None = None, fields: dict[str, Any] | None = None, **more: Any
) -> None:
    """Write outputs of documents; their rent is their id unless given."""
    for one in ids:
        await write(lake, document(one, fields=fields or {"rent": str(int(one))}, **more), doctype or lease())


def done(folder: Path, **options: Any) -> Compacted:
    return asyncio.run(compact(Lake(folder), DAY, **options))


def small_files(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "parquet").glob("*/*/*/*.parquet"))


def day_files(folder: Path) -> list[Path]:
    return sorted((folder / "parquet" / "daily").glob("*/*/*/*.parquet"))


def kinds(folder: Path) -> list[str]:
    return [path.name.split("-")[1] for path in day_files(folder)]


def age(folder: Path) -> None:
    """Make the files of days old."""
    for path in day_files(folder):
        os.utime(path, (path.stat().st_mtime - 3600,) * 2)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_query_of_the_docs_works(tmp_path: Path) -> None:
    """The one-liner, on small files, on both, and on day files alone."""
    invoice = lease(
        LEASE.replace("name: lease", "name: invoice").replace("tenant:", "vendor:").replace("rent:", "total:")
    )
    asyncio.run(put(Lake(tmp_path), "01", "02", doctype=invoice, fields={"vendor": "A", "total": "10.50"}))
    asyncio.run(put(Lake(tmp_path), "03", doctype=invoice, fields={"vendor": "B", "total": "3"}))
    asyncio.run(put(Lake(tmp_path), "04", doctype=SALE))
    for step in ("small", "both", "daily"):
        if step == "both":
            done(tmp_path)
        if step == "daily":
            done(tmp_path, remove=True, grace=0)
            assert small_files(tmp_path) == []
        with duckdb.connect() as connection:
            found = connection.execute(views()[0].replace("tabellion-data", str(tmp_path))).fetchall()
        assert found == [("A", Decimal(21)), ("B", Decimal(3))]


@asynchronous
async def test_a_day_becomes_one_file_per_type(lake: Lake) -> None:
    """In a folder and in a bucket, sorted by id; the small files stay, and other days are not touched."""
    await put(lake, "03", "01", "02")
    await put(lake, "04", doctype=SALE)
    await put(lake, "05", created_at=LEAP + 86_400)
    result = await compact(lake, DAY)
    assert (result.rows, result.small, len(result.files), result.removed) == (4, 4, 2, 0)
    assert [path.rpartition("-")[0] for path in result.files] == [
        "parquet/daily/2024/02/28/000001-lease", "parquet/daily/2024/02/28/000001-sale",
    ]  # fmt: skip
    assert await days(lake, templates_of(())) == [DAY, date(2024, 2, 29)]
    table = pq.read_table(io.BytesIO(await lake.get(result.files[0])))
    assert table.column("id").to_pylist() == ["01", "02", "03"]
    assert table.column("rent").to_pylist() == [1, 2, 3]
    small = pq.read_table(io.BytesIO(await lake.get("parquet/2024/02/28/01.parquet")))
    assert table.slice(0, 1).to_pylist() == small.to_pylist()
    assert table.schema == small.schema
    again = await compact(lake, DAY)
    assert (again.rows, again.small, again.files) == (4, 4, [])
    gone = await compact(lake, DAY, remove=True, grace=0)
    assert (gone.removed, gone.kept) == (4, 0)
    assert [entry.path for entry in await lake.list("parquet/2024/02/28")] == []
    assert (await compact(lake, DAY, remove=True, grace=0)).files == []
    assert await lake.has("parquet/2024/02/29/05.parquet")
    await put(lake, "06")
    assert (await compact(lake, DAY)).rows == 5
    assert (await compact(lake, DAY)).files == []


def test_a_second_run_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it read the small files again; without its manifest it does, with the same bytes."""
    asyncio.run(put(Lake(tmp_path), "01", "02", "03"))
    done(tmp_path)
    before = everything(tmp_path)
    stamps = [path.stat().st_mtime_ns for path in day_files(tmp_path)]
    with monkeypatch.context() as patched:
        patched.setattr(compacting, "_rows", None)  # whoever reads them fails
        assert done(tmp_path).files == []
    next(tmp_path.rglob("manifest.json")).unlink()
    assert done(tmp_path).files == []
    assert everything(tmp_path) == before
    assert [path.stat().st_mtime_ns for path in day_files(tmp_path)] == stamps


def test_a_reprocessed_document_counts_as_it_is_now(tmp_path: Path) -> None:
    """Before the next compaction, after it, and as another type."""
    lake = Lake(tmp_path)
    asyncio.run(put(lake, "01", "02"))
    done(tmp_path)
    asyncio.run(put(lake, "01", fields={"rent": "77"}, version=2))
    newest = [("01", 2, Decimal(77), "lease"), ("02", 1, Decimal(2), "lease")]
    assert query_lake(tmp_path) == newest
    assert done(tmp_path).rows == 2
    assert query_lake(tmp_path) == newest
    age(tmp_path)
    assert done(tmp_path, remove=True).removed == 2
    assert query_lake(tmp_path) == newest
    asyncio.run(put(lake, "02", doctype=SALE, version=3))
    changed = [("01", 2, Decimal(77), "lease"), ("02", 3, None, "sale")]
    assert query_lake(tmp_path) == changed
    done(tmp_path)
    assert query_lake(tmp_path) == changed
    age(tmp_path)
    done(tmp_path, remove=True)
    assert query_lake(tmp_path) == changed
    assert kinds(tmp_path) == ["lease", "sale"]
    asyncio.run(put(lake, "01", doctype=SALE, version=4))
    done(tmp_path)
    age(tmp_path)
    done(tmp_path)
    assert kinds(tmp_path) == ["sale"]  # the other has no row left


def test_small_files_stay_until_readers_know_the_day_file(tmp_path: Path) -> None:
    """And those that differ from it stay."""
    lake = Lake(tmp_path)
    asyncio.run(put(lake, "01", "02"))
    first = done(tmp_path, remove=True)
    assert (first.removed, first.kept, small_files(tmp_path)) == (0, 2, ["01", "02"])
    age(tmp_path)
    asyncio.run(put(lake, "03"))
    second = done(tmp_path, remove=True)  # it was written anew
    assert (second.removed, second.kept) == (0, 3)
    age(tmp_path)
    assert done(tmp_path, remove=True).removed == 3
    assert [row[0] for row in query_lake(tmp_path)] == ["01", "02", "03"]


def test_a_day_file_is_never_rewritten(tmp_path: Path) -> None:
    """A query may have it open: a newer one has a higher number, and the old one is deleted after a while."""
    lake = Lake(tmp_path)
    asyncio.run(put(lake, "01", "02"))
    done(tmp_path)
    [first] = day_files(tmp_path)
    before = first.read_bytes()
    asyncio.run(put(lake, "02", fields={"rent": "50"}))  # of the same version: a try that was killed is made again
    asyncio.run(put(lake, "03"))
    done(tmp_path)
    old, new = day_files(tmp_path)
    assert (old, old.read_bytes(), new.name[:6]) == (first, before, "000002")
    newest = [("01", Decimal(1)), ("02", Decimal(50)), ("03", Decimal(3))]
    query = "SELECT id, rent FROM documents ORDER BY id"
    assert query_lake(tmp_path, query) == newest
    age(tmp_path)
    done(tmp_path, remove=True)
    assert (day_files(tmp_path), small_files(tmp_path)) == ([new], [])
    assert query_lake(tmp_path, query) == newest


def test_of_two_files_with_a_row_the_later_counts(tmp_path: Path) -> None:
    """Also when the small files are gone before the superseded file."""
    lake = Lake(tmp_path)
    asyncio.run(put(lake, "01", "02"))
    done(tmp_path)
    asyncio.run(put(lake, "02", fields={"rent": "50"}))
    done(tmp_path)
    for path in (tmp_path / "parquet").glob("*/*/*/*.parquet"):
        path.unlink()
    assert len(day_files(tmp_path)) == 2
    assert query_lake(tmp_path, "SELECT id, rent FROM documents ORDER BY id") == [
        ("01", Decimal(1)),
        ("02", Decimal(50)),
    ]
    asyncio.run(put(lake, "03"))
    done(tmp_path, grace=0)
    assert len(day_files(tmp_path)) == 1
    assert [row[0] for row in query_lake(tmp_path, "SELECT rent FROM documents ORDER BY id")] == [1, 50, 3]


def test_a_newer_small_file_is_never_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it arrives between the comparison and the removal."""
    lake = Lake(tmp_path)
    asyncio.run(put(lake, "01", "02"))
    done(tmp_path)
    real = Lake.delete_exact

    async def late(self: Lake, path: str, sha256: str) -> bool:
        if path.endswith("01.parquet"):
            await put(self, "01", fields={"rent": "99"}, version=2)
        return await real(self, path, sha256)

    monkeypatch.setattr(Lake, "delete_exact", late)
    result = done(tmp_path, remove=True, grace=0)
    assert (result.removed, result.kept, small_files(tmp_path)) == (1, 1, ["01"])
    assert query_lake(tmp_path)[0] == ("01", 2, Decimal(99), "lease")


KILLS = [
    *(f"{place}:kill" for place in ("compact.pre_put", "compact.post_put", "put.pre_rename", "put.post_rename")),
    "compact.pre_put:kill@2", "put.pre_rename:kill@2", "put.post_rename:kill@3", "put.mid_write:kill",
    *(f"compact.mid_remove:kill@{number}" for number in (1, 2, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("place", KILLS)
def test_kill_9_at_any_moment_neither_loses_nor_duplicates_a_row(tmp_path: Path, place: str) -> None:
    """Readers see the same rows after it as before, and the next run finishes the work."""
    lake = Lake(tmp_path)
    asyncio.run(put(lake, "01", "02", "03"))
    asyncio.run(put(lake, "04", doctype=SALE))
    before = query_lake(tmp_path)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "TABELLION_FAILPOINTS": place}
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path), "0"], env=environment)
    assert ended.returncode == -signal.SIGKILL
    assert query_lake(tmp_path) == before
    finished = done(tmp_path, remove=True, grace=0)
    assert query_lake(tmp_path) == before
    assert (small_files(tmp_path), finished.kept) == ([], 0)
    asyncio.run(lake.sweep_temps(older=0))
    left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".json")
    assert [re.sub(r"\d+-(\w+)-.*", r"\1", name) for name in left] == [".lock", "lease", "sale"]


def test_readers_see_every_row_once_while_it_runs(tmp_path: Path) -> None:
    """Queries one after another, while another process compacts and removes, and documents are reprocessed."""
    ids = [f"{number:04}" for number in range(120)]
    asyncio.run(put(Lake(tmp_path), *ids))
    done(tmp_path)
    age(tmp_path)
    asyncio.run(put(Lake(tmp_path), *ids[:5], version=2))
    answers: list[list[str]] = []
    missed: list[str] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                answers.append([row[0] for row in query_lake(tmp_path)])
            except duckdb.IOException as error:  # a file went between the listing and the reading: asked again
                missed.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(4):
            environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"}
            subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path), "600"], env=environment, check=True)
            age(tmp_path)
    finally:
        over.set()
        reader.join()
    answers.append([row[0] for row in query_lake(tmp_path)])
    assert all(answer == ids for answer in answers)
    assert len(answers) > 1
    assert small_files(tmp_path) == []
    assert all("No such file" in one or "Cannot open" in one for one in missed)


@asynchronous
async def test_deleted_documents_leave_the_day_files(lake: Lake) -> None:
    """A file without rows is deleted."""
    await put(lake, "01", "02", "03")
    [path] = (await compact(lake, DAY)).files
    assert await forget(lake, LEAP, ["02", "99"]) == 1
    assert not await lake.has("parquet/2024/02/28/02.parquet")
    assert await forget(lake, LEAP, ["02"]) == 0
    assert (await compact(lake, DAY)).rows == 2
    await lake.delete("parquet/2024/02/28/01.parquet", "parquet/2024/02/28/03.parquet")
    assert await forget(lake, LEAP, ["01", "03"]) == 2
    assert not await lake.has(path)


@asynchronous
async def test_a_document_deleted_while_it_runs_does_not_come_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its small file was read, and deleted before the day file was written."""
    await put(lake, "01", "02")
    real = Lake.put_file

    async def late(self: Lake, path: str, file: Path, *, create: bool = False) -> None:
        await self.delete("parquet/2024/02/28/02.parquet")
        await real(self, path, file, create=create)

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "put_file", late)
        result = await compact(lake, DAY)
    assert result.rows == 1
    assert await forget(lake, LEAP, ["02"]) == 0


@asynchronous
async def test_in_a_bucket_the_second_of_two_runs_restarts(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the first has written is lost."""
    lake = Lake(s3_url)
    await put(lake, "01")
    real = Lake.put_file
    late: list[str] = []

    async def second(self: Lake, path: str, file: Path, *, create: bool = False) -> None:
        if not late:
            late.append(path)
            await put(self, "02")
            await compact(self, DAY, remove=True, grace=0)
            assert await lake.list("parquet/2024") == []
        await real(self, path, file, create=create)

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "put_file", second)
        await compact(lake, DAY)
    await put(lake, "03")
    assert (await compact(lake, DAY)).rows == 3


def test_unknown_files_are_reported_and_left_alone(tmp_path: Path) -> None:
    """The others are compacted."""
    lake = Lake(tmp_path)

    async def do() -> None:
        await put(lake, "01", "02")
        good = await lake.get("parquet/2024/02/28/02.parquet")
        await lake.put("parquet/2024/02/28/03.parquet", b"not parquet")
        await lake.put("parquet/2024/02/28/04.parquet", good)
        await lake.put("parquet/2024/02/28/readme.txt", b"hello")

    asyncio.run(do())
    result = done(tmp_path, remove=True, grace=0)
    assert (result.rows, result.removed) == (2, 2)
    assert [one.partition(":")[0] for one in result.strange] == [f"parquet/2024/02/28/0{n}.parquet" for n in (3, 4)]
    assert "its row has the id 02" in result.strange[1]
    assert small_files(tmp_path) == ["03", "04"]
    [path] = day_files(tmp_path)
    path.write_bytes(b"broken")
    asyncio.run(put(lake, "05"))
    with pytest.raises(LakeError, match=r"000001-lease-[0-9a-f]{8}\.parquet: it is not a valid Parquet file"):
        done(tmp_path)
    assert small_files(tmp_path) == ["03", "04", "05"]


@pytest.mark.parametrize(
    "template", ["out/{type}/{id}.parquet", "out/{sha256}-{version}.parquet", "{yyyy}/{mm}/x{dd}/{id}.parquet",
                 "p/{yyyy}-{mm}-{dd}/{yyyy}/{id}.parquet"],
)  # fmt: skip
@asynchronous
async def test_types_that_write_elsewhere_are_found_there(tmp_path: Path, template: str) -> None:
    """Whether or not their paths contain the day and the id."""
    doctype = lease(f"{LEASE}output: {{parquet: '{template}'}}\n")
    lake, templates = Lake(tmp_path), templates_of([template, None])
    for number in range(3):
        hashed = f"{9 - number}" * 64
        await put(lake, f"0{number}", doctype=doctype, sha256=hashed)
    await put(lake, "07", doctype=doctype, sha256="a" * 64, created_at=LEAP + 86_400)
    assert await days(lake, templates) == [DAY, date(2024, 2, 29)]
    result = await compact(lake, DAY, templates, remove=True, grace=0)
    assert (result.rows, result.removed, result.strange) == (3, 3, [])
    assert await days(lake, templates) == [date(2024, 2, 29)]
    [path] = result.files
    assert is_daily(path, Template(template).root)


def test_day_files_are_not_taken_for_small_files() -> None:
    """Whatever the template."""
    path = daily_path("parquet", "lease", "0123abcd", DAY, 7)
    assert path == "parquet/daily/2024/02/28/000007-lease-0123abcd.parquet"
    assert Template("parquet/{type}/{yyyy}/{mm}/{dd}/{id}.parquet").match(path) is None
    assert Template("parquet/{yyyy}/{mm}/{dd}/{id}.parquet").match("parquet/2024/02/28/../x.parquet") is None
    parts = Template("parquet/{yyyy}/{mm}/{dd}/{id}.parquet").match("parquet/2024/02/28/01.parquet")
    assert parts == {"yyyy": "2024", "mm": "02", "dd": "28", "id": "01"}


def test_many_rows_make_several_ordered_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some rows are in memory at a time, and old ones are merged in order."""
    monkeypatch.setattr(daily, "GROUP", 4)
    monkeypatch.setattr(daily, "CHUNK", 2)
    monkeypatch.setattr(compacting, "READS", 3)
    names: Sequence[str] = [f"{number:02}" for number in range(11)]
    asyncio.run(put(Lake(tmp_path), *names[::2]))
    done(tmp_path, remove=True, grace=0)
    asyncio.run(put(Lake(tmp_path), *names[1::2], names[4], version=2))
    assert done(tmp_path).rows == 11
    with pq.ParquetFile(day_files(tmp_path)[-1]) as file:
        assert file.num_row_groups == 3
        assert file.read(["id"]).column(0).to_pylist() == list(names)
    assert [row[:2] for row in query_lake(tmp_path)] == [
        (name, 2 if name == "04" or int(name) % 2 else 1) for name in names
    ]  # fmt: skip
