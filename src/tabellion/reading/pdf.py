"""Reads a PDF with PDFium: words of the text layer, drawings of pages, embedded files. Only inside a child."""

from __future__ import annotations

import ctypes
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pypdfium2
import pypdfium2.raw as raw

from tabellion.messages import Message
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import Box, Word
from tabellion.reading.pdf_bytes import actions, has_slipped_xref

if TYPE_CHECKING:
    from PIL.Image import Image

Placing = tuple[float, float, float, float, float, float]

#: More characters than this on one page are not text for people.
CHARACTERS = 200_000
#: A page's objects looked at to see whether a picture covers it.
OBJECTS = 2000
#: Forms within forms deeper than this PDFium leaves out; and how many are followed on each level to see whether it did.
FORMS, FORMS_WIDE = 40, 20
TOO_DEEP = Message("note.forms_too_deep", n=FORMS)
#: Objects are packed by the hundred; so many bytes of them are unpacked to look for actions.
UNPACKED = 16 << 20
#: The longest side of a drawing, in pixels, however thin the page is.
LONGEST = 12_000
#: A step sideways of more than this many heights parts two words even where the PDF has no space between them.
STEP = 0.45
#: So many characters of a page tell which way its text runs; each within so many degrees of a quarter turn.
SAMPLE, STRAIGHT = 1000, 20
#: PDFium's mark for a hyphen at the end of a line.
HYPHENS = {"\x02": "-", "\ufffe": "-"}
LOCKED = Message("unreadable.password_needed")
DAMAGED = Message("unreadable.pdf_cut_off")
#: Metadata says it as an element or as an attribute, with a prefix of its own choice.
VALUE = rb"(?:\s*=\s*[\"']|>)\s*([^<\"']{1,100})"
PROFILE = re.compile(rb"\b(\w{1,20}):ConformanceLevel" + VALUE)
CLAIMS = {"profile": b"ConformanceLevel", "filename": b"DocumentFileName", "version": b"Version"}
NO_PAGES = re.compile(rb"/Kids\s*\[\s*\]|/Count\s+0\b")
A_PAGE = re.compile(rb"/Type\s*/Page\b")
#: What streams have that are something else than the contents of a page.
NO_CONTENTS = re.compile(rb"/(?:(?:Sub|Function)?[Tt]ype|N|Length1|Width)\b")
#: As much of a stream as is unpacked to see whether it can be.
TRIED = 64 << 10
OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
REBUILT = Message("note.pdf_pieced_together")
STREAM = re.compile(rb"<<((?:[^<>]|<<[^<>]*>>|<[^<>]*>){0,2000}?)>>\s*stream\r?\n")


