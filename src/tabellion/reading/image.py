"""Opens images with Pillow: sizes checked before decoding, frames as pages, everything converted to plain pixels.

Only inside a child.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from tabellion.messages import Message
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.sniff import Kind

#: Formats whose further frames are pages. A second frame of PNG or WebP is animation.
PAGED = (Kind.TIFF, Kind.GIF)
CUT_OFF = Message("note.image_cut_off")
#: What a truncated JPEG shows without an error where its data has ended: middle grey, 127 in CMYK; and the size of a
#: decoded block.
NOTHING, BLOCK = (128, 127), 8
END, SECTIONS, MORE = b"\xff\xd9", b"\xff\xdd", b"\x55\xaa\x5a\xa5" * 1024
#: What Pillow raises for damaged files.
BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    EOFError,
    AttributeError,
    ZeroDivisionError,
)


class Picture:
    """An open image and its frames."""

    def __init__(self, content: bytes, kind: Kind, limits: Limits) -> None:
        self._content, self._kind, self._limits = content, kind, limits
        self.notes: list[str] = []
        self.damaged: dict[int, str] = {}  #: incomplete frames, and why
        with self._guard():
            self._image = self._open()
            self.count = self._count_frames()

    def _open(self) -> Image.Image:
        # Only the header is read, and Pillow's own check knows no size to report. A WebP is allocated at once, so a
        # much too large one is left to that check.
        Image.MAX_IMAGE_PIXELS = self._limits.pixels if self._kind is Kind.WEBP else None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                image = Image.open(io.BytesIO(self._content), formats=[self._kind.name])
        finally:
            Image.MAX_IMAGE_PIXELS = self._limits.pixels
        self._limits.check_image(*image.size, len(self._content))
        return image

    def _count_frames(self) -> int:
        """The number of frames, counted only up to the limit: a file may have very many."""
        if self._kind not in PAGED:
            return 1
        count = 1
        try:
            while True:
                self._image.seek(count)
                count += 1
                self._limits.check_pages(count)
        except EOFError:
            pass
        except BROKEN:
            self.notes.append(CUT_OFF)
        self._image.seek(0)
        return count

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turns Pillow's warnings and errors about size and damage into `Unreadable`."""
        Image.MAX_IMAGE_PIXELS = self._limits.pixels
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            try:
                yield
            except (Image.DecompressionBombWarning, Image.DecompressionBombError):
                message = Message("unreadable.too_many_pixels", limit=self._limits.pixels)
                raise Unreadable("image_too_large", message) from None
            except UnidentifiedImageError:
                raise Unreadable(
                    "image_damaged", Message("unreadable.image_only_begins", kind=self._kind.name)
                ) from None
            except BROKEN as error:
                reason = (str(error).splitlines() or [""])[0][:200]
                raise Unreadable("image_damaged", Message("unreadable.image_cannot_decode", text=reason)) from None

    def frame(self, index: int) -> Image.Image:
        """One upright frame in plain grey or colour on white; as much as can be decoded, if it is truncated."""
        with self._guard():
            try:
                image = self._load_frame(index)
                if self._kind is Kind.JPEG and self._ran_out(image):
                    self._note(index)
                return plain(image)
            except (Image.DecompressionBombWarning, Image.DecompressionBombError):
                raise
            except BROKEN:
                ImageFile.LOAD_TRUNCATED_IMAGES = True
                try:
                    self._image = self._open()
                    frame = plain(self._load_frame(index))
                finally:
                    ImageFile.LOAD_TRUNCATED_IMAGES = False
                self._note(index)
                return frame

    def _note(self, index: int) -> None:
        self.damaged[index] = CUT_OFF
        if CUT_OFF not in self.notes:
            self.notes.append(CUT_OFF)

    def _ran_out(self, image: Image.Image) -> bool:
        """Whether a JPEG has fewer rows than its header says: more data after its own would change the picture."""
        corner = ((image.width - 1) // BLOCK * BLOCK, (image.height - 1) // BLOCK * BLOCK)
        last = np.asarray(image.crop((*corner, *image.size)))
        if last.min() != last.max() or last.max() not in NOTHING:
            return False
        end = self._content.rfind(END)
        if end < 0 or SECTIONS in self._content:
            return True  # data in marked sections: additional data after the last one would be ignored
        with Image.open(io.BytesIO(self._content[:end] + MORE + self._content[end:]), formats=["JPEG"]) as other:
            other.load()
            return other.tobytes() != image.tobytes()

    def _load_frame(self, index: int) -> Image.Image:
        if index:
            self._image.seek(index)
            self._limits.check_image(*self._image.size)
        self._image.load()
        return self._image

    def close(self) -> None:
        """Closes the image."""
        self._image.close()


def plain(image: Image.Image) -> Image.Image:
    """The image upright by its EXIF data, in 8 bits, grey or colour, on white."""
    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _stretch_contrast(image)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _stretch_contrast(image: Image.Image) -> Image.Image:
    """An image of more than 8 bits, with full contrast: without it a scan of 12 bits would be all dark."""
    values = np.asarray(image).astype(np.float32)
    values = np.nan_to_num(values, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if high <= low:
        return Image.new("L", image.size, 255 if high > 0 else 0)
    return Image.fromarray(((values - low) * (255 / (high - low))).astype(np.uint8))
