"""Creates the documents the tests read."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence

from fpdf import FPDF
from fpdf.enums import AccessPermission, EncryptionMethod
from PIL import Image, ImageDraw, ImageFont

LINES = ("Northern Tool Hire Ltd", "Invoice A-77", "Date 14 March 2026", "Total 120.00 EUR")


def pdf(
    lines: Sequence[str] = LINES, pages: int = 1, password: str | None = None, rotation: int = 0,
    locked: EncryptionMethod | None = None,
) -> bytes:  # fmt: skip
    """Return a PDF with a text layer, a line every 10 mm from the top left; `locked`: only its owner may change it."""
    paper = FPDF()
    paper.set_font("Helvetica", size=14)
    for _ in range(pages):
        paper.add_page()
        for number, line in enumerate(lines):
            paper.text(20, 30 + 10 * number, line)
    if password:
        paper.set_encryption(owner_password="owner", user_password=password)
    if locked is not None:
        paper.set_encryption("owner", encryption_method=locked, permissions=AccessPermission.none())
    content = bytes(paper.output())
    return content.replace(b"/MediaBox", b"/Rotate %d /MediaBox" % rotation) if rotation else content


def damaged(content: bytes, number: int) -> bytes:
    """Return the PDF with the contents of page `number` corrupted."""
    start = -1
    for _ in range(number):
        start = content.index(b"stream\n", content.index(b"/FlateDecode", start + 1)) + len(b"stream\n")
    return content[:start] + b"\xff" * 20 + content[start + 20 :]


def taller(content: bytes, times: int) -> bytes:
    """Return the JPEG with a header that claims a multiple of its height."""
    start = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2")) + 5
    height = int.from_bytes(content[start : start + 2], "big") * times
    return content[:start] + height.to_bytes(2, "big") + content[start + 2 :]


def pdf_with_file(name: str, content: bytes, metadata: str = "") -> bytes:
    """Return a PDF with an embedded file."""
    paper = FPDF()
    paper.add_page()
    paper.set_font("Helvetica", size=14)
    paper.text(20, 30, LINES[0])
    paper.embed_file(basename=name, bytes=content)
    if metadata:
        paper.set_xmp_metadata(metadata)
    return bytes(paper.output())


def pdf_of(image: Image.Image) -> bytes:
    """Return a PDF whose page is an image from edge to edge."""
    paper = FPDF(unit="pt", format=(image.width / 2, image.height / 2))
    paper.add_page()
    paper.image(image, 0, 0, image.width / 2, image.height / 2)
    return bytes(paper.output())


def raw_pdf(page: bytes, stream: bytes = b"BT /F1 12 Tf 20 50 Td (Hello World) Tj ET", extra: bytes = b"") -> bytes:
    """Return a one-page PDF written by hand: its page dictionary as given, more objects after the fifth."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>" + page + b">>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = b"%PDF-1.7\n"
    for number, content in enumerate(objects, 1):
        body += b"%d 0 obj%s endobj\n" % (number, content)
    return body + extra + b"trailer<</Root 1 0 R/Size 9>>\n%%EOF"


def pdf_of_objects(*objects: bytes) -> bytes:
    """Return a PDF of these objects, the first being its catalog, with its table."""
    body, places = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R>>\n" % (size, table, size)
    return body + head + b"startxref\n%d\n%%%%EOF" % len(body)


def stream(dictionary: bytes, content: bytes) -> bytes:
    """Return the object of a stream."""
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (dictionary, len(content), content)


def nested(depth: int) -> bytes:
    """Return a PDF whose words are in a form nested this deep."""
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources"
    inner = [stream(form + b"<</XObject<</X %d 0 R>>>>" % (6 + place), b"/X Do") for place in range(depth)]
    font = b"<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
    return pdf_of_objects(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</XObject<</X 5 0 R>>>>/Contents 4 0 R>>",
        stream(b"", b"/X Do"),
        *inner,
        stream(form + font, b"BT /F1 12 Tf 50 700 Td (Invoice 12 total 100.00) Tj ET"),
    )


def loose_file(xml: bytes) -> bytes:
    """Return the object of an embedded file that no table of names refers to."""
    packed = zlib.compress(xml)
    head = b"8 0 obj<</Type/EmbeddedFile/Subtype/text#2Fxml/Filter/FlateDecode/Length %d>>stream\n" % len(packed)
    return head + packed + b"\nendstream endobj\n"


def drawing(
    lines: Sequence[str] = LINES, size: tuple[int, int] = (900, 420), ink: int = 0, paper: int = 255
) -> Image.Image:
    """Return an image of printed lines."""
    image = Image.new("L", size, paper)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(44)
    for number, line in enumerate(lines):
        draw.text((40, 30 + 90 * number), line, fill=ink, font=font)
    return image


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    """Return an image as the bytes of a file."""
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()
