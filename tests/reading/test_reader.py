"""Whole documents read in child processes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tabellion.errors import ConfigurationError
from tabellion.reading import reader
from tabellion.reading.limits import MEBI, Limits
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
    """Pages, type, fields and a verdict, from bytes alone."""
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


def test_the_json_has_the_documented_keys(sandbox: Sandbox, tmp_path: Path) -> None:
    """File as given, type, pages with source, quality and size, fields, issues."""
    path = tmp_path / "a.pdf"
    path.write_bytes(papers.pdf(INVOICE))
    result = read_local(path, "invoice", sandbox=sandbox, types=()).as_dict()
    assert result["file"] == str(path)
    assert result["pages"][0] == {
        "number": 1,
        "source": "text",
        "quality": 1.0,
        "size": [595.28, 841.89],
        "rotation": 0,
    }
    assert set(result["fields"]["total"]) == {
        "value", "confidence", "page", "box", "quote", "source", "reasons", "translatable",
    }  # fmt: skip
    assert len(result["fields"]["total"]["box"]) == 4
    assert "error" not in result
    assert result["verdict"] == "accept"


def test_words_are_returned_on_request(sandbox: Sandbox) -> None:
    """With the text and each word's box."""
    result = read_local(papers.pdf(), sandbox=sandbox, words=True, types=()).as_dict(words=True)
    assert "Northern Tool Hire Ltd" in result["text"]
    word, box, score = result["pages"][0]["words"][0]
    assert (word, score, len(box)) == ("Northern", 1.0, 4)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty_file"), (b"%PDF-1.7 nothing more", "pdf_damaged"), (b"PK\x03\x04 a zip", "type_unsupported"),
        (papers.pdf(password="secret"), "pdf_encrypted"),
    ],
)  # fmt: skip
def test_an_unreadable_document_says_why(content: bytes, code: str, sandbox: Sandbox) -> None:
    """An error with a stable code, never an exception."""
    reading = read_local(content, sandbox=sandbox, types=())
    assert reading.error is not None
    assert (reading.error["code"], reading.verdict, reading.fields) == (code, "reject", {})


def test_a_missing_file_is_an_error_of_that_file(sandbox: Sandbox) -> None:
    """The name is reported as given."""
    reading = read_local("no/such.pdf", sandbox=sandbox, types=())
    assert reading.error is not None
    assert (reading.file, reading.error["code"]) == ("no/such.pdf", "file_missing")


def test_a_password_opens(sandbox: Sandbox) -> None:
    """An encrypted PDF is read when its password is given."""
    assert read_local(papers.pdf(INVOICE, password="x"), password="x", sandbox=sandbox, types=()).error is None


def test_an_unknown_type_is_an_error_of_the_caller(sandbox: Sandbox) -> None:
    """Not of the document."""
    with pytest.raises(ConfigurationError, match="invoise"):
        read_local(papers.pdf(), "invoise", sandbox=sandbox, types=())


def test_long_documents_keep_only_the_words_that_fields_need(sandbox: Sandbox) -> None:
    """Every page is listed; the words of the middle are dropped."""
    count = HEAD + TAIL + 20
    seen: list[tuple[int, int]] = []
    reading = read_local(
        papers.pdf(pages=count), sandbox=sandbox, types=(), progress=lambda n, of: seen.append((n, of))
    )
    kept = [page.number for page in reading.pages if page.words]
    assert kept == [*range(1, HEAD + 1), *range(count - TAIL + 1, count + 1)]
    assert seen == [(number, count) for number in range(1, count + 1)]


def test_a_document_without_words_is_not_an_error(sandbox: Sandbox) -> None:
    """A blank page is read, and a note says that it is empty."""
    reading = read_local(papers.pdf(()), sandbox=sandbox, types=(), ocr="never")
    assert reading.error is None
    assert reading.notes == ("no text was found", "it matches none of the document types")


TYPE = """name: hire
version: "{version}"
recognise: [tool hire]
fields:
  {field}: {{type: id, labels: {{en: [invoice no]}}}}
"""


def test_a_reading_records_its_origin(sandbox: Sandbox) -> None:
    """The type's version and key, the bytes' digest, the given name, the time."""
    content = papers.pdf(INVOICE)
    result = read_local(bytearray(content), "invoice", sandbox=sandbox, types=(), name="post/a.pdf").as_dict()
    assert (result["file"], result["sha256"], result["type_version"]) == (
        "post/a.pdf", hashlib.sha256(content).hexdigest(), "1",
    )  # fmt: skip
    assert result["type_key"].startswith("invoice/1/")
    assert result["seconds"] >= 0.0


