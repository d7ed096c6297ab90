"""Draws a page as a picture, optionally with named boxes, so that a person can check them."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from tabellion.messages import Message
from tabellion.reading.child import contents
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import Box
from tabellion.reading.pages import DocumentSource, plain
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.sniff import Kind, open_source, sniff

if TYPE_CHECKING:
    from PIL.Image import Image

ImageFormat = Literal["PNG", "JPEG"]
TASK = "tabellion.reading.draw:render"
WIDTH = 1200
WIDEST = 6000
#: Bytes of the picture in one message.
CHUNK = 4 << 20
LONGEST_LABEL = 40
#: Dark enough for white letters, and easy to tell apart for most people.
COLORS = ("#c0392b", "#1f618d", "#1e8449", "#7d3c98", "#b9560f", "#0e6655", "#a93279", "#5d4037")


def draw(
    source: DocumentSource,
    number: int = 1,
    *,
    boxes: Mapping[str, Box] | None = None,
    rotation: int = 0,
    width: int = WIDTH,
    format: ImageFormat = "PNG",  # noqa: A002 - Pillow's word for it
    sandbox: Sandbox | None = None,
    limits: Limits | None = None,
    password: str | None = None,
) -> bytes:
    """Page `number` of a file as PNG or JPEG, `width` pixels wide, with the boxes drawn and named.

    With a page's `rotation` the picture is rotated upright like the page's boxes.
    """
    if width < 1:
        raise ValueError(f"width is a number of pixels, not {width!r}")
    if format not in get_args(ImageFormat):
        raise ValueError(f"format is one of {', '.join(get_args(ImageFormat))}, not {format!r}")
    if rotation % 90:
        raise ValueError(f"rotation is 0, 90, 180 or 270, not {rotation!r}")
    pool = sandbox or default_sandbox()
    bounds = limits or pool.limits
    clamped = {name: _clamp_box(name, box) for name, box in (boxes or {}).items()}
    arguments = {
        "number": number, "boxes": clamped, "rotation": rotation,
        "width": min(width, WIDEST), "format": format, "password": password, "limits": bounds.as_dict(),
    }  # fmt: skip
    with open_source(plain(source), bounds) as (file, _, _):
        chunks = [base64.b64decode(str(item["chunk"])) for item in pool.run(TASK, arguments, file, bounds)]
    return b"".join(chunks)


def _clamp_box(name: str, box: Box) -> list[float]:
    """A box limited to the page, with its corners in order."""
    if len(box) != 4 or not all(math.isfinite(side) for side in box):
        raise ValueError(f"the box of {name!r} is not four numbers: {box!r}")
    x0, y0, x1, y1 = (min(1.0, max(0.0, float(side))) for side in box)
    return [min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)]


def render(
    file: int,
    number: int,
    boxes: Mapping[str, Any],
    rotation: int,
    width: int,
    format: ImageFormat,  # noqa: A002
    password: str | None,
    limits: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """The task: the picture in pieces."""
    image = page_image(contents(file), number, width, rotation, Limits.from_dict(limits), password)
    if boxes:
        image = image.convert("RGB")
        mark(image, boxes)
    stream = io.BytesIO()
    image.save(stream, format, **({"quality": 85} if format == "JPEG" else {}))
    content = stream.getvalue()
    for start in range(0, len(content), CHUNK):
        yield {"chunk": base64.b64encode(content[start : start + CHUNK]).decode()}


def page_image(
    content: bytes, number: int, width: int, rotation: int, limits: Limits, password: str | None = None
) -> Image:
    """A page as it is seen, rotated clockwise by `rotation`, in the given width."""
    kind = sniff(content)
    if kind is Kind.PDF:
        from tabellion.reading.pdf import Pdf

        pdf = Pdf(content, limits, password)
        try:
            _check_page_number(number, len(pdf))
            with pdf.page(number - 1) as page:
                across = width if rotation % 180 == 0 else max(1, round(width * page.width / page.height))
                image = page.image(width=across)
        except ValueError as error:
            raise Unreadable("pdf_damaged", str(error)) from None
        finally:
            pdf.close()
    else:
        from tabellion.reading.image import Picture

        picture = Picture(content, kind, limits)
        try:
            _check_page_number(number, picture.count)
            image = picture.frame(number - 1)
        finally:
            picture.close()
    if rotation % 360:
        image = image.rotate(-rotation, expand=True)
    height = round(image.height * width / image.width)
    if image.width != width and 0 < width * height <= limits.pixels:
        image = image.resize((width, max(1, height)))
    return image


def _check_page_number(number: int, count: int) -> None:
    if not 1 <= number <= count:
        raise Unreadable("page_missing", Message("unreadable.no_such_page", n=number, total=count))


def mark(image: Image, boxes: Mapping[str, Any]) -> None:
    """Draws each box with its name on a colour picture."""
    from PIL import ImageDraw, ImageFont

    pen = ImageDraw.Draw(image)
    size = max(11, image.width // 80)
    font = ImageFont.load_default(size)
    for index, (name, box) in enumerate(boxes.items()):
        color = COLORS[index % len(COLORS)]
        x0, y0, x1, y1 = (side * length for side, length in zip(box, image.size * 2, strict=True))
        pen.rectangle((x0 - 2, y0 - 2, x1 + 2, y1 + 2), outline=color, width=max(2, size // 6))
        label = "".join(letter for letter in name if letter.isprintable())[:LONGEST_LABEL]
        if not label:
            continue
        across = font.getlength(label) + 6
        left = max(0.0, min(x0 - 2, image.width - across))
        top = y0 - size - 8 if y0 - size - 8 >= 0 else y1 + 2
        pen.rectangle((left, top, left + across, top + size + 6), fill=color)
        pen.text((left + 3, top + 1), label, fill="white", font=font)
