"""The words of documents: stored when they are read, found at once, and read again where missing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tabellion.pipelines.documents.page_words import Gathered, Words, pack_words
from tabellion.pipelines.documents.reprocess import delete
from tabellion.pipelines.documents.settings import Settings
from tabellion.reading.errors import Unreadable
from tabellion.reading.page import Page, Word
from tests.pipelines.documents.papers import process_all, put, submit_bills, submit_file
from tests.reading import papers
from tests.workers import ask

BOX = (0.1, 0.2, 0.3, 0.4)


def said(found: bytes | None) -> list[Any]:
    assert found is not None
    return list(json.loads(found)["words"])


def page(number: int, *texts: str, source: Any = "text") -> Page:
    return Page(number, 100, 100, source, words=tuple(Word(text, BOX) for text in texts))


def gathered(*pages: Page) -> Gathered:
    created = Gathered()
    for one in pages:
        created.add(one)
    return created


@pytest.fixture
def blob(settings: Settings) -> Path:
    """A document of three pages that was not read yet."""
    return put(settings, data=papers.pdf(["First page"], pages=3)).path


def test_a_document_that_is_read_keeps_its_words(url: str, settings: Settings) -> None:
    """Every word of every page with its box, in reading order, also of pages without fields."""
    key = submit_file(url, settings, content := papers.pdf(["Total 120.00"], pages=40), type="invoice")
    process_all(url, settings)
    blob = put(settings, data=content).path
    for number in (1, 33, 40):
        [total, amount] = said(settings.words.find(blob, number, "auto"))
        assert (total[0], amount[0]) == ("Total", "120.00")
        assert 0 < total[1] < total[3] < amount[1] < amount[3] < 1
    assert settings.words.find(blob, 41, "auto") is None
    assert settings.words.find(blob, 1, "never") is None
    ask(url, lambda store: delete(store, settings, key))
    assert [path for path in settings.blobs.root.rglob("*") if path.is_file()] == []


def test_words_that_cannot_be_stored_fail_no_document(url: str, settings: Settings) -> None:
    """They are a convenience."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    blob = put(settings, 0).path
    settings.words.path(blob, "auto").mkdir()
    process_all(url, settings)
    assert ask(
        url, lambda store: store.database.fetch("SELECT status FROM tabellion_documents WHERE id = $1", one.id)
    ) == [{"status": "completed"}]
    assert settings.words.find(blob, 1, "auto") is None
    assert list(settings.blobs.root.glob(".*")) == []


def test_missing_words_are_read_and_stored(blob: Path, settings: Settings) -> None:
    """One page at a time, beside those that exist."""
    words = settings.words
    for number in (3, 1):
        assert [one[0] for one in said(words.read(blob, number, "auto", None))] == ["First", "page"]
    assert words.find(blob, 2, "auto") is None
    assert words.find(blob, 3, "auto") == words.find(blob, 1, "auto")
    words.keep(blob, "auto", gathered(page(3, "kept")))
    assert said(words.read(blob, 3, "auto", None)) == [["kept", *BOX]]


def test_a_missing_page_is_reported(blob: Path, settings: Settings) -> None:
    """With the number of pages."""
    with pytest.raises(Unreadable, match="page 4 does not exist: the document has 3") as raised:
        settings.words.read(blob, 4, "auto", None)
    assert raised.value.code == "page_missing"


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"nonsense", b'{"1":[0,9999]}\nx', b'{"1":7}\n', b"[1]\n"])
def test_damaged_words_count_as_missing(blob: Path, settings: Settings, damage: bytes) -> None:
    """Nothing is synced to disk: after a power cut a file may be empty or incomplete."""
    words = settings.words
    words.path(blob, "auto").write_bytes(damage)
    assert words.find(blob, 1, "auto") is None
    assert [one[0] for one in said(words.read(blob, 1, "auto", None))] == ["First", "page"]
    assert words.find(blob, 1, "auto") is not None


def test_a_page_that_cannot_be_read_is_retried(blob: Path, settings: Settings) -> None:
    """It has no words for now, and none are stored."""
    words = settings.words
    words.keep(blob, "auto", gathered(page(1, "a"), page(2, source="failed"), page(3)))
    assert said(words.find(blob, 1, "auto")) == [["a", *BOX]]
    assert words.find(blob, 2, "auto") is None
    assert said(words.find(blob, 3, "auto")) == []


def test_words_of_a_deleted_file_are_not_kept(blob: Path, settings: Settings) -> None:
    """Deleting finds the words of a concurrent reader; or the reader finds the file gone."""
    words = settings.words
    words.keep(blob, "auto", gathered(page(1, "a")))
    words.keep(blob, "never", gathered(page(1, "a")))
    assert asyncio.run(settings.blobs.remove(blob.name))
    words.keep(blob, "auto", gathered(page(1, "late")))
    assert list(blob.parent.iterdir()) == []


def test_unusual_text_is_valid_json(tmp_path: Path) -> None:
    """Half a surrogate pair, a NUL, quotes."""
    blob = tmp_path / "blob"
    blob.touch()
    words = Words(tmp_path)
    words.keep(blob, "auto", {1: pack_words(page(1, "a\ud800", "b\0", '"é"'))})
    assert [one[0] for one in said(words.find(blob, 1, "auto"))] == ["a?", "b\0", '"é"']