def test_a_limit_keeps_its_code_when_no_page_is_left() -> None:
    """An image that is too large for its child is not a damaged PDF."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not say")
    with Sandbox(size=1) as pool:
        reading = read_local(
            papers.encoded(papers.drawing(), "JPEG"), sandbox=pool, types=(), limits=Limits(memory=150 * MEBI)
        )  # fmt: skip
    assert reading.error is not None
    assert reading.error["code"] == "resource_limit"


def test_an_invalid_type_affects_only_requests_for_it(sandbox: Sandbox, tmp_path: Path) -> None:
    """Reading continues without it and notes the line; requesting it fails."""
    (tmp_path / "lease.yaml").write_text("name: lease\nversion: [\n")
    reading = read_local(papers.pdf(INVOICE), sandbox=sandbox, types=(tmp_path,))
    assert (reading.error, reading.type) == (None, "invoice")
    (note,) = reading.notes
    assert "the document type lease was skipped" in note
    assert "lease.yaml:" in note
    with pytest.raises(ConfigurationError, match=r"lease\.yaml"):
        read_local(papers.pdf(INVOICE), "lease", sandbox=sandbox, types=(tmp_path,))


def test_an_edited_type_is_reloaded(sandbox: Sandbox, tmp_path: Path) -> None:
    """A child that loaded it before does not use the old version."""
    path = tmp_path / "hire.yaml"
    for version, field in (("1", "number"), ("2", "invoice_number")):
        path.write_text(TYPE.format(version=version, field=field))
        reading = read_local(papers.pdf(INVOICE), path, sandbox=sandbox, types=())
        assert (reading.type_version, values(reading)) == (version, {field: "A-77"})


def test_a_type_is_found_from_the_current_folder(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children started elsewhere read the same file."""
    read_local(papers.pdf(INVOICE), sandbox=sandbox, types=())
    monkeypatch.chdir(tmp_path)
    Path("types").mkdir()
    Path("types/hire.yaml").write_text(TYPE.format(version="1", field="number"))
    for kind in ("hire", "types/hire.yaml"):
        assert values(read_local(papers.pdf(INVOICE), kind, sandbox=sandbox)) == {"number": "A-77"}


def test_more_words_than_a_message_holds_are_trimmed_and_noted(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last pages are used; all pages are listed."""
    monkeypatch.setattr(reader, "FRAME", reader.REST + 4000)
    reading = read_local(papers.pdf(INVOICE, pages=6), sandbox=sandbox, types=(), words=True)
    assert (reading.error, reading.notes, values(reading)["total"]) == (None, (reader.TRIMMED,), "120.00")
    assert [len(page.words) for page in reading.pages] == [len(reading.pages[0].words)] * 6
    pages = list(reading.pages)
    assert [page.number for page in reader._select_fitting_pages(pages, 4000)] == [1, 6]
    assert reader._select_fitting_pages(pages, 1 << 20) == pages


def test_pages_and_embedded_files_fit_a_message_together(sandbox: Sandbox) -> None:
    """The largest embedded files leave room for the words."""
    paper = papers.pdf_with_file("a.xml", b"<a>" + b"x" * 9_990_000 + b"</a>")
    assert read_local(paper, "receipt", sandbox=sandbox, types=()).error is None


def test_prose_has_no_type_and_no_fields(sandbox: Sandbox) -> None:
    """Text of no known type is read as text, and nothing is invented."""
    reading = read_local(papers.pdf(("Once upon a time", "there was a page")), sandbox=sandbox, types=(), words=True)
    assert (reading.type, reading.fields, reading.issues) == (None, {}, ())
    assert "Once upon a time" in reading.text
    assert reading.verdict == "warn"


def test_a_blank_page_is_not_accepted(sandbox: Sandbox, tmp_path: Path) -> None:
    """Neither without a type nor as a type without required fields: nobody can say that it is right."""
    (tmp_path / "slip.yaml").write_text('name: slip\nversion: "1"\nfields:\n  total: money\n')
    blank = papers.pdf(("",))
    for kind in (None, "slip"):
        reading = read_local(blank, kind, sandbox=sandbox, types=(tmp_path,))
        assert (reading.issues, reading.fields, reading.verdict) == ((), {}, "warn")


def test_a_lost_page_is_an_issue(sandbox: Sandbox) -> None:
    """It may have said something else: the document is not accepted silently."""
    reading = read_local(papers.damaged(papers.pdf(INVOICE, pages=2), 2), sandbox=sandbox, types=())
    assert [page.source for page in reading.pages] == ["text", "failed"]
    assert ("page_failed", "warning") in [(issue.code, issue.severity) for issue in reading.issues]
    assert reading.verdict != "accept"


SCAN = papers.encoded(papers.drawing(INVOICE, (900, 900)), "JPEG")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (SCAN[: len(SCAN) * 3 // 4], "the image is truncated"), (papers.taller(SCAN, 2), "the image is truncated"),
        (papers.pdf(INVOICE).replace(b"startxref", b"startxrfe"), "repaired"),
    ],
    ids=["half a JPEG", "wrong height", "broken startxref"],
)  # fmt: skip
def test_damage_is_an_issue(content: bytes, said: str, sandbox: Sandbox) -> None:
    """What was read is returned, with the note that something may be missing."""
    reading = read_local(content, "invoice", sandbox=sandbox, types=())
    assert reading.fields["vendor"].value == "Northern Tool Hire Ltd"
    (issue,) = [one for one in reading.issues if one.code == "damaged"]
    assert (issue.severity, said in issue.message) == ("warning", True)
    assert reading.verdict != "accept"


def test_the_damaged_page_is_named(sandbox: Sandbox) -> None:
    """Where there are several."""
    frames = [papers.drawing(INVOICE, (900, 900)), papers.drawing(("Second",), (900, 900))]
    content = papers.encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    reading = read_local(content[:-300_000], "invoice", sandbox=sandbox, types=())
    messages = [one.message for one in reading.issues if one.code == "damaged"]
    assert [message.partition(":")[0] for message in messages] == ["page 2"]
