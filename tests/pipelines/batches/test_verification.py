"""What `tabellion verify` finds in batches: each violation is planted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tabellion.pipelines.batches.settings import BatchSettings
from tabellion.pipelines.batches.verification import verify_batches
from tests.pipelines.batches.material import Images, rows, settings_in, submit_new, work
from tests.workers import ask


@pytest.fixture
def worked(url: str, tmp_path: Path, images: Images) -> BatchSettings:
    """Two chunks that have published two versions of the same entities."""
    settings = settings_in(tmp_path)
    for chunk in ("0", "1"):
        submit_new(url, settings, images.url, images.url, chunk=chunk)
    work(url, settings, deliver=False)
    return settings


def kinds(url: str, settings: BatchSettings) -> list[str]:
    """Return the kinds of violations, files included."""
    return [found.kind for found in ask(url, lambda store: verify_batches(store, settings.content, files=None))]


VIOLATIONS = {
    "history_forked": ("batch_versions", "previous", "pi = 'pi0' AND version = 2"),
    "tip_lost": ("batch_entities", "tip", "pi = 'pi1'"),
    "refs_open": ("batch_refs", "status", "filename = '0-0.png.ref.json'"),
    "content_lost": ("batch_refs", "result_cid", "filename = '1-1.png.ref.json'"),
}  #: the kind of each, and the column and rows that are changed


def test_each_violation_is_found(url: str, worked: BatchSettings) -> None:
    """Nothing before one was planted, and only its kind afterwards."""
    for table in ("batch_entities", "batch_refs", "batch_versions"):
        rows(url, f"ALTER TABLE {table} ADD COLUMN kept TEXT")
    for kind, (table, column, which) in VIOLATIONS.items():
        assert kinds(url, worked) == []
        rows(url, f"UPDATE {table} SET kept = {column} WHERE {which}")
        rows(url, f"UPDATE {table} SET {column} = '{'pending' if column == 'status' else 'other'}' WHERE {which}")
        assert set(kinds(url, worked)) == {kind}
        rows(url, f"UPDATE {table} SET {column} = kept WHERE {which}")


def test_a_gap_between_two_versions_is_followed(url: str, worked: BatchSettings) -> None:
    """Versions that others made may lie between ours, but they must lead from the one to the other."""

    async def put(number: int, previous: object) -> str:
        content = {"ver": number, "prev": previous, "components": {}}
        return await worked.content.put(json.dumps(content).encode())

    first, _ = rows(url, "SELECT tip FROM batch_versions WHERE pi = 'pi0' ORDER BY version")
    rows(url, "UPDATE batch_versions SET version = 5 WHERE pi = 'pi0' AND version = 2")
    rows(url, "UPDATE batch_entities SET version = 5 WHERE pi = 'pi0'")
    good = asyncio.run(put(4, asyncio.run(put(3, asyncio.run(put(2, first["tip"]))))))
    for previous, expected in ((good, []), (asyncio.run(put(4, "elsewhere")), ["history_forked"])):
        rows(url, "UPDATE batch_versions SET previous = $1 WHERE pi = 'pi0' AND version = 5", previous)
        assert kinds(url, worked) == expected
