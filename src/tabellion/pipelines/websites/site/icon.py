"""Redraws a site's icon as a small PNG: files of others are never shown as they are."""

from __future__ import annotations

import base64
import io
import warnings
from typing import Any

SIDE = 64  #: pixels
MOST_PIXELS = 4_000_000
FORMATS = ("PNG", "ICO", "GIF", "JPEG", "WEBP", "BMP")


def redraw_icon(data: bytes) -> dict[str, Any]:
    """The icon as Base64 PNG; empty if it is not an image."""
    from PIL import Image

    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return {"png": ""}
            drawn = image.convert("RGBA")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return {"png": ""}
    drawn.thumbnail((SIDE, SIDE))
    output = io.BytesIO()
    drawn.save(output, "PNG")
    return {"png": base64.b64encode(output.getvalue()).decode()}
