"""Detects a file's format by its content instead of its name, and opens it without trusting it."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from tabellion.messages import Message, quote_value
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits

#: Bytes from the start that decide; a PDF header may be anywhere in the first 1,024.
HEAD = 4096
PDF_WITHIN = 1024
#: Bytes from the end that are searched for a second format: they contain the last record of a ZIP.
TAIL = 22 + 65_535
#: Formats after the end of a file that do not make it a second format.
NOISE = ("text", "unknown")


class Kind(StrEnum):
    """The seven formats that are read."""

    PDF = "pdf"
    PNG = "png"
    JPEG = "jpeg"
    WEBP = "webp"
    GIF = "gif"
    TIFF = "tiff"
    BMP = "bmp"


ENDINGS = {
    Kind.PDF: {".pdf"}, Kind.PNG: {".png"}, Kind.JPEG: {".jpg", ".jpeg", ".jpe", ".jfif"}, Kind.WEBP: {".webp"},
    Kind.GIF: {".gif"}, Kind.TIFF: {".tif", ".tiff"}, Kind.BMP: {".bmp", ".dib"},
}  # fmt: skip
STARTS = (
    (b"\x89PNG\r\n\x1a\n", Kind.PNG), (b"\xff\xd8\xff", Kind.JPEG), (b"GIF87a", Kind.GIF), (b"GIF89a", Kind.GIF),
    (b"II*\0", Kind.TIFF), (b"MM\0*", Kind.TIFF), (b"II+\0", Kind.TIFF), (b"MM\0+", Kind.TIFF),
)  # fmt: skip
#: Rejected formats, which the error names. Zip and the ISO media family are detected below.
OTHERS = (
    (b"\x7fELF", "executable"), (b"MZ", "executable"), (b"\xcf\xfa\xed\xfe", "executable"),
    (b"\xca\xfe\xba\xbe", "executable_or_class"), (b"#!", "script"), (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"), (b"7z\xbc\xaf'\x1c", "7zip"),
    (b"Rar!", "rar"), (b"(\xb5/\xfd", "zstd"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old_office"),
    (b"{\\rtf", "rtf"), (b"%!PS", "postscript"), (b"\xc5\xd0\xd3\xc6", "eps"),
    (b"8BPS", "photoshop"), (b"\x00\x00\x00\x0cjP  ", "jpeg2000"),
    (b"\xffO\xffQ", "jpeg2000"), (b"\xff\n", "jpegxl"),
    (b"\x00\x00\x00\x0cJXL ", "jpegxl"), (b"AT&TFORM", "djvu"), (b"\x00\x00\x01\x00", "icon"),
    (b"qoif", "qoi"), (b"SQLite format 3\x00", "sqlite"), (b"ID3", "sound"),
    (b"OggS", "sound_or_video"), (b"fLaC", "sound"), (b"\x1aE\xdf\xa3", "video"),
    (b"PAR1", "parquet"), (b"\x00asm", "wasm"), (b"From ", "email"),
)  # fmt: skip
BRANDS = {
    b"heic": "heic", b"heix": "heic", b"mif1": "heif", b"msf1": "heif",
    b"avif": "avif", b"avis": "avif",
}  # fmt: skip
ZIPPED = (
    (b"word/", "docx"), (b"xl/", "xlsx"), (b"ppt/", "pptx"),
    (b"opendocument.", "opendocument"), (b"epub", "epub"), (b"META-INF/", "jar"),
)  # fmt: skip


def sniff(content: bytes) -> Kind:
    """The kind of a file by its first bytes, or `Unreadable`: `empty_file`, or `type_unsupported` with its name."""
    head = content[:HEAD]
    if not head:
        raise Unreadable("empty_file")
    for start, kind in STARTS:
        if head.startswith(start):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Kind.WEBP
    if _is_bmp(head):
        return Kind.BMP
    if b"%PDF-" in head[: PDF_WITHIN + 5]:
        return Kind.PDF
    raise Unreadable("type_unsupported", Message("unreadable.is_other_type", detail=describe_kind(head)))


def _is_bmp(head: bytes) -> bool:
    # Many texts begin with "BM": the size of the header after it must be one that exists.
    return head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in (12, 16, 40, 52, 56, 64, 108, 124)


def describe_kind(head: bytes) -> Message:
    """The format of an unsupported file, with its article."""
    return Message(f"file.{_other(head)}")


def _other(head: bytes) -> str:
    """The name of the format of an unsupported file."""
    for start, name in OTHERS:
        if head.startswith(start):
            return name
    if head[:4] == b"PK\3\4" or head[:4] == b"PK\5\6":
        return next((name for mark, name in ZIPPED if mark in head), "zip")
    if head[4:8] == b"ftyp":
        return BRANDS.get(head[8:12], "video")
    if head[:4] == b"RIFF":
        return "sound_or_video"
    if head[257:262] == b"ustar":
        return "tar"
    return _text(head)


def find_second_format(kind: Kind, head: bytes, tail: bytes) -> Message | None:
    """The second format of a file by its first and last bytes, with its article: some programs read it as that."""
    name = _second_kind(kind, head, tail)
    return None if name is None else Message(f"file.{name}")


def _second_kind(kind: Kind, head: bytes, tail: bytes) -> str | None:
    if kind is Kind.PDF and not head.lstrip(b"\xef\xbb\xbf \t\r\n\x00").startswith(b"%PDF-"):
        first = _other(head[: head.find(b"%PDF-")])
        if first not in NOISE:
            return first
    record = tail.rfind(b"PK\5\6")
    if record >= 0 and len(tail) - record - 22 == int.from_bytes(tail[record + 20 : record + 22], "little"):
        return next((name for mark, name in ZIPPED if mark in tail), "zip")
    if kind is not Kind.PDF:
        return None
    end = tail.rfind(b"%%EOF")
    rest = tail[end + 5 :].strip(b" \t\r\n\0") if end >= 0 else b""
    if b"<html" in rest.lower() or tail.rstrip(b" \t\r\n\0").lower().endswith(b"</html>"):
        return "html"
    trailing = _other(rest[:HEAD]) if rest else NOISE[0]
    return None if trailing in NOISE else trailing


def _text(head: bytes) -> str:
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = head.decode(encoding, errors="replace")
    strange = sum(c == "\ufffd" or (c < " " and c not in "\t\r\n\f") for c in text)
    if strange > 0.1 * len(text) or not text.strip():
        return "unknown"
    start = text.lstrip()[:500].lower()
    if "<svg" in start:
        return "svg"
    if start.startswith(("<!doctype html", "<html", "<head", "<body")) or "<html" in start:
        return "html"
    if start.startswith(("<?xml", "<")):
        return "xml"
    if start.startswith(("{", "[")):
        return "json"
    if start.startswith(("received:", "return-path:", "mime-version:", "message-id:", "delivered-to:")):
        return "email"
    return "text"


def contradiction(name: str, kind: Kind) -> str | None:
    """A note when the extension of a file's name does not match its content."""
    ending = Path(name).suffix.lower()
    if not ending or ending in ENDINGS[kind]:
        return None
    return Message("note.name_misleads", value=quote_value(ending), kind=kind.name)


@contextmanager
def open_source(source: str | os.PathLike[str] | bytes, limits: Limits) -> Iterator[tuple[int, int, Kind]]:
    """A file as descriptor, number of bytes and kind: a regular file, not too large, of a supported kind.

    A path is opened here and not by the child, so that the child needs no access to files.
    """
    if isinstance(source, bytes):
        limits.check_bytes(len(source))
    descriptor = _write_memory_file(source) if isinstance(source, bytes) else _open(os.fspath(source))
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise Unreadable("type_unsupported", Message("unreadable.is_folder"))
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("type_unsupported", Message("unreadable.is_device"))
        limits.check_bytes(status.st_size)
        yield descriptor, status.st_size, sniff(os.pread(descriptor, HEAD, 0))
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    try:
        # Without O_NONBLOCK opening a FIFO waits for a writer.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Unreadable("file_missing", Message("unreadable.cannot_open", text=reason)) from None


def _write_memory_file(content: bytes) -> int:
    """Writes bytes to an anonymous file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("document")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    return descriptor
