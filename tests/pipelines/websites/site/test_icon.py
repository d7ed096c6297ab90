"""Icons: redrawn as small PNG, or nothing."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable

import pytest
from PIL import Image

from tabellion.pipelines.websites.site.icon import redraw_icon


def image(kind: str, size: tuple[int, int] = (128, 64)) -> bytes:
    output = io.BytesIO()
    Image.new("RGBA" if kind in ("PNG", "ICO") else "RGB", size, "red").save(output, kind)
    return output.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "ICO", "GIF", "JPEG", "WEBP", "BMP"])
def test_an_icon_is_redrawn_as_a_small_png(kind: str) -> None:
    """Whatever format browsers accept."""
    png = base64.b64decode(redraw_icon(image(kind))["png"])
    with Image.open(io.BytesIO(png)) as drawn:
        assert drawn.format == "PNG"
        assert max(drawn.size) == 64


@pytest.mark.parametrize(
    "draw",
    [
        lambda: b"",
        lambda: b"<svg onload=alert(1)>",
        lambda: b"<html>404</html>",
        lambda: image("PNG")[:60],
        lambda: image("PNG", (5000, 5000)),
        lambda: b"\0\0\1\0\1\0",
    ],
    ids=["empty", "svg", "html", "damaged", "huge", "torn"],
)
def test_what_is_not_a_small_image_is_not_drawn(draw: Callable[[], bytes]) -> None:
    """Vectors may contain scripts."""
    assert redraw_icon(draw()) == {"png": ""}
