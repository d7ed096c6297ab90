"""What `verify` finds in documents: holders of review items, lost originals, damaged files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tabellion.monitor.verify import Violation
from tabellion.pipelines.documents.review.queue import review_queue
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.verification import verify_documents
from tests.pipelines.documents.papers import document, process_all, rows, submit_bills, submit_file
from tests.pipelines.documents.test_reprocess import DOUBTFUL
from tests.workers import ask

pytestmark = pytest.mark.usefixtures("at_once")


def found(url: str, settings: Settings, files: int | None = None) -> list[tuple[str, str]]:
    """Return the kinds and places of what is found, with every file compared."""
    violations: list[Violation] = ask(url, lambda store: verify_documents(store, settings, files=files))
    assert all(one.what and one.fix for one in violations)
    return sorted((one.kind, one.where) for one in violations)


def test_sound_documents_are_clean(url: str, settings: Settings) -> None:
    """Completed ones, duplicates, one in review and one that waits."""
    submit_file(url, settings, DOUBTFUL, type="invoice")
    submit_bills(url, settings, 0, 0, 1, type="invoice")
    process_all(url, settings)
    ask(url, lambda store: store.claim(review_queue(), 1, "anna"))
    submit_bills(url, settings, 2, type="invoice")
    for files in (None, 0, 3):
        assert found(url, settings, files) == []


def damage(path: Path) -> None:
    """Change a byte."""
    path.write_bytes(path.read_bytes()[:-1] + b"~")


@pytest.mark.parametrize("how", [damage, Path.unlink])
def test_files_that_are_damaged_or_gone(url: str, settings: Settings, how: Callable[[Path], None]) -> None:
    """The upload and both outputs are compared with their hashes, if files are asked for."""
    one, other = submit_bills(url, settings, 0, 1, type="invoice")
    process_all(url, settings)
    [row] = rows(url, "SELECT sha256, json_path, parquet_path FROM tabellion_documents WHERE id = $1", one.id)
    how(settings.blobs.path(row["sha256"]))
    assert found(url, settings) == [("file_damaged", f"documents/{one.id}")]
    for path in (row["json_path"], row["parquet_path"]):
        how(Path(settings.lake.url) / path)
    assert found(url, settings) == [
        ("file_damaged", f"documents/{one.id}"), *[("output_damaged", f"documents/{one.id}")] * 2,
    ]  # fmt: skip
    assert found(url, settings, 10)[0] == ("file_damaged", f"documents/{one.id}")
    assert found(url, settings, 0) == []
    assert document(url, other.id)["status"] == "completed"


def test_an_item_with_two_holders(url: str, settings: Settings) -> None:
    """The item names one person, its claim another."""
    submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    [job] = ask(url, lambda store: store.claim(review_queue(), 1, "anna"))
    rows(url, "UPDATE tabellion_review_items SET reviewer = 'bob' RETURNING id")
    assert found(url, settings) == [("two_holders", f"review/{job.key}")]


def test_rows_that_refer_to_nothing(url: str, settings: Settings) -> None:
    """An item without a document, and a duplicate without its original."""
    submit_file(url, settings, DOUBTFUL, type="invoice")
    first, second = submit_bills(url, settings, 0, 0, type="invoice")
    process_all(url, settings)
    rows(url, "DELETE FROM tabellion_documents WHERE id = $1 RETURNING id", first.id)
    assert found(url, settings) == [("original_lost", f"documents/{second.id}")]
    rows(url, "DELETE FROM tabellion_documents RETURNING id")
    [item] = rows(url, "SELECT id FROM tabellion_review_items")
    assert found(url, settings) == [("item_lost", f"review/{item['id']}")]


def test_an_output_without_its_hash(url: str, settings: Settings) -> None:
    """Nobody could tell whether it is the right one."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    rows(url, "UPDATE tabellion_documents SET json_sha256 = NULL RETURNING id")
    assert ("unhashed", f"documents/{one.id}") in found(url, settings)
