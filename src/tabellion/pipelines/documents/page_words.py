"""The words of pages, cached beside the files: text in a box that a person drags is found at once."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path

from tabellion.messages import Message
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import OCR, Page
from tabellion.reading.pages import open_document
from tabellion.reading.sandbox import Sandbox
from tabellion.storage.files import ENDING, PRIVATE_FILE

FORM = 1  #: version of the file format and of reading words: files of another version are ignored
ENDS = ".words"
QUICK = 1  # zlib level: a file that is there to save time must not take any


class Words:
    """Beside each file of a folder of blobs, one with its words: an index line, then each page compressed by itself.

    This is a cache: what is lost or damaged is read again from the document. So nothing is forced to disk, and a write
    error is ignored.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, blob: Path, ocr: OCR) -> Path:
        """The path of the words of a file, by its content and OCR mode."""
        return blob.with_name(f"{blob.name}.{ocr}-{FORM}{ENDS}")

    def keep(self, blob: Path, ocr: OCR, pages: Mapping[int, bytes]) -> None:
        """Stores the packed pages of a file, replacing those that are there."""
        places, start = {}, 0
        for number, page in pages.items():
            places[number] = start, len(page)
            start += len(page)
        index = json.dumps(places, separators=(",", ":")).encode()
        temporary = self._root / f".{secrets.token_hex(8)}{ENDING}"
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:
                file.write(b"".join((index, b"\n", *pages.values())))
            temporary.rename(self.path(blob, ocr))
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        if not blob.exists():  # it was deleted meanwhile, and the deletion looked for its words too early
            self.forget(blob)

    def find(self, blob: Path, number: int, ocr: OCR) -> bytes | None:
        """A page's words as JSON; None if they are missing or damaged."""
        try:
            with self.path(blob, ocr).open("rb") as file:
                start, size = json.loads(file.readline())[str(number)]
                file.seek(start, os.SEEK_CUR)
                return zlib.decompress(file.read(size))
        except (OSError, ValueError, KeyError, TypeError, zlib.error):
            return None

    def read(self, blob: Path, number: int, ocr: OCR, sandbox: Sandbox | None, limits: Limits | None = None) -> bytes:
        """A page's words as JSON, read from the document and stored if necessary. Raises `Unreadable`."""
        if (known := self.find(blob, number, ocr)) is not None:
            return known
        with open_document(blob, sandbox=sandbox, limits=limits, ocr=ocr, first=number) as document:
            page = next(iter(document), None)
            if page is None:
                raise Unreadable(
                    "page_missing", Message("unreadable.no_such_page", n=number, total=document.header.count)
                )
        if page.source != "failed":  # a failed page may only have run out of time
            self.keep(blob, ocr, {**self._all(blob, ocr), number: pack_words(page)})
        return serialize_words(page)

    def forget(self, blob: Path) -> None:
        """Removes the words of a file that is gone, for every OCR mode."""
        with contextlib.suppress(OSError):
            for path in blob.parent.glob(f"{blob.name}.*{ENDS}"):
                path.unlink(missing_ok=True)

    def _all(self, blob: Path, ocr: OCR) -> dict[int, bytes]:
        try:
            with self.path(blob, ocr).open("rb") as file:
                places, rest = json.loads(file.readline()), file.read()
            return {int(number): rest[start : start + size] for number, (start, size) in places.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


class Gathered(dict[int, bytes]):
    """The pages of a document as they are read, packed one by one."""

    def add(self, page: Page) -> None:
        """Adds a page; a failed one is skipped, because it may be readable later."""
        if page.source != "failed":
            self[page.number] = pack_words(page)


def pack_words(page: Page) -> bytes:
    """A page's words, compressed for storage."""
    return zlib.compress(serialize_words(page), QUICK)


def serialize_words(page: Page) -> bytes:
    """A page's words as JSON: each word's text and its box."""
    rows = [[word.text, *word.box] for word in page.words]
    return json.dumps({"words": rows}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