class Pdf:
    """An open PDF."""

    def __init__(self, content: bytes, limits: Limits, password: str | None = None) -> None:
        self._content = content
        self._limits = limits
        self.left_out = 0  #: embedded files that are too large
        try:
            self._document = pypdfium2.PdfDocument(content, password=password)
        except pypdfium2.PdfiumError as error:
            raise _why(content, getattr(error, "err_code", None), bool(password)) from None
        if len(self) == 0:
            raise Unreadable("pdf_empty")
        limits.check_pages(len(self))

    def __len__(self) -> int:
        return len(self._document)

    def close(self) -> None:
        """Let go of everything."""
        self._document.close()

    @property
    def whole(self) -> bool:
        """Whether its end and its table of contents are there: without them PDFium looks for pieces, and finds some."""
        kept = raw.FPDF_DocumentHasValidCrossReferenceTable(self._document) or has_slipped_xref(self._content)
        end = self._content.rfind(b"%%EOF")
        # What begins behind the end is a newer version of the document that does not come to its own.
        return bool(kept) and end >= 0 and not OBJECT.search(self._content, end)

    @cached_property
    def broken(self) -> bool:
        """Whether there are contents of pages that cannot be unpacked. PDFium takes them for empty."""
        if b"/Encrypt" in self._content:
            return False
        for match in STREAM.finditer(self._content):
            dictionary, start = match.group(1), match.end()
            if b"FlateDecode" in dictionary and not NO_CONTENTS.search(dictionary):
                try:
                    zlib.decompressobj().decompress(self._content[start : start + TRIED], TRIED)
                except zlib.error:
                    return True
        return False

    @contextmanager
    def page(self, index: int) -> Iterator[PdfPage]:
        """One page, closed afterwards. `ValueError` when it cannot be loaded."""
        try:
            page = self._document[index]
        except pypdfium2.PdfiumError:
            raise ValueError(Message("unreadable.page_cannot_load")) from None
        try:
            page = self._flat(page, index)
            yield PdfPage(page, self._limits, self._has_many_forms)
        finally:
            page.close()

    def _flat(self, page: Any, index: int) -> Any:
        """What stands in form fields is part of the page only once it is drawn into it."""
        if raw.FPDFPage_GetAnnotCount(page) < 1 or raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != 1:
            return page
        page.close()
        return self._document[index]

    def attachments(self) -> list[tuple[str, bytes]]:
        """Embedded files that are not too large: those in the table of names, or else any XML that is in the file."""
        found: list[tuple[str, bytes]] = []
        for index in range(min(raw.FPDFDoc_GetAttachmentCount(self._document), 100)):
            attachment = self._document.get_attachment(index)
            size = ctypes.c_ulong()
            raw.FPDFAttachment_GetFile(attachment, None, 0, size)
            self.left_out += size.value > self._limits.attachment_bytes
            if 0 < size.value <= self._limits.attachment_bytes:
                try:
                    found.append((attachment.get_name(), bytes(attachment.get_data())))
                except (pypdfium2.PdfiumError, UnicodeDecodeError):
                    continue
        if not any(name.lower().endswith(".xml") for name, _ in found):
            found += self._loose()
        return found

    def _loose(self) -> list[tuple[str, bytes]]:
        """XML that is embedded but only reachable by a road PDFium does not know (/AF of a page or the catalog)."""
        name = (self.claims() or {}).get("facturx", {}).get("filename") or "embedded.xml"
        found = []
        for dictionary, content in self._streams(b"/EmbeddedFile"):
            if dictionary and content.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<") and b"xml" in content[:200]:
                found.append((name, content))
        return found[:10]

    def _streams(self, mark: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Streams whose dictionary has the mark. None hides in another one, so looking at the bytes finds them."""
        if mark not in self._content:
            return
        for match in STREAM.finditer(self._content):
            dictionary, start = match.group(1), match.end()
            if mark not in dictionary:
                continue
            if b"FlateDecode" in dictionary:
                try:
                    rest = memoryview(self._content)[start:]
                    yield dictionary, zlib.decompressobj().decompress(rest, self._limits.attachment_bytes)
                except zlib.error:
                    continue
            elif b"/Filter" not in dictionary:
                end = self._content.find(b"endstream", start, start + self._limits.attachment_bytes)
                if end > 0:
                    yield dictionary, self._content[start:end]

    def actions(self) -> list[str]:
        """What it would have a viewer do: run a script, start a program, send something somewhere."""
        found, left = actions(self._content), UNPACKED
        for _, content in self._streams(b"/ObjStm"):
            found |= actions(content)
            left -= len(content)
            if left < 0:
                break
        return sorted(found)

    @cached_property
    def _has_many_forms(self) -> bool:
        """Whether there are so many forms that they may lie too deep within each other."""
        return self._content.count(b"/Form") > FORMS

    def claims(self) -> dict[str, dict[str, str]] | None:
        """What the file's own metadata says it is: `{"facturx": {"profile", "filename", "version"}}`, or None."""
        texts = [self._content[max(0, match.start() - 5000) :][:10_000] for match in PROFILE.finditer(self._content)]
        texts = texts or [content for _, content in self._streams(b"/XML") if PROFILE.search(content)]
        for text in texts[:5]:
            match = PROFILE.search(text)
            prefix = match.group(1) if match else b""
            told = {}
            for key, name in CLAIMS.items():
                found = re.search(rb"\b" + prefix + b":" + name + VALUE, text)
                if found:
                    told[key] = found.group(1).decode("utf-8", "replace").strip()
            return {"facturx": told}
        return None


class PdfPage:
    """One open page: its size as seen, its words, its picture."""

    def __init__(self, page: Any, limits: Limits, formed: bool = False) -> None:
        self._page, self._limits, self._formed = page, limits, formed
        self.width = float(raw.FPDF_GetPageWidthF(page))
        self.height = float(raw.FPDF_GetPageHeightF(page))
        if not (0 < self.width < math.inf and 0 < self.height < math.inf):
            raise ValueError(Message("unreadable.page_without_size"))

    def words(self) -> list[Word]:
        """The words of the text layer, in the order of the file, with boxes as seen."""
        return self._read(upright=False)[0]

    def upright(self) -> tuple[list[Word], int]:
        """The words, their boxes on the page turned so that most stand upright; and by how many degrees clockwise."""
        return self._read(upright=True)

    def _read(self, *, upright: bool) -> tuple[list[Word], int]:
        textpage = self._page.get_textpage()
        try:
            count = min(raw.FPDFText_CountChars(textpage), CHARACTERS)
            if count <= 0:
                return [], 0
            text = _text(textpage.raw, count)
            slant = _slant(textpage.raw, text)
            rotation = -(slant + 90 * raw.FPDFPage_GetRotation(self._page)) % 360 if upright else 0
            return list(_words(textpage.raw, text, _rotate_placing(self._placing(), slant, rotation), slant)), rotation
        finally:
            textpage.close()

    def _placing(self) -> Placing:
        """The matrix from the page's own space to shares of the page as seen, asked of PDFium itself.

        It knows about rotation, crop boxes and boxes with swapped corners.
        """
        size = 1 << 24
        corners = []
        for x, y in ((0.0, 0.0), (1000.0, 0.0), (0.0, 1000.0)):
            left, top = ctypes.c_int(), ctypes.c_int()
            raw.FPDF_PageToDevice(self._page, 0, 0, size, size, 0, x, y, left, top)
            corners.append((left.value / size, top.value / size))
        (e, f), (x1, y1), (x2, y2) = corners
        return (x1 - e) / 1000, (y1 - f) / 1000, (x2 - e) / 1000, (y2 - f) / 1000, e, f

    def image_coverage(self) -> float:
        """How much of the page images cover, 0..1."""
        covered = 0.0
        left, bottom, right, top = (ctypes.c_float() for _ in range(4))
        for index in range(min(raw.FPDFPage_CountObjects(self._page), OBJECTS)):
            thing = raw.FPDFPage_GetObject(self._page, index)
            # Scanners and some programs wrap the picture in a form.
            if raw.FPDFPageObj_GetType(thing) not in (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_FORM):
                continue
            if raw.FPDFPageObj_GetBounds(thing, left, bottom, right, top):
                covered += max(0.0, right.value - left.value) * max(0.0, top.value - bottom.value)
        return min(1.0, covered / (self.width * self.height))

    def damage(self) -> str | None:
        """Why something of it may be missing: forms lie within forms deeper than PDFium follows them."""
        return TOO_DEEP if self._formed and self._deep() else None

    def _deep(self) -> bool:
        things = [
            raw.FPDFPage_GetObject(self._page, i) for i in range(min(raw.FPDFPage_CountObjects(self._page), OBJECTS))
        ]
        for _ in range(FORMS):
            forms = [one for one in things if raw.FPDFPageObj_GetType(one) == raw.FPDF_PAGEOBJ_FORM][:FORMS_WIDE]
            if not forms:
                return False
            counts = [min(raw.FPDFFormObj_CountObjects(form), OBJECTS) for form in forms]
            things = [
                raw.FPDFFormObj_GetObject(form, i) for form, n in zip(forms, counts, strict=True) for i in range(n)
            ]
        return any(raw.FPDFPageObj_GetType(one) == raw.FPDF_PAGEOBJ_FORM for one in things)

    def empty(self) -> bool:
        """Whether nothing is drawn on it."""
        return bool(raw.FPDFPage_CountObjects(self._page) <= 0)

    def image(self, dpi: float = 200.0, width: int | None = None) -> Image:
        """A drawing of the page, at the resolution or the width asked for, smaller where it would pass the limit."""
        scale = width / self.width if width else dpi / 72
        scale = min(scale, math.sqrt(self._limits.pixels / (self.width * self.height)))
        scale = min(scale, LONGEST / max(self.width, self.height))
        across, down = max(1, round(self.width * scale)), max(1, round(self.height * scale))
        # PDFium's own size is rounded up from the scale; asked for whole pixels it cannot pass the limit.
        bitmap = pypdfium2.PdfBitmap.new_native(across, down, raw.FPDFBitmap_BGR, rev_byteorder=True)
        try:
            bitmap.fill_rect((255, 255, 255, 255), 0, 0, across, down)
            raw.FPDF_RenderPageBitmap(
                bitmap, self._page, 0, 0, across, down, 0, raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER
            )
            drawn: Image = bitmap.to_pil().copy()
            return drawn
        finally:
            bitmap.close()


def _why(content: bytes, code: int | None, given: bool) -> Unreadable:
    # PDFium keeps the code of an earlier document when it fails in a way that has none: the bytes must agree.
    if code == raw.FPDF_ERR_PASSWORD and b"/Encrypt" in content:
        return Unreadable("pdf_encrypted", Message("unreadable.password_wrong") if given else LOCKED)
    if code == raw.FPDF_ERR_SECURITY and b"/Encrypt" in content:
        return Unreadable("pdf_encrypted", Message("unreadable.encryption_unknown"))
    if NO_PAGES.search(content) and not A_PAGE.search(content):
        return Unreadable("pdf_empty")
    return Unreadable("pdf_damaged", DAMAGED)


def _text(textpage: Any, count: int) -> str:
    """One character per character of PDFium's, so that positions match."""
    buffer = (ctypes.c_ushort * (count + 1))()
    raw.FPDFText_GetText(textpage, 0, count, buffer)
    text = bytes(buffer)[: 2 * count].decode("utf-16-le", "replace")
    if len(text) == count and "\0" not in text:
        return text
    codes = (raw.FPDFText_GetUnicode(textpage, index) for index in range(count))
    return "".join(chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd" for code in codes)


def _slant(textpage: Any, text: str) -> int:
    """The quarter turn, in degrees clockwise, by which most of the text is turned on the paper; 0 where most is not."""
    counts = [0, 0, 0, 0]
    places = [index for index, letter in enumerate(text) if not letter.isspace()]
    sample = places[:: len(places) // SAMPLE + 1]
    for index in sample:
        angle = math.degrees(raw.FPDFText_GetCharAngle(textpage, index))
        if abs((angle + 45) % 90 - 45) <= STRAIGHT:
            counts[round(angle / 90) % 4] += 1
    most = max(range(4), key=counts.__getitem__)
    return 90 * most if 2 * counts[most] > len(sample) else 0


def _rotate_placing(placing: Placing, slant: int, rotation: int) -> Placing:
    """The matrix from the space in which text of this slant runs to the right, to shares of the page after rotation."""
    a, b, c, d, e, f = placing
    for _ in range(slant // 90):
        a, b, c, d = -c, -d, a, b
    for _ in range(rotation // 90):
        a, b, c, d, e, f = -b, a, -d, c, 1 - f, e
    return a, b, c, d, e, f


def _words(textpage: Any, text: str, placing: Placing, slant: int = 0) -> Iterator[Word]:
    """Characters joined to words: a space, a step sideways or a jump begins a new one.

    The steps are those along the text: boxes are brought into the space in which it runs to the right.
    """
    rect, strict = raw.FS_RECTF(), [ctypes.c_double() for _ in range(4)]
    reference, box_of = ctypes.byref(rect), raw.FPDFText_GetLooseCharBox
    letters: list[str] = []
    x0 = y0 = x1 = y1 = last = 0.0
    for index, letter in enumerate(text):
        if letter.isspace():
            if letters:
                yield Word("".join(letters), _transform_box(x0, y0, x1, y1, placing))
                letters = []
            continue
        letter = HYPHENS.get(letter, letter)
        if not letter.isprintable() and letter != "\ufffd" and not "\ue000" <= letter <= "\uf8ff":
            continue
        box_of(textpage, index, reference)
        left, bottom, right, top = rect.left, rect.bottom, rect.right, rect.top
        if right <= left or top <= bottom:
            raw.FPDFText_GetCharBox(textpage, index, *strict)
            left, right, bottom, top = (number.value for number in strict)
        for _ in range(slant // 90):
            left, bottom, right, top = -top, left, -bottom, right
        if letters:
            reach = STEP * max(y1 - y0, top - bottom)
            upright = x1 - x0 >= y1 - y0 or len(letters) == 1
            apart = left - x1 > reach or x0 - right > reach or bottom - y1 > reach or y0 - top > reach
            # A jump back to the left on the same height is another word printed there; the letters of a ligature share
            # one place.
            if apart or (upright and left < last - reach and min(top, y1) - max(bottom, y0) > reach and right > x0):
                yield Word("".join(letters), _transform_box(x0, y0, x1, y1, placing))
                letters = []
        if letters:
            x0, y0, x1, y1 = min(x0, left), min(y0, bottom), max(x1, right), max(y1, top)
        else:
            x0, y0, x1, y1 = left, bottom, right, top
        letters.append(letter)
        last = left
    if letters:
        yield Word("".join(letters), _transform_box(x0, y0, x1, y1, placing))


def _transform_box(x0: float, y0: float, x1: float, y1: float, placing: Placing) -> Box:
    a, b, c, d, e, f = placing
    xs = (a * x0 + c * y0 + e, a * x1 + c * y1 + e)
    ys = (b * x0 + d * y0 + f, b * x1 + d * y1 + f)
    return _clamp(min(xs)), _clamp(min(ys)), _clamp(max(xs)), _clamp(max(ys))


def _clamp(share: float) -> float:
    return 0.0 if share < 0 else 1.0 if share > 1 else share
