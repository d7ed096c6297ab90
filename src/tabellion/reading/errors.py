"""Why a document could not be read: one exception with a stable code, and the sentence people get.

Unreadable (Permanent)     its `code` is one of CODES
"""

from __future__ import annotations

from tabellion.errors import Permanent

#: Every code and what it means. Codes are stable: people script against them.
CODES = {
    "empty_file": "the file has no bytes",
    "file_missing": "there is no such file, or it may not be read",
    "type_unsupported": "not one of PDF, PNG, JPEG, WebP, GIF, TIFF, BMP",
    "too_large": "more bytes than the limit",
    "too_many_pages": "more pages than the limit",
    "image_too_large": "more pixels than the limit",
    "ratio_exceeded": "unpacks to far more than its size: a decompression bomb",
    "timed_out": "took longer than the limit",
    "resource_limit": "needed more memory or processor time than the limit",
    "reader_crashed": "the process that read it died",
    "pdf_encrypted": "needs a password",
    "pdf_damaged": "the PDF cannot be opened",
    "pdf_empty": "the PDF has no pages",
    "image_damaged": "the image cannot be decoded",
    "page_missing": "the document has no page of that number",
}
INVALID = "the reader returned an invalid result"


class Unreadable(Permanent):
    """A document could not be read, and trying again will not help."""

    def __init__(self, code: str, message: str = "") -> None:
        self.code = code
        super().__init__(message or CODES[code])
