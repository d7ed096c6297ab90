"""Images become plain upright pixels, frame by frame; too large ones are rejected before decoding."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tabellion.reading.errors import Unreadable
from tabellion.reading.image import CUT_OFF, Picture, plain
from tabellion.reading.limits import Limits
from tabellion.reading.sniff import Kind
from tests.reading import papers


def refusal(content: bytes, kind: Kind, limits: Limits | None = None) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        Picture(content, kind, limits or Limits()).frame(0)
    return caught.value


def ink(image: Image.Image) -> float:
    """Return the mean brightness of the image, 0..255."""
    return float(np.asarray(image.convert("L")).mean())


def test_a_bomb_is_rejected_by_its_header() -> None:
    """144 million pixels in 18 kilobytes are rejected with both numbers."""
    error = refusal(papers.encoded(Image.new("1", (12_000, 12_000))), Kind.PNG)
    assert error.code == "image_too_large"
    assert "144,000,000 pixels; the limit is 64,000,000" in str(error)


def test_a_slightly_too_large_image_is_rejected_too() -> None:
    """With its size, in every format."""
    for kind in (Kind.PNG, Kind.WEBP, Kind.GIF, Kind.TIFF, Kind.JPEG):
        error = refusal(papers.encoded(Image.new("L", (110, 100)), kind.name), kind, Limits(pixels=10_000))
        assert (error.code, "110 x 100 = 11,000 pixels" in str(error)) == ("image_too_large", True)


def test_a_webp_bomb_is_rejected_before_it_is_allocated() -> None:
    """Pillow allocates a WebP when it opens it, and does not say how large one is that it refuses."""
    error = refusal(papers.encoded(Image.new("L", (200, 200)), "WEBP"), Kind.WEBP, Limits(pixels=10_000))
    assert (error.code, getattr(error.args[0], "code", None)) == ("image_too_large", "unreadable.too_many_pixels")


def test_a_growing_gif_is_rejected() -> None:
    """A later frame may enlarge the canvas."""
    frames = [Image.new("L", (20, 20), shade) for shade in (0, 250)]
    content = bytearray(papers.encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    second = content.rindex(b"\x2c\x00\x00\x00\x00")
    content[second + 5 : second + 9] = (1000).to_bytes(2, "little") * 2
    assert refusal(bytes(content), Kind.GIF, Limits(pixels=10_000)).code == "image_too_large"


def test_a_high_compression_ratio_is_rejected() -> None:
    """A large image in a few bytes is a bomb within the limit of pixels."""
    content = papers.encoded(Image.new("L", (4000, 4000), 255), "WEBP", lossless=True)
    assert refusal(content, Kind.WEBP, Limits(pixels=20_000_000, ratio=500)).code == "ratio_exceeded"


def test_only_the_detected_format_is_tried() -> None:
    """A file is not passed to another decoder than the one its first bytes name."""
    assert refusal(papers.encoded(Image.new("L", (8, 8)), "PNG"), Kind.JPEG).code == "image_damaged"


@pytest.mark.parametrize("kind", [Kind.TIFF, Kind.GIF])
def test_frames_are_pages(kind: Kind) -> None:
    """Every frame of a TIFF or GIF is a page, and their number is limited."""
    frames = [Image.new("L", (20, 10), shade) for shade in (0, 120, 250)]
    content = papers.encoded(frames[0], kind.name, save_all=True, append_images=frames[1:])
    picture = Picture(content, kind, Limits())
    assert picture.count == 3
    assert [round(ink(picture.frame(index)), -1) for index in range(3)] == [0, 120, 250]
    picture.close()
    assert refusal(content, kind, Limits(pages=2)).code == "too_many_pages"


def test_a_loop_of_directories_ends() -> None:
    """A TIFF whose second directory points back to its first has at most two pages."""
    frames = [Image.new("L", (20, 10), shade) for shade in (0, 250)]
    content = bytearray(papers.encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
    (first,) = struct.unpack_from("<I", content, 4)
    at = first
    while True:
        (entries,) = struct.unpack_from("<H", content, at)
        (following,) = struct.unpack_from("<I", content, at + 2 + 12 * entries)
        if not following:
            break
        at = following
    struct.pack_into("<I", content, at + 2 + 12 * entries, first)
    assert Picture(bytes(content), Kind.TIFF, Limits(pages=50)).count == 2


def test_an_animation_is_one_page() -> None:
    """Further frames of WebP are not pages."""
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "blue")]
    content = papers.encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    assert Picture(content, Kind.WEBP, Limits()).count == 1


def test_exif_orientation_is_applied() -> None:
    """A photo is rotated as its camera says."""
    image = Image.new("L", (40, 20), 255)
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Picture(papers.encoded(image, "JPEG", exif=exif), Kind.JPEG, Limits())
    assert picture.frame(0).size == (20, 40)


def test_16_bits_become_8() -> None:
    """Grey of 16 bits, even if it uses only 12, keeps its contrast."""
    values = np.full((10, 10), 4095, dtype=np.uint16)
    values[:5] = 100
    image = Picture(papers.encoded(Image.fromarray(values)), Kind.PNG, Limits()).frame(0)
    assert image.mode == "L"
    assert (image.getpixel((0, 0)), image.getpixel((0, 9))) == (0, 255)
    assert plain(Image.fromarray(np.full((4, 4), 65_535, dtype=np.uint16))).getpixel((0, 0)) == 255


def test_transparency_becomes_white() -> None:
    """Transparent parts are white, not black."""
    clear = Image.new("RGBA", (10, 10), (0, 0, 0, 0))
    assert ink(plain(clear)) == 255
    palette = clear.convert("P")
    palette.info["transparency"] = palette.getpixel((0, 0))
    assert ink(plain(palette)) == 255


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        *((mode, "L") for mode in ("1", "L", "I", "F")),
        *((mode, "RGB") for mode in ("P", "RGB", "CMYK", "YCbCr", "LA", "HSV", "LAB")),
    ],
)
def test_every_mode_becomes_grey_or_colour(mode: str, expected: str) -> None:
    """Whatever Pillow decodes becomes L if it has no colours and no transparency, else RGB."""
    assert plain(Image.new(mode, (4, 4))).mode == expected


def test_a_truncated_image_is_read_as_far_as_possible() -> None:
    """The truncation is noted."""
    rows = np.random.default_rng(4).integers(0, 255, (200, 200), dtype=np.uint8)
    content = papers.encoded(Image.fromarray(rows), "JPEG")
    picture = Picture(content[: len(content) // 2], Kind.JPEG, Limits())
    assert picture.frame(0).size == (200, 200)
    assert picture.notes == [CUT_OFF]
    whole = Picture(content, Kind.JPEG, Limits())
    assert whole.frame(0).size == (200, 200)
    assert whole.notes == []


SPECKS = Image.fromarray(np.random.default_rng(4).integers(0, 255, (96, 60), dtype=np.uint8))


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}], ids=str)
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_jpeg_with_fewer_rows_than_its_header_says_is_damaged(mode: str, options: dict[str, Any]) -> None:
    """Its decoder silently fills the rest with grey; the image is marked as damaged."""
    content = papers.encoded(SPECKS.convert(mode), "JPEG", **options)
    whole, short = (Picture(one, Kind.JPEG, Limits()) for one in (content, papers.taller(content, 3)))
    assert (whole.frame(0).size, whole.notes, whole.damaged) == ((60, 96), [], {})
    assert (short.frame(0).size, short.notes, short.damaged) == ((60, 288), [CUT_OFF], {0: CUT_OFF})


def test_a_grey_image_is_not_damaged() -> None:
    """Real grey is not taken for missing rows."""
    picture = Picture(papers.encoded(Image.new("RGB", (64, 64), (128, 128, 128)), "JPEG"), Kind.JPEG, Limits())
    picture.frame(0)
    assert picture.notes == []


def test_every_damaged_frame_is_reported() -> None:
    """Also one after the first."""
    frames = [SPECKS, SPECKS.rotate(180)]
    content = papers.encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    picture = Picture(content[:-1500], Kind.TIFF, Limits())
    assert [picture.frame(index).size for index in range(picture.count)] == [(60, 96), (60, 96)]
    assert picture.damaged == {1: CUT_OFF}


def test_an_image_that_cannot_be_decoded_is_damaged() -> None:
    """A header alone is not an image."""
    content = papers.encoded(Image.new("L", (50, 50)))
    assert refusal(content[:20], Kind.PNG).code == "image_damaged"
    torn = refusal(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" + bytes(200), Kind.JPEG)
    assert str(torn) == "the image cannot be decoded: only its beginning looks like JPEG"
    assert refusal(b"\x89PNG\r\n\x1a\n" + b"x" * 100, Kind.PNG).code == "image_damaged"
