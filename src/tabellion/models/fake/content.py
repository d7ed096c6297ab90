"""The sent content as text: PDF text layers, text files, and a line about each picture."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import struct
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

PAGE_TOKENS = 258  # Gemini's tokens for a PDF page and for a picture
MOST_KEPT = 512
LONGEST_KEPT = 1_000_000

Modality = Literal["TEXT", "IMAGE", "DOCUMENT"]


class UnreadableContent(ValueError):  # noqa: N818 - what the bytes are
    """The sent content cannot be read."""


@dataclass(frozen=True, slots=True)
class Content:
    """One part of a request."""

    text: str
    modality: Modality
    tokens: int
    digest: str
    size: tuple[int, int] | None = None  #: a picture's width and height
    document: bool = False  #: a file with its own text, as opposed to the prompt about it


def tokens_of(text: str) -> int:
    """The number of tokens of a text."""
    return -(-len(text) // 4)


def plain(text: str) -> Content:
    """A text part."""
    return Content(text, "TEXT", tokens_of(text), sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def decode_base64(text: str) -> bytes:
    """Base64 in either alphabet, padded or not."""
    try:
        raw = text.encode("ascii").translate(_STANDARD, b" \r\n\t")
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise UnreadableContent("base64 decoding failed") from error


_STANDARD = bytes.maketrans(b"-_", b"+/")


class Reader:
    """Reads files and caches the results."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Content] = OrderedDict()
        self._thread: ThreadPoolExecutor | None = None

    async def read(self, data: bytes, type: str) -> Content:  # noqa: A002 - the glossary's word for a media type
        """A file as content; raises UnreadableContent."""
        type = type.partition(";")[0].strip().lower()  # noqa: A001
        key = (sha256(data).hexdigest(), type)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        if type == "application/pdf":
            # A single thread: pdfium is not thread-safe, and a long document must not block the rest.
            self._thread = self._thread or ThreadPoolExecutor(1, "pdf")
            pages = await asyncio.get_running_loop().run_in_executor(self._thread, pdf_text, data)
            text = "\n".join(pages)
            if not text.strip():
                text = f"Document of {len(pages)} pages without text, sha256 {key[0][:16]}."
            content = Content(text, "DOCUMENT", PAGE_TOKENS * len(pages), key[0], document=True)
        else:
            content = _content(data, type, key[0])
        if len(content.text) <= LONGEST_KEPT:
            self._known[key] = content
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return content


def _content(data: bytes, type: str, digest: str) -> Content:  # noqa: A002
    if type.startswith("text/") or type in ("application/json", "application/xml"):
        text = data.decode("utf-8", "replace")
        return Content(text, "TEXT", tokens_of(text), digest, document=True)
    if type.startswith("image/"):
        size = picture_size(data)
        measure = f"{size[0]}x{size[1]}" if size else "of unknown size"
        return Content(f"Picture {measure}, sha256 {digest[:16]}.", "IMAGE", PAGE_TOKENS, digest, size)
    return Content(f"File of {len(data)} bytes, sha256 {digest[:16]}.", "DOCUMENT", PAGE_TOKENS, digest)


def pdf_text(data: bytes) -> list[str]:
    """The text layer of each page."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise UnreadableContent("The document has no pages.") from error
    try:
        pages = []
        for number in range(len(document)):
            page = document[number]
            layer = page.get_textpage()
            pages.append(layer.get_text_range().replace("\r\n", "\n").replace("\r", "\n").rstrip("\n\x00"))
            layer.close()
            page.close()
    finally:
        document.close()
    if not pages:
        raise UnreadableContent("The document has no pages.")
    return pages


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Width and height from the file's header."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return struct.unpack_from(">II", data, 16)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return struct.unpack_from("<HH", data, 6)
        if data.startswith(b"BM"):
            width, height = struct.unpack_from("<ii", data, 18)
            return width, abs(height)
        if data.startswith(b"\xff\xd8"):
            return _jpeg_size(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_size(data)
    except struct.error:
        pass
    return None


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    offset = 2
    while offset + 4 <= len(data):
        if data[offset] != 0xFF:
            return None
        kind = data[offset + 1]
        if kind == 0xFF:  # padding
            offset += 1
        elif kind in _FRAMES:
            height, width = struct.unpack_from(">HH", data, offset + 5)
            return width, height
        else:
            offset += 2 + int(struct.unpack_from(">H", data, offset + 2)[0])
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,", re.IGNORECASE)


def data_url(url: str) -> tuple[bytes, str] | None:
    """The bytes and the type in a data URL; None for other URLs."""
    head = _DATA_URL.match(url[:200])
    return (decode_base64(url[head.end() :]), head[1] or "application/octet-stream") if head else None
