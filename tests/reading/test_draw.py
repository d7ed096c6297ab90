"""Pages are rendered in the sandbox, with boxes around the words."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from tabellion.reading.draw import COLORS, draw, mark
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.pages import open_document
from tabellion.reading.sandbox import Sandbox
from tests.reading import papers

RED = tuple(int(COLORS[0][at : at + 2], 16) for at in (1, 3, 5))


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def test_a_page_is_rendered_at_the_requested_width(sandbox: Sandbox) -> None:
    """PDFs and images, as PNG or JPEG."""
    page = opened(draw(papers.pdf(pages=2), 2, width=400, sandbox=sandbox))
    assert (page.format, page.size) == ("PNG", (400, 566))
    image = opened(draw(papers.encoded(papers.drawing()), width=300, format="JPEG", sandbox=sandbox))
    assert (image.format, image.size) == ("JPEG", (300, 140))


def test_a_page_is_rotated_like_its_boxes(sandbox: Sandbox) -> None:
    """A quarter turn swaps width and height."""
    for content in (papers.pdf(), papers.encoded(Image.new("L", (210, 297)))):
        assert opened(draw(content, rotation=90, width=594, sandbox=sandbox)).size == (594, 420)
    corner = Image.new("L", (100, 50), 255)
    corner.paste(0, (0, 0, 20, 20))
    turned = opened(draw(papers.encoded(corner), rotation=90, width=50, sandbox=sandbox))
    assert (turned.getpixel((45, 5)), turned.getpixel((5, 5))) == (0, 255)


def test_boxes_are_drawn_around_their_words(sandbox: Sandbox) -> None:
    """The frame is on the box's edge and its name beside it."""
    content = papers.encoded(Image.new("L", (200, 100), 255))
    plain = opened(draw(content, width=800, sandbox=sandbox)).convert("RGB")
    boxed = opened(draw(content, width=800, boxes={"total": (0.5, 0.5, 0.75, 0.75)}, sandbox=sandbox)).convert("RGB")
    assert plain.getcolors() == [(800 * 400, (255, 255, 255))]
    assert boxed.getpixel((399, 250)) == RED
    assert boxed.getpixel((500, 250)) == (255, 255, 255)
    assert boxed.getpixel((399, 195)) == RED


def test_names_at_the_edges_stay_on_the_page() -> None:
    """A box at the top has its name below, and a long name is cut."""
    image = Image.new("RGB", (400, 400), "white")
    mark(image, {"x" * 500 + "\n": (0.9, 0.0, 1.0, 0.1)})
    assert image.getpixel((398, 50)) == RED


def test_what_cannot_be_rendered_is_rejected(sandbox: Sandbox) -> None:
    """A missing page and a document that cannot be opened are named."""
    small = papers.encoded(Image.new("L", (9, 9)))
    for content, number, code in (
        (papers.pdf(), 2, "page_missing"),
        (small, 0, "page_missing"),
        (papers.pdf(password="x"), 1, "pdf_encrypted"),
        (b"hello", 1, "type_unsupported"),
    ):
        with pytest.raises(Unreadable) as caught:
            draw(content, number, sandbox=sandbox)
        assert caught.value.code == code
    assert draw(papers.pdf(password="x"), password="x", sandbox=sandbox).startswith(b"\x89PNG")


def test_absurd_sizes_are_rendered_small(sandbox: Sandbox) -> None:
    """A page of many kilometres stays within the limit of pixels, at any requested width."""
    content = papers.raw_pdf(b"/MediaBox[0 0 10 2147483647]")
    drawn = opened(draw(content, width=10**9, sandbox=sandbox, limits=Limits(pixels=1_000_000)))
    assert drawn.width * drawn.height <= 1_020_000


def test_a_rotated_page_matches_its_boxes(sandbox: Sandbox) -> None:
    """Where a word of a sideways text layer is located, there is its ink."""
    content = papers.pdf(("Northern",), rotation=90)
    with open_document(content, sandbox=sandbox) as document:
        (page,) = document
    drawn = opened(draw(content, rotation=page.rotation, width=800, sandbox=sandbox)).convert("L")
    x0, y0, x1, y1 = page.words[0].box
    inked = drawn.point(lambda value: 255 * (value < 128)).getbbox()
    assert inked is not None
    assert x0 * drawn.width - 2 < inked[0] < inked[2] < x1 * drawn.width + 2
    assert y0 * drawn.height - 2 < inked[1] < inked[3] < y1 * drawn.height + 2


def test_boxes_of_any_order_are_drawn_on_the_page(sandbox: Sandbox) -> None:
    """Corners are put in order and kept on the page."""
    content = papers.encoded(Image.new("L", (200, 100), 255))
    straight, odd = (
        draw(content, width=400, boxes={"a": box}, sandbox=sandbox) for box in ((0.5, 0.5, 1, 1), (9, 7, 0.5, 0.5))
    )
    assert straight == odd


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"width": -5}, {"format": "EXE"}, {"rotation": 45}, {"boxes": {"a": (0, 0, 1)}},
                {"boxes": {"a": (0, 0, 1, float("nan"))}}],
)  # fmt: skip
def test_errors_of_the_caller_are_raised(options: dict[str, Any], sandbox: Sandbox) -> None:
    """Before anything is rendered; the document is not at fault."""
    with pytest.raises(ValueError, match="not"):
        draw(papers.encoded(Image.new("L", (9, 9))), sandbox=sandbox, **options)
