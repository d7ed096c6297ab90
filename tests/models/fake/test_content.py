"""What was sent becomes text: PDFs, images, text files, base64 of either kind."""

from __future__ import annotations

import asyncio
import base64

import pytest

from tabellion.models.fake.content import Reader, UnreadableContent, data_url, decode_base64, picture_size
from tests.models.fake.samples import INVOICE, pdf, png


def read(data: bytes, type: str) -> str:  # noqa: A002
    return asyncio.run(Reader().read(data, type)).text


def test_a_pdf_is_read_from_its_text_layer() -> None:
    """Line by line and page by page, 258 tokens a page."""
    content = asyncio.run(Reader().read(pdf(INVOICE, "second page"), "application/pdf"))
    assert content.text == f"{INVOICE}\nsecond page"
    assert (content.modality, content.tokens) == ("DOCUMENT", 516)


def test_a_pdf_without_text_says_so() -> None:
    """A scan has no text layer: a line with its pages and its hash."""
    assert read(pdf("", ""), "application/pdf").startswith("Document of 2 pages without text, sha256 ")


def test_an_invalid_pdf_is_an_error() -> None:
    """With Gemini's wording."""
    with pytest.raises(UnreadableContent, match="The document has no pages"):
        read(b"%PDF-1.4 but no more", "application/pdf")


def test_a_text_file_is_its_text() -> None:
    """Whatever its charset parameter says."""
    assert read("Total: 5 €".encode(), "text/plain; charset=utf-8") == "Total: 5 €"


def test_an_image_becomes_a_line_with_its_size_and_hash() -> None:
    """The same image gives the same line, another one another."""
    assert read(png(30, 40), "image/png").startswith("Picture 30x40, sha256 ")
    assert read(png(30, 40), "image/png") == read(png(30, 40), "image/png")
    assert read(b"whatever", "image/png").startswith("Picture of unknown size, sha256 ")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_image_sizes_are_read_from_headers(kind: str) -> None:
    """They match what Pillow wrote."""
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (123, 45), "red").save(buffer, kind)
    assert picture_size(buffer.getvalue()) == (123, 45)
    assert picture_size(buffer.getvalue()[:8]) is None


def test_both_base64_alphabets() -> None:
    """Google's client sends the URL-safe one, others the standard one; padding may be missing."""
    data = bytes(range(251, 256)) * 3
    assert decode_base64(base64.b64encode(data).decode()) == data
    assert decode_base64(base64.urlsafe_b64encode(data).decode().rstrip("=")) == data
    with pytest.raises(UnreadableContent):
        decode_base64("not base64!")


def test_data_urls() -> None:
    """Their type and bytes; any other URL is not one."""
    assert data_url("data:image/png;base64,AAEC") == (b"\x00\x01\x02", "image/png")
    assert data_url("data:;name=x;base64,AAEC") == (b"\x00\x01\x02", "application/octet-stream")
    assert data_url("https://example.com/x.png") is None
