"""OCR finds words and their places, whatever the orientation of the page."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from tabellion.reading import ocr
from tabellion.reading.arrange import arrange
from tabellion.reading.page import Page, Word
from tests.reading import papers


def text(seen: ocr.OcrResult, aspect: float = 2.0) -> str:
    return Page(1, 1, 1, "ocr", words=arrange(seen.words, aspect)).text


def found(seen: ocr.OcrResult, word: str) -> Word:
    return next(one for one in seen.words if one.text == word)


def test_words_are_read_with_their_places() -> None:
    """Each word has the box of its ink, and a score."""
    image = papers.drawing()
    seen = ocr.see(image)
    assert text(seen) == "\n".join(papers.LINES)
    assert seen.rotation == 0
    assert seen.score > 0.9
    font = ImageFont.load_default(44)
    left = 40 + font.getlength("Invoice ")
    x0, y0, x1, y1 = found(seen, "A-77").box
    assert x0 * 900 == pytest.approx(left, abs=6)
    assert x1 * 900 == pytest.approx(left + font.getlength("A-77"), abs=6)
    assert y0 * 420 < 145 < y1 * 420
    assert 0.9 < found(seen, "A-77").score <= 1.0


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_sideways_or_upside_down_page_is_rotated(turned: int) -> None:
    """The rotation is reported, and boxes are in the upright page."""
    seen = ocr.see(papers.drawing().rotate(-turned, expand=True))
    assert (seen.rotation + turned) % 360 == 0
    assert text(seen) == "\n".join(papers.LINES)
    assert found(seen, "Northern").box == pytest.approx((0.045, 0.08, 0.25, 0.2), abs=0.05)


def test_light_print_on_dark_paper_is_read() -> None:
    """White on black works."""
    assert text(ocr.see(papers.drawing(ink=255, paper=0))) == "\n".join(papers.LINES)


def test_a_long_receipt_is_read_in_bands() -> None:
    """An image many times as long as wide loses no line, and none is read twice."""
    image = Image.new("L", (400, 4000), 255)
    draw = ImageDraw.Draw(image)
    for row in range(40):
        draw.text((20, 20 + 100 * row), f"Article {1000 + row} 12.50", fill=0, font=ImageFont.load_default(34))
    lines = text(ocr.see(image), 0.1).split("\n")
    assert lines == [f"Article {1000 + row} 12.50" for row in range(40)]


def test_an_empty_page_is_empty() -> None:
    """A blank or faintly grained page has no words and no score; no model is run."""
    grain = np.random.default_rng(4).integers(245, 255, (300, 300), dtype=np.uint8)
    for image in (Image.new("L", (1600, 2300), 250), Image.fromarray(grain), Image.new("RGB", (1, 1))):
        assert ocr.see(image) == ocr.OcrResult((), 0.0, 0)


@pytest.mark.parametrize(
    ("before", "letter", "after", "gap", "parts"),
    [
        ("l", ":", "0", 0.3, True), ("2", ":", "5", 0.5, False), ("2", ".", "5", 0.5, False),
        ("e", ",", "q", 0.2, True), ("", "l", ":", 0.8, False), ("", "t", "(", 0.25, True),
        ("", "(", "R", 0.4, False), ("", "5", "S", 0.35, True),
        ("", "a", "b", 0.3, False), ("", "a", "b", 0.5, True), ("", "8", "2", 0.5, True), ("", "R", ".", 0.5, False),
    ],
)  # fmt: skip
def test_a_gap_is_a_space_where_one_may_be(before: str, letter: str, after: str, gap: float, parts: bool) -> None:
    """After punctuation a narrow gap separates words; inside numbers and before punctuation none does."""
    assert (gap > ocr._min_gap(before, letter, after, 0.08)) is parts


def test_lost_spaces_are_found_in_the_ink() -> None:
    """A line read without its spaces is split where there is no ink."""
    font = ImageFont.load_default(40)
    crop = Image.new("RGB", (460, 50), "white")
    draw = ImageDraw.Draw(crop)
    draw.text((4, 0), "Date: 5/3/2018   20:54", fill=0, font=font)
    letters = "Date:5/3/201820:54"
    places, x, rest = [], 4.0, "Date: 5/3/2018   20:54"
    for index, letter in enumerate(rest):
        if letter != " ":
            places.append((x + font.getlength(rest[: index + 1]) + x + font.getlength(rest[:index])) / 2 / 460)
    corners = np.array([[0, 0], [460, 0], [460, 50], [0, 50]], dtype=np.float32)
    line = ocr.OcrLine(corners, np.asarray(crop), letters, 0.9, tuple(places), (0.9,) * len(letters))
    words = list(ocr._words(line, 460, 50))
    assert [word.text for word in words] == ["Date:", "5/3/2018", "20:54"]
    assert all(math.isclose(word.score, 0.9) for word in words)
    assert words[0].box[2] < words[1].box[0] < words[1].box[2] < words[2].box[0]


def test_wide_punctuation_is_normalised() -> None:
    """The recogniser's Chinese punctuation becomes ASCII."""
    assert "（RM）：１，".translate(ocr.NARROW) == "(RM):1,"


def test_the_slope_of_a_skewed_page_is_reported() -> None:
    """From half a degree on; a straight page has none."""
    image = papers.drawing()
    assert ocr.see(image).slope == 0.0
    assert ocr.see(image.rotate(3, fillcolor=255)).slope == pytest.approx(-0.052, abs=0.01)
