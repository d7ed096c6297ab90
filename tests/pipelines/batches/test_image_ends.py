"""Images that were cut off, by their structure."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tabellion.models.base import Blob
from tabellion.pipelines.batches.image_ends import has_end
from tests.pipelines.batches.material import picture


def encode(form: str, **options: object) -> Blob:
    """Return a picture in a format."""
    file = io.BytesIO()
    Image.open(io.BytesIO(picture())).save(file, form, **options)
    return Blob(file.getvalue(), f"image/{form.lower()}")


def thumbnail() -> bytes:
    """Return EXIF data with a whole JPEG in it."""
    return b"Exif\0\0" + encode("JPEG").data


WHOLE = {
    "png": encode("PNG"), "jpeg": encode("JPEG"), "progressive": encode("JPEG", progressive=True),
    "thumbnail": encode("JPEG", exif=thumbnail()), "webp": encode("WEBP"), "lossless": encode("WEBP", lossless=True),
}  # fmt: skip


@pytest.mark.parametrize("image", WHOLE.values(), ids=WHOLE)
def test_an_image_has_its_end_or_not(image: Blob) -> None:
    """Whole, and with something appended, it has; without its last bytes it has not, wherever it was cut."""
    assert has_end(image)
    assert has_end(Blob(image.data + b"appended by a camera", image.type))
    for share in (0.1, 0.3, 0.5, 0.9):
        assert not has_end(Blob(image.data[: int(len(image.data) * share)], image.type)), share
    assert not has_end(Blob(image.data[:-2], image.type))


def test_what_is_not_known_is_left_to_the_model() -> None:
    """Other formats, and a JPEG whose segments make no sense."""
    assert has_end(Blob(b"GIF89a", "image/gif"))
    assert has_end(Blob(b"\xff\xd8strange", "image/jpeg"))
