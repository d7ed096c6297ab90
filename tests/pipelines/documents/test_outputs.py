"""Outputs: complete JSON, typed Parquet, at the type's path, the same bytes every time."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion.pipelines.documents.outputs import Written, json_bytes, parquet_bytes, paths, write
from tabellion.storage.lake import Lake
from tests.engine.made_tables import asynchronous
from tests.pipelines.documents.results import LEAP, LEASE, document, field, lease

ROOT = Path(__file__).parents[3]


def rows(data: bytes) -> list[dict[str, Any]]:
    return list(pq.read_table(io.BytesIO(data)).to_pylist())


def test_json_has_everything() -> None:
    """Fields with confidence, box and reasons, issues, pages; one line of UTF-8."""
    data = json_bytes(document(), lease())
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 1
    body = json.loads(data)
    assert body["fields"]["rent"] == document()["result"]["fields"]["rent"]
    assert "Zoë" in data.decode("utf-8")
    assert (body["id"], body["type"], body["type_version"], body["verdict"]) == ("01", "lease", "1", "warn")
    assert body["created_at"] == "2024-02-28T23:59:59.250000Z"
    assert body["issues"][0]["code"] == "missing"
    assert body["pages"][0]["source"] == "ocr"
    assert body["notes"] == ["a note"]


def test_a_result_may_be_json_text_from_the_database() -> None:
    """Both give the same bytes, in both formats."""
    plain, stored = document(), document()
    stored["result"] = json.dumps(stored["result"])
    assert json_bytes(stored, lease()) == json_bytes(plain, lease())
    assert parquet_bytes(stored, lease()) == parquet_bytes(plain, lease())


def test_corrected_values_win_over_what_was_read() -> None:
    """Corrected fields replace those of the reading, and locked ones are named."""
    corrected = document() | {
        "fields": {"rent": field("9.99", 1.0, locked=True), "tenant": field("A")},
        "review": "corrected",
    }
    body = json.loads(json_bytes(corrected, lease()))
    assert (body["fields"]["rent"]["value"], body["locked"], body["reviewed"]) == ("9.99", ["rent"], True)
    [row] = rows(parquet_bytes(corrected, lease()))
    assert (row["rent"], row["locked"], row["reviewed"], row["rooms"]) == (Decimal("9.99"), ["rent"], True, None)


def test_the_version_of_the_type_is_read_from_its_key() -> None:
    """Unless the key belongs to no single type."""
    for key, version in (("lease/1/2/0123456789abcdef", "1/2"), ("auto/0123456789abcdef", None), (None, None)):
        assert json.loads(json_bytes(document(type="lease", type_key=key)))["type_version"] == version


def test_json_is_valid_for_every_parser() -> None:
    """No NaN, no half of a surrogate pair."""
    body = json.loads(json_bytes(document() | {"fields": {"rent": field("a\ud800", float("nan"))}}, lease()))
    assert (body["fields"]["rent"]["value"], body["fields"]["rent"]["confidence"]) == ("a?", None)


def test_another_process_writes_the_same_bytes() -> None:
    """Hashes of outputs are compared after a crash: they may not depend on the process."""
    code = (
        "import hashlib; from tests.pipelines.documents.results import *; "
        "from tabellion.pipelines.documents.outputs import *; "
        "print(*(hashlib.sha256(make(document(), lease())).hexdigest() for make in (json_bytes, parquet_bytes)))"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    mine = [hashlib.sha256(make(document(), lease())).hexdigest() for make in (json_bytes, parquet_bytes)]
    assert done.stdout.split() == mine


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "none"])
def test_parquet_is_compressed_as_the_type_says(compression: str) -> None:
    """Each compression a type file may name, readable by other programs."""
    doctype = lease(f"{LEASE}output: {{compression: {compression}}}\n")
    data = parquet_bytes(document(), doctype)
    codec = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).compression
    assert codec == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert len(rows(data)) == 1


def test_parquet_is_read_by_duckdb_with_its_types(tmp_path: Path) -> None:
    """Sums, dates and rows of lists need no cast."""
    (tmp_path / "a.parquet").write_bytes(parquet_bytes(document(), lease()))
    query = "SELECT rent * 2, begins + 1, rooms[1].area, len(rooms), confidence.rent, epoch(created_at)"
    with duckdb.connect() as connection:
        [found] = connection.execute(f"{query} FROM '{tmp_path}/a.parquet'").fetchall()
    assert found[:5] == (Decimal("2501.0000"), date(2024, 3, 2), Decimal("12.5000"), 2, 0.9)
    assert found[5] == LEAP


def test_paths_use_the_day_in_utc() -> None:
    """Not the local day of the server."""
    assert paths(lease(), "01", LEAP) == ("json/2024/02/28/01.json", "parquet/2024/02/28/01.parquet")
    assert paths(lease(), "01", LEAP + 1)[0] == "json/2024/02/29/01.json"
    assert paths(lease(), "01", "2024-01-01T01:00:00+03:00")[0] == "json/2023/12/31/01.json"


def test_paths_follow_the_templates_of_the_type() -> None:
    """Every placeholder; null writes none."""
    text = LEASE + "output: {json: 'x/{type}/{version}/{yyyy}-{mm}-{dd}/{sha256}-{id}.json', parquet: null}\n"
    assert paths(lease(text), "01", LEAP, sha256="ff") == ("x/lease/1/2024-02-28/ff-01.json", None)
    with pytest.raises(ValueError, match="say which"):
        paths(lease(text), "01", LEAP)
    odd = lease(text.replace('version: "1"', 'version: "../2 é"'))
    assert paths(odd, "01", LEAP, sha256="ff")[0] == "x/lease/_._2__/2024-02-28/ff-01.json"


@asynchronous
async def test_both_are_written_with_their_hashes(lake: Lake) -> None:
    """In a folder and in a bucket; again over the old ones."""
    for version in (1, 2):
        one = document(version=version)
        done = await write(lake, one, lease())
        contents = json_bytes(one, lease()), parquet_bytes(one, lease())
        assert done == Written(
            "json/2024/02/28/01.json", hashlib.sha256(contents[0]).hexdigest(),
            "parquet/2024/02/28/01.parquet", hashlib.sha256(contents[1]).hexdigest(),
        )  # fmt: skip
        assert await lake.get("json/2024/02/28/01.json") == contents[0]
        assert await lake.get("parquet/2024/02/28/01.parquet") == contents[1]
    assert len(await lake.list()) == 2


def test_a_type_without_outputs_gets_none(tmp_path: Path) -> None:
    """Neither file nor hash."""
    doctype = lease(LEASE + "output: {json: null, parquet: null}\n")
    assert asyncio.run(write(Lake(tmp_path), document(), doctype)) == Written()
    assert list(tmp_path.iterdir()) == []


def test_pyarrow_is_loaded_on_demand() -> None:
    """Submitting files or writing JSON does not load it."""
    code = (
        "import sys; from tabellion.pipelines.documents import columns, outputs; "
        "from tabellion.storage import blobs, lake; "
        "outputs.json_bytes({'id': '1', 'created_at': 0}); print({'pyarrow', 'obstore'} & set(sys.modules))"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
