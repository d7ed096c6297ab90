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

Matrix = tuple[float, float, float, float, float, float]

#: More characters than this on one page are not readable text.
CHARACTERS = 200_000
#: Objects of a page that are checked to see whether a picture covers it.
OBJECTS = 2000
#: The nesting of forms beyond which PDFium omits them; and how many are followed on each level to detect that.
FORMS, FORMS_WIDE = 40, 20
TOO_DEEP = Message("note.forms_too_deep", n=FORMS)
#: Bytes of object streams that are decompressed to look for actions.
UNPACKED = 16 << 20
#: The longest side of a drawing, in pixels, however thin the page is.
LONGEST = 12_000
#: A horizontal gap of more heights than this separates two words even where the PDF has no space between them.
STEP = 0.45
#: Characters of a page sampled for the direction of its text; each within this many degrees of a quarter turn.
SAMPLE, STRAIGHT = 1000, 20
#: PDFium's mark for a hyphen at the end of a line.
HYPHENS = {"\x02": "-", "\ufffe": "-"}
LOCKED = Message("unreadable.password_needed")
DAMAGED = Message("unreadable.pdf_cut_off")
#: A value in the metadata, as an element or an attribute, with any prefix.
VALUE = rb"(?:\s*=\s*[\"']|>)\s*([^<\"']{1,100})"
PROFILE = re.compile(rb"\b(\w{1,20}):ConformanceLevel" + VALUE)
CLAIMS = {"profile": b"ConformanceLevel", "filename": b"DocumentFileName", "type": b"DocumentType"}
NO_PAGES = re.compile(rb"/Kids\s*\[\s*\]|/Count\s+0\b")
A_PAGE = re.compile(rb"/Type\s*/Page\b")
#: Keys of streams that are not the contents of a page.
NO_CONTENTS = re.compile(rb"/(?:(?:Sub|Function)?[Tt]ype|N|Length1|Width)\b")
#: Bytes of a stream that are decompressed to see whether it is intact.
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
        """Closes the document."""
        self._document.close()

    @property
    def whole(self) -> bool:
        """Whether its end and its cross-reference table are intact; without them PDFium recovers only some objects."""
        valid_table = raw.FPDF_DocumentHasValidCrossReferenceTable(self._document) or has_slipped_xref(self._content)
        end = self._content.rfind(b"%%EOF")
        # Objects after the end belong to a newer version of the document that is incomplete.
        return bool(valid_table) and end >= 0 and not OBJECT.search(self._content, end)

    @cached_property
    def is_broken(self) -> bool:
        """Whether contents of a page cannot be decompressed; PDFium reads them as empty."""
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
        """The page with its form fields and annotations drawn into it, because only then is their text read."""
        if raw.FPDFPage_GetAnnotCount(page) < 1 or raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != 1:
            return page
        page.close()
        return self._document[index]

    def attachments(self) -> list[tuple[str, bytes]]:
        """Embedded files within the size limit: those in the table of names, or else any embedded XML in the file."""
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
        """Embedded XML that PDFium does not list (/AF of a page or the catalog)."""
        name = (self.claims() or {}).get("facturx", {}).get("filename") or "embedded.xml"
        found = []
        for dictionary, content in self._streams(b"/EmbeddedFile"):
            if dictionary and content.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<") and b"xml" in content[:200]:
                found.append((name, content))
        return found[:10]

    def _streams(self, mark: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Streams whose dictionary has the mark. Streams are never nested, so a search of the bytes finds them."""
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
        """Actions that a viewer would perform: run a script, start a program, send data."""
        found, budget = actions(self._content), UNPACKED
        for _, content in self._streams(b"/ObjStm"):
            found |= actions(content)
            budget -= len(content)
            if budget < 0:
                break
        return sorted(found)

    @cached_property
    def _has_many_forms(self) -> bool:
        """Whether there are enough forms to be nested too deep."""
        return self._content.count(b"/Form") > FORMS

    def claims(self) -> dict[str, dict[str, str]] | None:
        """The e-invoice declared in the file's metadata: `{"facturx": {"profile", "filename", "type"}}`, or None."""
        texts = [self._content[max(0, match.start() - 5000) :][:10_000] for match in PROFILE.finditer(self._content)]
        texts = texts or [content for _, content in self._streams(b"/XML") if PROFILE.search(content)]
        for text in texts[:5]:
            match = PROFILE.search(text)
            prefix = match.group(1) if match else b""
            values = {}
            for key, name in CLAIMS.items():
                found = re.search(rb"\b" + prefix + b":" + name + VALUE, text)
                if found:
                    values[key] = found.group(1).decode("utf-8", "replace").strip()
            return {"facturx": values}
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
        """The words with boxes on the page rotated so that most are upright, and the rotation in degrees clockwise."""
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
            return list(_words(textpage.raw, text, _rotate_matrix(self._matrix(), slant, rotation), slant)), rotation
        finally:
            textpage.close()

    def _matrix(self) -> Matrix:
        """The matrix from the page's own space to fractions of the page as seen, computed by PDFium.

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
        """The share of the page that images cover, 0..1."""
        covered = 0.0
        left, bottom, right, top = (ctypes.c_float() for _ in range(4))
        for index in range(min(raw.FPDFPage_CountObjects(self._page), OBJECTS)):
            page_object = raw.FPDFPage_GetObject(self._page, index)
            # Scanners and some programs wrap the picture in a form.
            if raw.FPDFPageObj_GetType(page_object) not in (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_FORM):
                continue
            if raw.FPDFPageObj_GetBounds(page_object, left, bottom, right, top):
                covered += max(0.0, right.value - left.value) * max(0.0, top.value - bottom.value)
        return min(1.0, covered / (self.width * self.height))

    def damage(self) -> str | None:
        """Why parts may be missing: forms are nested deeper than PDFium follows them."""
        return TOO_DEEP if self._formed and self._deep() else None

    def _deep(self) -> bool:
        objects = [
            raw.FPDFPage_GetObject(self._page, i) for i in range(min(raw.FPDFPage_CountObjects(self._page), OBJECTS))
        ]
        for _ in range(FORMS):
            forms = [
                page_object for page_object in objects if raw.FPDFPageObj_GetType(page_object) == raw.FPDF_PAGEOBJ_FORM
            ][:FORMS_WIDE]
            if not forms:
                return False
            counts = [min(raw.FPDFFormObj_CountObjects(form), OBJECTS) for form in forms]
            objects = [
                raw.FPDFFormObj_GetObject(form, i) for form, n in zip(forms, counts, strict=True) for i in range(n)
            ]
        return any(raw.FPDFPageObj_GetType(page_object) == raw.FPDF_PAGEOBJ_FORM for page_object in objects)

    def empty(self) -> bool:
        """Whether the page has no objects."""
        return bool(raw.FPDFPage_CountObjects(self._page) <= 0)

    def image(self, dpi: float = 200.0, width: int | None = None) -> Image:
        """A rendering of the page at the given resolution or width, smaller where it would exceed the limit."""
        scale = width / self.width if width else dpi / 72
        scale = min(scale, math.sqrt(self._limits.pixels / (self.width * self.height)))
        scale = min(scale, LONGEST / max(self.width, self.height))
        across, down = max(1, round(self.width * scale)), max(1, round(self.height * scale))
        # PDFium rounds up the size from a scale; with a size in whole pixels it cannot exceed the limit.
        bitmap = pypdfium2.PdfBitmap.new_native(across, down, raw.FPDFBitmap_BGR, rev_byteorder=True)
        try:
            bitmap.fill_rect((255, 255, 255, 255), 0, 0, across, down)
            raw.FPDF_RenderPageBitmap(
                bitmap, self._page, 0, 0, across, down, 0, raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER
            )
            rendered: Image = bitmap.to_pil().copy()
            return rendered
        finally:
            bitmap.close()


def _why(content: bytes, code: int | None, has_password: bool) -> Unreadable:
    # A failure without a code leaves PDFium's code of an earlier document: the bytes must agree.
    if code == raw.FPDF_ERR_PASSWORD and b"/Encrypt" in content:
        return Unreadable("pdf_encrypted", Message("unreadable.password_wrong") if has_password else LOCKED)
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
    """The rotation of most of the text on the page in degrees clockwise, a multiple of 90; 0 where there is none."""
    counts = [0, 0, 0, 0]
    places = [index for index, letter in enumerate(text) if not letter.isspace()]
    sample = places[:: len(places) // SAMPLE + 1]
    for index in sample:
        angle = math.degrees(raw.FPDFText_GetCharAngle(textpage, index))
        if abs((angle + 45) % 90 - 45) <= STRAIGHT:
            counts[round(angle / 90) % 4] += 1
    most = max(range(4), key=counts.__getitem__)
    return 90 * most if 2 * counts[most] > len(sample) else 0


def _rotate_matrix(matrix: Matrix, slant: int, rotation: int) -> Matrix:
    """The matrix from the space where text of this slant runs to the right, to fractions of the rotated page."""
    a, b, c, d, e, f = matrix
    for _ in range(slant // 90):
        a, b, c, d = -c, -d, a, b
    for _ in range(rotation // 90):
        a, b, c, d, e, f = -b, a, -d, c, 1 - f, e
    return a, b, c, d, e, f


def _words(textpage: Any, text: str, matrix: Matrix, slant: int = 0) -> Iterator[Word]:
    """Characters joined to words: a space, a horizontal gap or a jump begins a new word.

    Gaps are measured along the text: boxes are transformed into the space where it runs to the right.
    """
    rect, strict = raw.FS_RECTF(), [ctypes.c_double() for _ in range(4)]
    reference, box_of = ctypes.byref(rect), raw.FPDFText_GetLooseCharBox
    letters: list[str] = []
    x0 = y0 = x1 = y1 = last = 0.0
    for index, letter in enumerate(text):
        if letter.isspace():
            if letters:
                yield Word("".join(letters), _transform_box(x0, y0, x1, y1, matrix))
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
            # A jump back to the left at the same height is another word printed there; the letters of a ligature share
            # one position.
            if apart or (upright and left < last - reach and min(top, y1) - max(bottom, y0) > reach and right > x0):
                yield Word("".join(letters), _transform_box(x0, y0, x1, y1, matrix))
                letters = []
        if letters:
            x0, y0, x1, y1 = min(x0, left), min(y0, bottom), max(x1, right), max(y1, top)
        else:
            x0, y0, x1, y1 = left, bottom, right, top
        letters.append(letter)
        last = left
    if letters:
        yield Word("".join(letters), _transform_box(x0, y0, x1, y1, matrix))


def _transform_box(x0: float, y0: float, x1: float, y1: float, matrix: Matrix) -> Box:
    a, b, c, d, e, f = matrix
    xs = (a * x0 + c * y0 + e, a * x1 + c * y1 + e)
    ys = (b * x0 + d * y0 + f, b * x1 + d * y1 + f)
    return _clamp(min(xs)), _clamp(min(ys)), _clamp(max(xs)), _clamp(max(ys))


def _clamp(share: float) -> float:
    return 0.0 if share < 0 else 1.0 if share > 1 else share
