"""A document is opened by path or bytes, streams its pages, and reports which page has which problem."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from fpdf import FPDF
from PIL import Image, ImageDraw, ImageFont

from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import Page
from tabellion.reading.pages import open_document
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.sniff import Kind
from tests.reading import papers


def test_a_pdf_with_text_is_read(sandbox: Sandbox, tmp_path: Path) -> None:
    """Path and bytes give the same pages: numbered, in points, from the text layer."""
    path = tmp_path / "invoice.pdf"
    path.write_bytes(papers.pdf(pages=2))
    for source in (path, path.read_bytes()):
        with open_document(source, sandbox=sandbox) as opened:
            assert (opened.header.kind, opened.header.count) == (Kind.PDF, 2)
            pages = list(opened)
        assert [page.number for page in pages] == [1, 2]
        assert {page.source for page in pages} == {"text"}
        assert pages[0].text == "\n".join(papers.LINES)
        assert pages[0].quality > 0.9
        assert (round(pages[0].width), round(pages[0].height)) == (595, 842)


def test_the_header_has_embedded_files_and_notes(sandbox: Sandbox, tmp_path: Path) -> None:
    """Embedded XML comes with the header, and so does a name that contradicts the content."""
    path = tmp_path / "invoice.png"
    path.write_bytes(papers.pdf_with_file("factur-x.xml", b"<?xml version='1.0'?><a/>"))
    with open_document(path, sandbox=sandbox) as opened:
        assert opened.header.attachments == (("factur-x.xml", b"<?xml version='1.0'?><a/>"),)
        assert opened.header.notes == ("the file name ends in '.png', but the content is PDF",)
        assert repr(opened) == "<OpenDocument PDF, 1 pages>"


def test_a_document_that_cannot_be_opened_fails_at_once(sandbox: Sandbox) -> None:
    """Opening raises the named error of the child."""
    for content, code in (
        (papers.pdf(password="x"), "pdf_encrypted"),
        (b"%PDF-1.4 no", "pdf_damaged"),
        (b"hi", "type_unsupported"),
    ):
        with pytest.raises(Unreadable) as caught:
            open_document(content, sandbox=sandbox)
        assert caught.value.code == code
    with open_document(papers.pdf(password="x"), sandbox=sandbox, password="x") as opened:
        assert len(list(opened)) == 1


def test_limits_reach_the_child(sandbox: Sandbox) -> None:
    """A limit given for one document applies inside."""
    with pytest.raises(Unreadable) as caught:
        open_document(papers.pdf(pages=3), sandbox=sandbox, limits=Limits(pages=2))
    assert caught.value.code == "too_many_pages"


def scan(lines: Sequence[str] = papers.LINES) -> bytes:
    """A PDF that is only an image."""
    return papers.pdf_of(papers.drawing(lines))


def test_a_scan_is_read_by_ocr(sandbox: Sandbox) -> None:
    """A page that is only an image is read by OCR, unless that is disabled."""
    with open_document(scan(), sandbox=sandbox) as opened:
        (page,) = opened
    assert page.source == "ocr"
    assert page.text == "\n".join(papers.LINES)
    assert page.quality > 0.9
    with open_document(scan(), sandbox=sandbox, ocr="never") as opened:
        (page,) = opened
    assert (page.source, page.words) == ("text", ())


def test_ocr_can_be_forced(sandbox: Sandbox) -> None:
    """With `always` a good text layer is not used."""
    with open_document(papers.pdf(papers.LINES[:2]), sandbox=sandbox, ocr="always") as opened:
        (page,) = opened
    assert (page.source, page.text) == ("ocr", "\n".join(papers.LINES[:2]))


def test_an_image_is_read_and_its_size_is_in_pixels(sandbox: Sandbox) -> None:
    """An image is one page, upside down or not."""
    with open_document(papers.encoded(papers.drawing().rotate(90, expand=True)), sandbox=sandbox) as opened:
        assert (opened.header.kind, opened.header.count) == (Kind.PNG, 1)
        (page,) = opened
    assert (page.width, page.height, page.rotation) == (900, 420, 90)
    assert page.text == "\n".join(papers.LINES)


def test_a_bad_frame_does_not_affect_the_others(sandbox: Sandbox) -> None:
    """Blank pages have no words and no error; a page beyond the limit fails alone."""
    frames = [Image.new("L", (50, 50), 255), Image.new("L", (50, 500), 255), Image.new("L", (50, 50), 255)]
    content = papers.encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    with open_document(content, sandbox=sandbox, limits=Limits(pixels=10_000)) as opened:
        pages = list(opened)
    assert [page.source for page in pages] == ["ocr", "failed", "ocr"]
    assert [page.error_code for page in pages] == [None, "image_too_large", None]
    assert "25,000 pixels; the limit is 10,000" in str(pages[1].error)


def test_an_empty_page_of_a_pdf_is_not_read_by_ocr(sandbox: Sandbox) -> None:
    """Nothing drawn, nothing read, no error."""
    with open_document(papers.raw_pdf(b"/MediaBox[0 0 200 100]", b""), sandbox=sandbox) as opened:
        (page,) = opened
    assert (page.source, page.words, page.error) == ("text", (), None)


def test_a_page_that_kills_its_child_fails_alone() -> None:
    """Reading continues after it in a fresh child."""
    with Sandbox(size=1, allowed=("tests.reading.",)) as pool:
        with open_document(papers.pdf(pages=4), sandbox=pool, task="tests.reading.hostile:deadly") as opened:
            pages = list(opened)
        assert [page.source for page in pages] == ["text", "failed", "text", "failed"]
        assert "SIGSEGV" in str(pages[1].error)
        assert [page.error_code for page in pages] == [None, "reader_crashed", None, "reader_crashed"]


def test_a_document_that_kills_every_child_is_abandoned() -> None:
    """After a few crashes the document is unreadable."""
    with Sandbox(size=1, allowed=("tests.reading.",)) as pool:
        opened = open_document(papers.pdf(pages=40), sandbox=pool, task="tests.reading.hostile:deadly")
        with opened, pytest.raises(Unreadable) as caught:
            list(opened)
        assert caught.value.code == "reader_crashed"


def test_invalid_output_of_a_child_is_rejected() -> None:
    """A header or page of another form is an error of the reader."""
    with Sandbox(size=1, allowed=("tests.reading.",)) as pool:
        with pytest.raises(Unreadable) as caught:
            open_document(papers.pdf(), sandbox=pool, task="tests.reading.hostile:mad")
        assert caught.value.code == "reader_crashed"


@pytest.mark.parametrize("task", ["misnumbered", "boundless"])
def test_a_child_cannot_send_other_pages_than_announced(task: str) -> None:
    """Pages with other numbers, or more than the limit, make the document unreadable."""
    with Sandbox(size=1, allowed=("tests.reading.",)) as pool, pytest.raises(Unreadable) as caught:
        _read_some(pool, task)
    assert caught.value.code == "reader_crashed"


@pytest.mark.parametrize("task", ["endless", "dies_at_the_end"])
def test_what_a_child_does_after_the_last_page_is_ignored(task: str) -> None:
    """Pages beyond those it announced are dropped, and a crash has no effect."""
    with Sandbox(size=1, allowed=("tests.reading.",)) as pool:
        assert [page.number for page in _read_some(pool, task)] == [1]
        assert [page.number for page in _read_some(pool, task)] == [1]  # its place in the pool is free again


def _read_some(pool: Sandbox, task: str) -> list[Page]:
    with open_document(papers.pdf(), sandbox=pool, task=f"tests.reading.hostile:{task}") as opened:
        return list(itertools.islice(opened, 20))


def test_a_page_with_sideways_text_is_read_upright(sandbox: Sandbox) -> None:
    """A page that the file itself rotates wrongly has its lines, its size and the correcting rotation."""
    with open_document(papers.pdf(rotation=90), sandbox=sandbox) as opened:
        (page,) = opened
    assert (page.source, page.rotation, page.text) == ("text", 270, "\n".join(papers.LINES))
    assert (round(page.width), round(page.height)) == (595, 842)


def test_rows_of_a_skewed_page_stay_together(sandbox: Sandbox) -> None:
    """A word far to the right of a line is read with it, although the line above is nearer in height."""
    image = Image.new("L", (1600, 600), 255)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(36)
    for row in range(6):
        pen.text((60, 100 + 62 * row), f"Article number {row}", fill=0, font=font)
        pen.text((1350, 100 + 62 * row), f"{row}{row}.00", fill=0, font=font)
    askew = image.rotate(-4, fillcolor=255, resample=Image.Resampling.BICUBIC)
    with open_document(papers.encoded(askew), sandbox=sandbox) as opened:
        (page,) = opened
    assert page.slope == pytest.approx(0.07 * 1600 / 600, abs=0.02)
    assert page.text.split() == [part for row in range(6) for part in ("Article", "number", str(row), f"{row}{row}.00")]


def test_a_page_with_damaged_contents_fails(sandbox: Sandbox) -> None:
    """It is not taken for an empty one; its neighbours are read."""
    with open_document(papers.damaged(papers.pdf(pages=3), 2), sandbox=sandbox) as opened:
        pages = list(opened)
    assert [page.source for page in pages] == ["text", "failed", "text"]
    assert (pages[1].error_code, round(pages[1].width)) == ("pdf_damaged", 595)


def test_a_repaired_document_says_so(sandbox: Sandbox) -> None:
    """In the notes of its header."""
    with open_document(papers.pdf().partition(b"startxref")[0], sandbox=sandbox) as opened:
        (note,) = opened.header.notes
    assert "repaired" in note


def test_embedded_files_that_do_not_fit_are_left_out_and_noted(sandbox: Sandbox) -> None:
    """The smallest are passed on, as many as fit together."""
    paper = FPDF()
    paper.add_page()
    for name, size in (("a.xml", 60), ("b.xml", 50), ("c.xml", 40), ("d.xml", 200)):
        paper.embed_file(basename=name, bytes=b"<a>" + b"x" * size + b"</a>")
    with open_document(bytes(paper.output()), sandbox=sandbox, limits=Limits(attachment_bytes=120)) as opened:
        assert [name for name, _ in opened.header.attachments] == ["b.xml", "c.xml"]
        assert opened.header.notes == ("embedded files skipped because they are too large or too many: 2",)


def test_content_of_any_bytes_like_type_is_accepted(sandbox: Sandbox) -> None:
    """With an optional name, which is compared with the content."""
    content = papers.pdf()
    for source in (bytearray(content), memoryview(content)):
        with open_document(source, sandbox=sandbox, name="scans/a.png") as opened:
            assert opened.header.notes == ("the file name ends in '.png', but the content is PDF",)
            assert opened.sha256 == hashlib.sha256(content).hexdigest()
            assert len(list(opened)) == 1


def test_an_unknown_ocr_mode_is_rejected() -> None:
    """It is an error of the caller, raised at once."""
    with pytest.raises(ValueError, match="auto, never, always, not 'bogus'"):
        open_document(papers.pdf(), ocr="bogus")  # type: ignore[arg-type]
