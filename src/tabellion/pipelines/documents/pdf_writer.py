"""A small PDF writer: text in Helvetica, lines, boxes, pictures, an attached file, a password. Enough for samples."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
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
_PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")  # of the PDF standard
_MAY_PRINT = -44  #: the permissions that the password protects


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is in points; bold is a little wider."""
    letters = text.translate(_PLAIN)
    total = sum(_WIDTHS[ord(one) - 32] if 32 <= ord(one) < 127 else 556 for one in letters)
    return total * size / 1000 * (1.06 if bold else 1.0)


class Paper:
    """A PDF that is being written, page by page; places are in points from the top left."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.width, self.height = width, height
        self._pages: list[list[bytes]] = [[]]
        self._pictures: list[tuple[bytes, int, int]] = []  #: JPEG, its size in pixels
        self._files: list[tuple[str, bytes]] = []
        self.metadata = ""  #: XMP, for what claims to be something

    def page(self) -> None:
        """Goes on to a new page."""
        self._pages.append([])

    def text(
        self, x: float, y: float, text: str, size: float = 10, *, bold: bool = False,
        align: Literal["left", "right"] = "left",
    ) -> None:  # fmt: skip
        """Writes a line of text; with `align="right"` it ends at x."""
        left = x - text_width(text, size, bold=bold) if align == "right" else x
        written = text.encode("cp1252", "replace")
        for mark in (b"\\", b"(", b")"):
            written = written.replace(mark, b"\\" + mark)
        self._put(f"BT /F{2 if bold else 1} {size:g} Tf {left:.2f} {self.height - y:.2f} Td (".encode() + written
                  + b") Tj ET")  # fmt: skip

    def line(self, x0: float, y0: float, x1: float, y1: float, width: float = 0.7) -> None:
        """Draws a straight line."""
        self._put(f"{width:g} w {x0:.2f} {self.height - y0:.2f} m {x1:.2f} {self.height - y1:.2f} l S".encode())

    def box(self, x: float, y: float, width: float, height: float, grey: float = 0.9) -> None:
        """Fills a rectangle."""
        self._put(f"q {grey:g} g {x:.2f} {self.height - y - height:.2f} {width:.2f} {height:.2f} re f Q".encode())

    def picture(self, jpeg: bytes, pixels: tuple[int, int]) -> None:
        """Covers the page with a JPEG in colour."""
        self._pictures.append((jpeg, *pixels))
        self._put(f"q {self.width} 0 0 {self.height} 0 0 cm /P{len(self._pictures)} Do Q".encode())

    def attach(self, name: str, content: bytes) -> None:
        """Adds an XML file to it, as e-invoices do."""
        self._files.append((name, content))

    def _put(self, drawn: bytes) -> None:
        self._pages[-1].append(drawn)

    def written(self, password: str | None = None) -> bytes:
        """The bytes of the file; the same for the same page, always."""
        count = len(self._pages)
        objects: list[bytes] = [
            b"", b"",  # the catalog and the list of pages, known at the end
            _font("Helvetica"), _font("Helvetica-Bold"),
        ]  # fmt: skip
        pictures = [
            _add(objects, b"/Type/XObject/Subtype/Image/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode"
                 + f"/Width {width}/Height {height}".encode(), jpeg)
            for jpeg, width, height in self._pictures
        ]  # fmt: skip
        shown = "".join(f"/P{place} {number} 0 R" for place, number in enumerate(pictures, 1))
        resources = f"<</Font<</F1 3 0 R/F2 4 0 R>>/XObject<<{shown}>>>>"
        kids = []
        for page in self._pages:
            content = _add(objects, b"/Filter/FlateDecode", zlib.compress(b"\n".join(page)))
            objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {self.width} {self.height}]/Contents {content} 0 R"
                           f"/Resources{resources}>>".encode())  # fmt: skip
            kids.append(f"{len(objects)} 0 R")
        objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {count}>>".encode()
        catalog = b"<</Type/Catalog/Pages 2 0 R" + self._names(objects)
        if self.metadata:
            catalog += b"/Metadata %d 0 R" % _add(objects, b"/Type/Metadata/Subtype/XML", self.metadata.encode())
        objects[0] = catalog + b">>"
        return _file(objects, password)

    def _names(self, objects: list[bytes]) -> bytes:
        named = []
        for name, content in self._files:
            stream = _add(objects, b"/Type/EmbeddedFile/Subtype/text#2Fxml/Filter/FlateDecode", zlib.compress(content))
            objects.append(f"<</Type/Filespec/F({name})/UF({name})/AFRelationship/Data"
                           f"/EF<</F {stream} 0 R>>>>".encode())  # fmt: skip
            named.append(f"({name}) {len(objects)} 0 R")
        return f"/Names<</EmbeddedFiles<</Names[{' '.join(named)}]>>>>".encode() if named else b""


def _font(name: str) -> bytes:
    return f"<</Type/Font/Subtype/Type1/BaseFont/{name}/Encoding/WinAnsiEncoding>>".encode()


def _add(objects: list[bytes], head: bytes, stream: bytes) -> int:
    objects.append(b"<<" + head + b"/Length %d>>stream\n" % len(stream) + stream + b"\nendstream")
    return len(objects)


def _file(objects: Iterable[bytes], password: str | None) -> bytes:
    """The objects as a file with its table of where they are; locked with a password if one is given."""
    bodies = list(objects)
    identity = hashlib.md5(b"".join(bodies), usedforsecurity=False).digest()
    trailer = b"/ID[<%s><%s>]" % (identity.hex().encode(), identity.hex().encode())
    if password is not None:
        key, lock = _locked(password, identity)
        bodies = [_sealed(body, number, key) for number, body in enumerate(bodies, 1)]
        bodies.append(lock)
        trailer += b"/Encrypt %d 0 R" % len(bodies)
    written, places = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return written + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n"
        % (len(bodies) + 1, table, len(bodies) + 1, trailer, len(written))
    )


def _locked(password: str, identity: bytes) -> tuple[bytes, bytes]:
    """The key that the password gives, and the dictionary that checks it: the standard's first and simplest lock."""
    padded = (password.encode("latin-1") + _PADDING)[:32]
    owner = _rc4(_md5(padded)[:5], padded)
    key = _md5(padded + owner + _MAY_PRINT.to_bytes(4, "little", signed=True) + identity)[:5]
    user = _rc4(key, _PADDING)
    lock = f"<</Filter/Standard/V 1/R 2/O<{owner.hex()}>/U<{user.hex()}>/P {_MAY_PRINT}>>"
    return key, lock.encode()


def _sealed(body: bytes, number: int, key: bytes) -> bytes:
    """An object with its stream encrypted. (Texts outside of streams stay: nothing reads them.)"""
    head, mark, rest = body.partition(b"stream\n")
    if not mark:
        return body
    sealing = _md5(key + number.to_bytes(3, "little") + b"\0\0")[:10]
    return head + mark + _rc4(sealing, rest.removesuffix(b"\nendstream")) + b"\nendstream"


def _md5(content: bytes) -> bytes:
    return hashlib.md5(content, usedforsecurity=False).digest()


def _rc4(key: bytes, content: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in content:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
