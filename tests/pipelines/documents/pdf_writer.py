"""A small PDF writer: text in Helvetica, lines and boxes."""

from __future__ import annotations

import zlib
from typing import Literal

WIDTH, HEIGHT = 595, 842  #: A4 in points

#: Widths of Helvetica's letters from the space to the tilde, in thousandths of the size.
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
)  # fmt: skip
_PLAIN = str.maketrans("àâäçéèêëîïôöùûüÀÂÄÇÉÈÊÎÔÖÙÛÜß", "aaaceeeeiioouuuAAACEEEIOOUUUs")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how wide a text is in points; bold is a little wider."""
    letters = text.translate(_PLAIN)
    total = sum(_WIDTHS[ord(one) - 32] if 32 <= ord(one) < 127 else 556 for one in letters)
    return total * size / 1000 * (1.06 if bold else 1.0)


class Paper:
    """A PDF being written page by page; positions are in points from the top left."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.width, self.height = width, height
        self._pages: list[list[bytes]] = [[]]

    def page(self) -> None:
        """Start a new page."""
        self._pages.append([])

    def text(
        self, x: float, y: float, text: str, size: float = 10, *, bold: bool = False,
        align: Literal["left", "right"] = "left",
    ) -> None:  # fmt: skip
        """Write a line of text; with `align="right"` it ends at x."""
        left = x - text_width(text, size, bold=bold) if align == "right" else x
        to_bytes = text.encode("cp1252", "replace")
        for mark in (b"\\", b"(", b")"):
            to_bytes = to_bytes.replace(mark, b"\\" + mark)
        self._put(f"BT /F{2 if bold else 1} {size:g} Tf {left:.2f} {self.height - y:.2f} Td (".encode() + to_bytes
                  + b") Tj ET")  # fmt: skip

    def line(self, x0: float, y0: float, x1: float, y1: float, width: float = 0.7) -> None:
        """Draw a straight line."""
        self._put(f"{width:g} w {x0:.2f} {self.height - y0:.2f} m {x1:.2f} {self.height - y1:.2f} l S".encode())

    def box(self, x: float, y: float, width: float, height: float, grey: float = 0.9) -> None:
        """Fill a rectangle."""
        self._put(f"q {grey:g} g {x:.2f} {self.height - y - height:.2f} {width:.2f} {height:.2f} re f Q".encode())

    def _put(self, drawn: bytes) -> None:
        self._pages[-1].append(drawn)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file, always the same for the same pages."""
        bodies = [b"<</Type/Catalog/Pages 2 0 R>>", b"", _font("Helvetica"), _font("Helvetica-Bold")]
        kids = []
        for page in self._pages:
            stream = zlib.compress(b"\n".join(page))
            bodies.append(b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(stream), stream))
            size, contents = f"[0 0 {self.width} {self.height}]", f"{len(bodies)} 0 R"
            bodies.append(f"<</Type/Page/Parent 2 0 R/MediaBox{size}/Contents {contents}"
                          "/Resources<</Font<</F1 3 0 R/F2 4 0 R>>>>>>".encode())  # fmt: skip
            kids.append(f"{len(bodies)} 0 R")
        bodies[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>".encode()
        to_bytes, table = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", b""
        for number, body in enumerate(bodies, 1):
            table += b"%010d 00000 n \n" % len(to_bytes)
            to_bytes += b"%d 0 obj\n%s\nendobj\n" % (number, body)
        return to_bytes + (
            b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
            % (len(bodies) + 1, table, len(bodies) + 1, len(to_bytes))
        )


def _font(name: str) -> bytes:
    return f"<</Type/Font/Subtype/Type1/BaseFont/{name}/Encoding/WinAnsiEncoding>>".encode()
