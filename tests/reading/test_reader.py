"""Documents read as a whole, in children."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.engine.errors import ConfigurationError
from tabellion.reading.reader import HEAD, TAIL, Reading, read_local
from tabellion.reading.sandbox import Sandbox
from tests.reading import papers

INVOICE = (
    "Northern Tool Hire Ltd", "4 Mill Road", "LS1 4AB Leeds", "", "Invoice No A-77", "Invoice date 14 March 2026",
    "Subtotal 100.00 GBP", "VAT 20% 20.00 GBP", "Total 120.00 GBP",
)  # fmt: skip


def values(reading: Reading) -> dict[str, object]:
    return {name: field.value for name, field in reading.fields.items()}


def test_an_invoice_is_read_from_bytes(sandbox: Sandbox) -> None:
    """Pages, type, fields and a verdict, with nothing but the bytes."""
    reading = read_local(papers.pdf(INVOICE), sandbox=sandbox, types=())
    assert (reading.type, reading.kind, reading.error) == ("invoice", "pdf", None)
    read = values(reading)
    assert (read["vendor"], read["invoice_number"], read["invoice_date"]) == (
        "Northern Tool Hire Ltd",
        "A-77",
        "2026-03-14",
    )
    assert (read["subtotal"], read["tax"], read["total"], read["currency"]) == ("100.00", "20.00", "120.00", "GBP")
    assert [(page.number, page.source) for page in reading.pages] == [(1, "text")]


def test_the_json_has_what_people_script_against(sandbox: Sandbox, tmp_path: Path) -> None:
    """File as given, type, pages with source, quality and size, fields, issues."""
    path = tmp_path / "a.pdf"
    path.write_bytes(papers.pdf(INVOICE))
    told = read_local(path, "invoice", sandbox=sandbox, types=()).told()
    assert told["file"] == str(path)
    assert told["pages"][0] == {"number": 1, "source": "text", "quality": 1.0, "size": [595.28, 841.89], "rotation": 0}
    assert set(told["fields"]["total"]) == {"value", "confidence", "page", "box", "quote", "source", "reasons"}
    assert len(told["fields"]["total"]["box"]) == 4
    assert "error" not in told
    assert told["verdict"] in ("accept", "warn")


def test_words_are_told_on_request(sandbox: Sandbox) -> None:
    """With words come the text and each word's box."""
    told = read_local(papers.pdf(), sandbox=sandbox, words=True, types=()).told(words=True)
    assert "Northern Tool Hire Ltd" in told["text"]
    word, box, score = told["pages"][0]["words"][0]
    assert (word, score, len(box)) == ("Northern", 1.0, 4)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty_file"), (b"%PDF-1.7 nothing more", "pdf_damaged"), (b"PK\x03\x04 a zip", "type_unsupported"),
        (papers.pdf(password="secret"), "pdf_encrypted"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(content: bytes, code: str, sandbox: Sandbox) -> None:
    """An error with a stable code, never an exception."""
    reading = read_local(content, sandbox=sandbox, types=())
    assert reading.error is not None
    assert (reading.error["code"], reading.verdict, reading.fields) == (code, "reject", {})


def test_a_missing_file_is_an_error_of_that_file(sandbox: Sandbox) -> None:
    """The name is told as given."""
    reading = read_local("no/such.pdf", sandbox=sandbox, types=())
    assert reading.error is not None
    assert (reading.file, reading.error["code"]) == ("no/such.pdf", "file_missing")


def test_a_password_opens(sandbox: Sandbox) -> None:
    """An encrypted PDF is read when its password is given."""
    assert read_local(papers.pdf(INVOICE, password="x"), password="x", sandbox=sandbox, types=()).error is None


def test_an_unknown_type_is_the_callers_mistake(sandbox: Sandbox) -> None:
    """It is not the document that is wrong."""
    with pytest.raises(ConfigurationError, match="invoise"):
        read_local(papers.pdf(), "invoise", sandbox=sandbox, types=())


def test_long_documents_keep_only_the_words_that_fields_need(sandbox: Sandbox) -> None:
    """Every page is told of; the words of the middle are let go."""
    count = HEAD + TAIL + 20
    seen: list[tuple[int, int]] = []
    reading = read_local(
        papers.pdf(pages=count), sandbox=sandbox, types=(), progress=lambda n, of: seen.append((n, of))
    )
    kept = [page.number for page in reading.pages if page.words]
    assert kept == [*range(1, HEAD + 1), *range(count - TAIL + 1, count + 1)]
    assert seen == [(number, count) for number in range(1, count + 1)]


def test_a_document_without_words_is_no_error(sandbox: Sandbox) -> None:
    """A blank page is read, and it is noted that it says nothing."""
    reading = read_local(papers.pdf(()), sandbox=sandbox, types=(), ocr="never")
    assert reading.error is None
    assert reading.notes == ("no text was found",)
