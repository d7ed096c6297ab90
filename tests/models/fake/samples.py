"""Small files to send: PDFs with a text layer, pictures of a given size, and a plain HTTP client."""

from __future__ import annotations

import http.client
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

INVOICE = """Acme Widgets Ltd
Invoice number: INV-2026-117
Vendor name: Acme Widgets
Due date: 30.11.2026
Currency CAD
Subtotal: 1,100.00
Total: 1,234.56
Paid: no
Tags: office, paper"""

INVOICE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "vendor_name": {"type": "string"},
        "total": {"type": "number"},
        "due_date": {"type": "string", "format": "date"},
        "currency": {"type": "string", "enum": ["USD", "CAD"]},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "iban": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "reference": {"type": "string"},
    },
    "required": ["vendor_name", "total", "due_date", "currency", "paid", "tags", "iban", "reference"],
    "additionalProperties": False,
}


def pdf(*pages: str) -> bytes:
    """A PDF with these texts, one a page, in Helvetica."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        lines = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in text.splitlines()]
        drawn = "BT /F1 11 Tf 14 TL 40 800 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {len(objects) + 2} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn.encode("latin-1")))
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    tail = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(body))
    return body + head + table + tail


def png(width: int, height: int) -> bytes:
    """A white picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\x00" + b"\xff" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Reply(NamedTuple):
    """What a plain HTTP client sees."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)


def send(
    url: str, path: str, body: object = None, headers: Mapping[str, str] | None = None, method: str = "POST"
) -> Reply:
    """One request with nothing in between."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data, dict(headers or {}))
        response = connection.getresponse()
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


GOOGLE = {"x-goog-api-key": "k"}
BEARER = {"authorization": "Bearer k"}


def generate(url: str, text: str, model: str = "gemini-2.5-flash", headers: Mapping[str, str] = {}) -> Reply:
    """One generateContent call by hand."""
    body = {"contents": [{"parts": [{"text": text}]}]}
    return send(url, f"/v1beta/models/{model}:generateContent", body, GOOGLE | dict(headers))


def chat(url: str, text: str, model: str = "gpt-4o-mini", headers: Mapping[str, str] = {}) -> Reply:
    """One chat completion by hand."""
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return send(url, "/v1/chat/completions", body, BEARER | dict(headers))
