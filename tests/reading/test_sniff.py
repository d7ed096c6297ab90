"""Files are recognised by their content, and rejected by name."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.sniff import Kind, contradiction, describe_kind, find_second_format, open_source, sniff
from tests.reading import papers


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return stream.getvalue()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.PDF])
def test_images_are_recognised_by_content(kind: Kind) -> None:
    """What Pillow writes in each of the six formats is recognised."""
    assert sniff(papers.encoded(Image.new("L", (8, 8)), kind.name)) is kind


def test_a_pdf_is_recognised_after_junk() -> None:
    """The header may be within the first 1,024 bytes, not beyond."""
    content = papers.pdf()
    assert sniff(content) is Kind.PDF
    assert sniff(b"\r\nHTTP junk " * 80 + content) is Kind.PDF
    with pytest.raises(Unreadable, match="PDF, PNG"):
        sniff(b"\0" * 1025 + content)


def test_an_empty_file_has_its_own_code() -> None:
    """It is reported as empty."""
    with pytest.raises(Unreadable) as caught:
        sniff(b"")
    assert caught.value.code == "empty_file"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (zipped("a.txt"), "a ZIP archive"),
        (zipped("[Content_Types].xml", "word/document.xml"), "a Word document (DOCX)"),
        (zipped("xl/workbook.xml"), "an Excel workbook (XLSX)"),
        (b"MZ\x90\0", "an executable"),
        (b"\x7fELF\2", "an executable"),
        (b"<!DOCTYPE html><p>", "an HTML page"),
        (b"\xef\xbb\xbf<html>", "an HTML page"),
        (b"<p><svg width='1'/>", "an SVG image"),
        (b"<?xml version='1.0'?><svg/>", "an SVG image"),
        (b"<?xml version='1.0'?><a/>", "XML"),
        (b'{"error": 404}', "JSON"),
        (b"Dear Sir,\nplease", "text"),
        ("déjà vu".encode("utf-16"), "text"),
        (b"\0\0\0\x18ftypheic\0\0", "a HEIC image"),
        (b"\0\0\0\x18ftypavif\0\0", "an AVIF image"),
        (b"\0\0\0\x18ftypisom\0\0", "a video"),
        (b"BM is a text", "text"),
        (b"{\\rtf1", "an RTF document"),
        (b"\x1f\x8b\x08", "a gzip archive"),
        (bytes(range(128, 256)), "an unknown format"),
        (b"Received: from x\r\n", "an email message"),
        (b"RIFF\0\0\0\0WAVE", "an audio or video file"),
        (b"\0" * 50, "an unknown format"),
    ],
)
def test_unsupported_files_are_named(content: bytes, name: str) -> None:
    """Everything else is rejected with what it is."""
    assert describe_kind(content) == name
    with pytest.raises(Unreadable) as caught:
        sniff(content)
    assert caught.value.code == "type_unsupported"
    assert f"this is {name};" in str(caught.value)


def test_a_name_that_contradicts_the_content_is_noted() -> None:
    """The extension is compared with the content and only noted."""
    assert contradiction("a.pdf", Kind.PNG) == "the file name ends in '.pdf', but the content is PNG"
    assert contradiction("a.JPG", Kind.JPEG) is None
    assert contradiction("no ending", Kind.PDF) is None


def test_a_file_is_opened_with_its_size_and_kind(tmp_path: Path) -> None:
    """A path and bytes are opened the same way."""
    content = papers.pdf()
    path = tmp_path / "a.pdf"
    path.write_bytes(content)
    for source in (path, str(path), content):
        with open_source(source, Limits()) as (file, size, kind):
            assert (os.pread(file, 9, 0), size, kind) == (content[:9], len(content), Kind.PDF)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_special_files_are_rejected_without_being_read(tmp_path: Path) -> None:
    """Folders, devices, pipes without a writer, missing files and impossible names end at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for source, code, said in (
        (tmp_path, "type_unsupported", "a folder"), ("/dev/zero", "type_unsupported", "not a regular file"),
        (pipe, "type_unsupported", "not a regular file"), (tmp_path / "none", "file_missing", "No such file"),
        ("a\0b", "file_missing", "null"), (b"", "empty_file", "is empty"),
    ):  # fmt: skip
        with pytest.raises(Unreadable, match=said) as caught, open_source(source, Limits()):
            pass
        assert caught.value.code == code


def test_a_large_file_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    """Size is checked on the open file, and on bytes."""
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(1 << 30)
    for source in (path, bytes(2000)):
        with pytest.raises(Unreadable) as caught, open_source(source, Limits(bytes=1000)):
            pass
        assert caught.value.code == "too_large"


def test_appended_content_is_noticed() -> None:
    """An archive by its last record, a page by its letters; noise and embedded files are neither."""
    record = b"PK\5\6" + bytes(16) + b"\3\0abc"
    assert find_second_format(Kind.PDF, b"%PDF-1.7", b"%%EOF" + record) == "a ZIP archive"
    assert find_second_format(Kind.PNG, b"\x89PNG", b"word/document.xml" + record) == "a Word document (DOCX)"
    assert find_second_format(Kind.PDF, b"%PDF-1.7", record + b" endstream\n%%EOF\n") is None
    assert find_second_format(Kind.PDF, b"%PDF-1.7", b"%%EOF\n<HTML>") == "an HTML page"
    assert find_second_format(Kind.PDF, b"%PDF-1.7", b"%%EOF\n-- sent by a mailer") is None
    assert find_second_format(Kind.GIF, b"GIF89a", b"<html></html>") is None
    assert find_second_format(Kind.PDF, b"#!/bin/sh\n%PDF-1.7", b"%%EOF") == "a script"
    assert find_second_format(Kind.PDF, b"\r\nsome mailer's line\n%PDF-1.7", b"%%EOF") is None
