"""Writes the portal's documents, except a scanned one: PDF files of plain lines, with a text layer."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN, LEADING, SIZE = 612, 792, 54, 16, 11
LINES = (HEIGHT - 2 * MARGIN) // LEADING  #: of one page


def write_pdf(title: str, pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF of these pages of lines; equal lines give equal bytes."""
    kids = [4 + 2 * number for number in range(len(pages))]
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % kid for kid in kids), len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for kid, lines in zip(kids, pages, strict=True):
        content = _draw(lines)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (WIDTH, HEIGHT, kid + 1)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    objects.append(b"<< /Title (%s) >>" % _escape(title))
    written = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>" % (len(objects) + 1, len(objects))
    return written + b"xref\n0 %d\n0000000000 65535 f \n%s%s\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1, table, trailer, len(written),
    )  # fmt: skip


def _draw(lines: Sequence[str]) -> bytes:
    shown = b"\n".join(b"(%s) Tj T*" % _escape(line) for line in lines[:LINES])
    return b"BT /F1 %d Tf %d TL %d %d Td\n%s\nET" % (SIZE, LEADING, MARGIN, HEIGHT - MARGIN, shown)


def _escape(text: str) -> bytes:
    raw = text.encode("cp1252", "replace")
    return raw.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
