"""Local files, checked before they are trusted."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents import local_files
from tabellion.pipelines.documents.local_files import FileRejected, submit_local
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.submit import SubmittedDocument, submit
from tabellion.storage.blobs import StoredBlob
from tests.pipelines.documents.papers import paper, write_type
from tests.table_owner import owning
from tests.workers import ask


def submit_one(url: str, settings: Settings, source: Path | bytes, **how: Any) -> SubmittedDocument:
    """Take the file in."""

    async def go(store: Store) -> SubmittedDocument:
        return await submit_local(store, settings, source, **how)

    return ask(url, go)


def test_a_file_and_its_bytes_are_the_same_document(url: str, settings: Settings, tmp_path: Path) -> None:
    """The row has the name and the content type; the second is a duplicate of the first."""
    (tmp_path / "a bill.bin").write_bytes(paper())
    first = submit_one(url, settings, tmp_path / "a bill.bin")
    second = submit_one(url, settings, paper(), name="again.pdf")
    assert second.duplicate_of == first.id
    with owning(url, create=False) as owner:
        rows = owner("SELECT name, media, bytes FROM tabellion_documents ORDER BY id")
    assert [row["name"] for row in rows] == ["a bill.bin", "again.pdf"]
    assert {(row["media"], row["bytes"]) for row in rows} == {("application/pdf", len(paper()))}


def test_an_unsupported_file_is_rejected(sqlite_url: str, settings: Settings, tmp_path: Path) -> None:
    """Each with its own code, without waiting for a pipe, and nothing of it is stored."""
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "text.pdf").write_text("words")
    (tmp_path / "two.pdf").write_bytes(paper() + b"\n<html></html>")
    (tmp_path / "link.pdf").symlink_to(tmp_path / "text.pdf")
    (tmp_path / "large.pdf").write_bytes(paper() * 3)
    os.mkfifo(tmp_path / "pipe.pdf")
    codes = {}
    for name in ("empty.pdf", "text.pdf", "two.pdf", "link.pdf", "large.pdf", "pipe.pdf", "none.pdf", ""):
        with pytest.raises(FileRejected) as caught:
            submit_one(sqlite_url, settings, tmp_path / name, limit=len(paper()) * 2)
        codes[name] = caught.value.code
    assert codes == {
        "empty.pdf": "empty_file", "text.pdf": "type_unsupported", "two.pdf": "type_mismatch", "link.pdf": "not_a_file",
        "large.pdf": "too_large", "pipe.pdf": "not_a_file", "none.pdf": "file_missing", "": "not_a_file",
    }  # fmt: skip
    assert not [path for path in settings.blobs.root.rglob("*") if path.is_file()]


def test_a_file_deleted_while_it_arrives_is_copied_again(
    sqlite_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last document is deleted between the copy and its row: the caller does not notice."""
    going = [True, False]

    async def racing(store: Store, settings: Settings, content: StoredBlob, **how: Any) -> SubmittedDocument:
        if going.pop(0):
            content.path.unlink()
        return await submit(store, settings, content, **how)

    monkeypatch.setattr(local_files, "submit", racing)
    one = submit_one(sqlite_url, settings, paper(), name="a.pdf")
    assert (one.status, going) == ("queued", [])
    with owning(sqlite_url, create=False) as owner:
        assert [row["id"] for row in owner("SELECT id FROM tabellion_documents")] == [one.id]
    assert asyncio.run(settings.blobs.has(hashlib.sha256(paper()).hexdigest()))


def test_an_unknown_type_and_a_rejected_duplicate(sqlite_url: str, settings: Settings) -> None:
    """Reported as errors of the sender, in a sentence."""
    with pytest.raises(FileRejected, match="unknown document type 'poem'") as caught:
        submit_one(sqlite_url, settings, paper(), name="a.pdf", type="poem")
    assert caught.value.code == "type_unknown"
    write_type(settings, "once", "idempotency: {policy: reject}\n")
    submit_one(sqlite_url, settings, paper(), name="a.pdf", type="once")
    with pytest.raises(FileRejected) as caught:
        submit_one(sqlite_url, settings, paper(), name="b.pdf", type="once")
    assert caught.value.code == "already_there"
