"""tabellion compact: days, tables, JSON, and exit codes for scripts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tabellion.cli.app import app
from tabellion.config import load
from tabellion.pipelines.documents.outputs import write
from tabellion.pipelines.documents.settings import settings_of
from tabellion.storage.lake import Lake
from tests.cli.project import Project
from tests.pipelines.documents.results import LEASE, document, lease
from tests.pipelines.documents.rows import insert
from tests.table_owner import owning


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with three documents of one day and one of today, and a custom type that writes elsewhere."""
    own = LEASE.replace("name: lease", "name: sale") + "output: {parquet: 'sales/{id}.parquet'}\n"
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "sale.yaml").write_text(own)
    monkeypatch.setenv("TABELLION_TYPES", str(tmp_path / "types"))
    monkeypatch.setenv("TABELLION_LAKE", str(tmp_path / "lake"))
    new_lake = Lake(tmp_path / "lake")

    async def fill() -> None:
        await write(new_lake, document("01"), lease())
        await write(new_lake, document("02"), lease())
        await write(new_lake, document("03"), lease(own))
        await write(new_lake, document("04", created_at=datetime.now(UTC)), lease())

    asyncio.run(fill())
    return new_lake


def report(project: Project, *words: str) -> list[dict[str, Any]]:
    return list(project.json("compact", *words))


def test_every_day_before_today_is_compacted(lite: Project) -> None:
    """With a table for people and JSON for programs; a second run writes nothing."""
    result = lite.run("compact")
    assert result.exit_code == 0
    assert "2024-02-28" in result.stdout
    [again] = report(lite)
    assert (again["day"], again["rows"], again["small"], again["files"]) == ("2024-02-28", 3, 3, [])


def test_a_named_day_is_compacted(lite: Project, lake: Lake) -> None:
    """Even today; small files are removed only after a while."""
    today = datetime.now(UTC).date()
    [one] = report(lite, str(today), "--remove")
    assert (one["rows"], one["removed"], one["kept"]) == (1, 0, 1)
    first, second = report(lite, str(today), "2024-02-28", "--remove", "--grace", "0")
    assert (first["removed"], second["removed"]) == (1, 3)
    shown = lite.run("compact", "2024-02-28", "--remove").stdout
    assert "removed" in shown
    left = [entry.path for entry in asyncio.run(lake.list()) if entry.path.endswith(".parquet")]
    assert len(left) == 3
    assert all("/daily/" in path for path in left)


def test_another_lake_may_be_named(lite: Project, tmp_path: Path) -> None:
    """A lake without files has nothing to compact."""
    result = lite.run("compact", "--lake", str(tmp_path / "empty"))
    assert (result.exit_code, result.stdout) == (
        0, "nothing to compact: no day before today has Parquet files\n",
    )  # fmt: skip


def test_every_environment_is_compacted_and_its_rows_updated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_url: str, pg_url: str
) -> None:
    """Each in its own folder of the lake; its database is updated before small files are removed."""
    monkeypatch.setenv("TABELLION_LAKE", str(tmp_path / "lakes"))
    (tmp_path / "tabellion.toml").write_text(f'[environments]\nprod = "{sqlite_url}"\ndev = "{pg_url}"\n')
    config = load(tmp_path / "tabellion.toml", dict(os.environ))
    places = {place.name: settings_of(config, place) for place in config.environments}
    for name, url in (("prod", sqlite_url), ("dev", pg_url)):
        insert(url, {"id": "01"})
        written = asyncio.run(write(places[name].lake, document("01"), lease()))
        with owning(url, create=False) as owner:
            owner(
                "UPDATE tabellion_documents SET parquet_path = $1, parquet_sha256 = $2",
                written.parquet_path,
                written.parquet_sha256,
            )
    run = CliRunner().invoke(
        app, ["--config", str(tmp_path / "tabellion.toml"), "compact", "--remove", "--grace", "0", "--json"]
    )
    assert run.exit_code == 0, run.output
    assert [(one["environment"], one["removed"]) for one in json.loads(run.stdout)] == [("prod", 1), ("dev", 1)]
    for name, url in (("prod", sqlite_url), ("dev", pg_url)):
        with owning(url, create=False) as owner:
            [row] = owner("SELECT parquet_path, parquet_sha256 FROM tabellion_documents")
        assert "/daily/" in row["parquet_path"]
        data = asyncio.run(places[name].lake.get(row["parquet_path"]))
        assert hashlib.sha256(data).hexdigest() == row["parquet_sha256"]


def test_an_environment_that_does_not_answer_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> None:
    """It is reported with exit code 6, and the others are compacted."""
    monkeypatch.setenv("TABELLION_LAKE", str(tmp_path / "lakes"))
    away = "postgresql://127.0.0.1:1/nowhere"
    (tmp_path / "tabellion.toml").write_text(f'[environments]\nprod = "{away}"\ndev = "{sqlite_url}"\n')
    config = load(tmp_path / "tabellion.toml", dict(os.environ))
    lakes = [settings_of(config, place).lake for place in config.environments]
    for one in lakes:
        asyncio.run(write(one, document("01"), lease()))
    words = ["--config", str(tmp_path / "tabellion.toml"), "compact", "--remove", "--grace", "0"]
    run = CliRunner().invoke(app, words)
    assert (run.exit_code, "error: " in run.stderr, "dev" in run.stdout) == (6, True, True)
    small = ["/daily/" not in entry.path for one in lakes for entry in asyncio.run(one.list("parquet"))]
    assert small.count(True) == 1


def test_an_invalid_day_is_a_usage_error(lite: Project) -> None:
    """Exit code 2."""
    result = lite.run("compact", "yesterday")
    assert result.exit_code == 2
    assert "2024-02-29" in result.stderr


def test_unknown_files_are_exit_code_6(lite: Project, lake: Lake) -> None:
    """They are named on standard error, and the rest is compacted."""
    asyncio.run(lake.put("parquet/2024/02/28/05.parquet", b"hello"))
    result = lite.run("compact")
    assert result.exit_code == 6
    assert "parquet/2024/02/28/05.parquet: it is not a valid Parquet file" in result.stderr
    assert "2024-02-28" in result.stdout


def test_a_broken_type_is_a_warning(lite: Project, tmp_path: Path) -> None:
    """Files of other types are still compacted."""
    (tmp_path / "types" / "bad.yaml").write_text("name: [")
    result = lite.run("compact")
    assert result.exit_code == 0
    assert "warning: " in result.stderr
