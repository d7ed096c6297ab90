"""PDFs give words with their places, images within the limit and embedded files; or a named error."""

from __future__ import annotations

import zlib

import pytest

from tabellion.reading.arrange import arrange
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import Page, Word
from tabellion.reading.pdf import TOO_DEEP, Pdf
from tests.reading import papers

XML = b"<?xml version='1.0'?><rsm:CrossIndustryInvoice/>"
XMP = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""
 xmlns:fx="urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"><fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>
 <fx:DocumentType>INVOICE</fx:DocumentType>
 <fx:ConformanceLevel>EN 16931</fx:ConformanceLevel></rdf:Description></rdf:RDF>"""


def words(content: bytes, **options: object) -> list[Word]:
    pdf = Pdf(content, Limits(), **options)  # type: ignore[arg-type]
    try:
        with pdf.page(0) as page:
            return page.words()
    finally:
        pdf.close()


def found(all_words: list[Word], text: str) -> Word:
    return next(word for word in all_words if word.text == text)


def refusal(content: bytes, password: str | None = None) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        Pdf(content, Limits(), password)
    return caught.value


def test_words_have_the_places_where_they_are_seen() -> None:
    """Boxes are fractions of the page from the top left."""
    read_words = words(papers.pdf())
    assert [word.text for word in read_words[:4]] == ["Northern", "Tool", "Hire", "Ltd"]
    x0, y0, x1, y1 = found(read_words, "Northern").box
    assert x0 == pytest.approx(20 / 210, abs=0.003)
    assert y0 < 30 / 297 < y1  # the baseline
    assert 0.05 < x1 - x0 < 0.15
    assert y1 - y0 < 0.03


@pytest.mark.parametrize(
    ("rotation", "corner"), [(90, (0.9, 0.1)), (180, (0.9, 0.9)), (270, (0.1, 0.9))], ids=["90", "180", "270"]
)
def test_a_rotated_page_is_measured_as_seen(rotation: int, corner: tuple[float, float]) -> None:
    """The top left of the paper is in another corner after the page's own rotation."""
    pdf = Pdf(papers.pdf(rotation=rotation), Limits())
    with pdf.page(0) as page:
        x0, y0, x1, y1 = found(page.words(), "Northern").box
        assert (page.width > page.height) is (rotation in (90, 270))
    pdf.close()
    assert ((x0 + x1) / 2, (y0 + y1) / 2) == pytest.approx(corner, abs=0.1)


@pytest.mark.parametrize("boxes", [b"/MediaBox[200 100 0 0]", b"/MediaBox[0 0 400 400]/CropBox[0 0 200 100]",
                                   b"/MediaBox[-50 -50 200 100]/CropBox[0 0 200 100]"])  # fmt: skip
def test_unusual_boxes_are_measured_as_seen(boxes: bytes) -> None:
    """Swapped corners, a crop box and an origin elsewhere do not move the words."""
    x0, y0, _, y1 = found(words(papers.raw_pdf(boxes)), "Hello").box
    assert x0 == pytest.approx(0.1, abs=0.01)
    assert y0 < 0.5 < y1


def test_words_are_separated_without_spaces() -> None:
    """A horizontal step separates words, kerning does not."""
    stream = b"BT /F1 12 Tf 20 50 Td [(Hel) -60 (lo) -900 (World)] TJ ET"
    assert [word.text for word in words(papers.raw_pdf(b"/MediaBox[0 0 200 100]", stream))] == ["Hello", "World"]


def test_vertical_text_stays_together() -> None:
    """A word printed upwards is one word, higher than wide."""
    (word,) = words(papers.raw_pdf(b"/MediaBox[0 0 200 100]", b"BT /F1 12 Tf 0 1 -1 0 50 20 Tm (Sideways) Tj ET"))
    assert word.text == "Sideways"
    assert word.box[3] - word.box[1] > 3 * (word.box[2] - word.box[0])


def test_form_fields_are_read() -> None:
    """A form field's appearance is part of the page."""
    extra = (
        b"6 0 obj<</Type/Annot/Subtype/Widget/FT/Tx/T(a)/F 4/Rect[20 20 180 40]/AP<</N 7 0 R>>>>endobj\n"
        b"7 0 obj<</Type/XObject/Subtype/Form/BBox[0 0 160 20]/Resources<</Font<</F1 5 0 R>>>>/Length 43>>stream\n"
        b"BT /F1 12 Tf 2 5 Td (Filled in field) Tj ET\nendstream endobj\n"
    )
    read_words = words(papers.raw_pdf(b"/MediaBox[0 0 200 100]/Annots[6 0 R]", extra=extra))
    assert {"Hello", "Filled"} <= {word.text for word in read_words}


def test_lines_follow_the_print() -> None:
    """Arranged words give the printed lines."""
    assert Page(1, 1, 1, "text", words=arrange(words(papers.pdf()), 0.7)).text == "\n".join(papers.LINES)


def test_a_password_is_required_and_used() -> None:
    """Without it and with a wrong one the file is encrypted; with it, it opens."""
    content = papers.pdf(password="view")
    assert refusal(content).code == refusal(content, "wrong").code == "pdf_encrypted"
    assert "requires a password: send a copy without one" in str(refusal(content))
    assert "is wrong" in str(refusal(content, "wrong"))
    assert found(words(content, password="view"), "Northern")


def test_broken_files_are_named_whatever_came_before() -> None:
    """Damaged and empty files have their codes, also after an encrypted one."""
    refusal(papers.pdf(password="view"))
    assert refusal(b"%PDF-1.7\nnothing").code == "pdf_damaged"
    refusal(papers.pdf(password="view"))
    empty = b"%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    assert refusal(empty + b"trailer<</Root 1 0 R>>\n%%EOF").code == "pdf_empty"


def test_too_many_pages_are_rejected() -> None:
    """The number of pages is checked before any is read."""
    with pytest.raises(Unreadable) as caught:
        Pdf(papers.pdf(pages=3), Limits(pages=2))
    assert caught.value.code == "too_many_pages"


def test_embedded_files_come_with_their_names() -> None:
    """Files in the table of names are returned, unless they are too large."""
    content = papers.pdf_with_file("factur-x.xml", XML, XMP)
    assert Pdf(content, Limits()).attachments() == [("factur-x.xml", XML)]
    assert Pdf(content, Limits(attachment_bytes=10)).attachments() == []


def test_embedded_xml_is_found_without_a_table_of_names() -> None:
    """XML that only /AF refers to is found by its stream."""
    content = papers.raw_pdf(b"/MediaBox[0 0 200 100]", extra=papers.loose_file(XML))
    assert Pdf(content, Limits()).attachments() == [("embedded.xml", XML)]


def test_metadata_has_what_the_file_claims_to_be() -> None:
    """Profile, name and type are read from elements or attributes; without them there is no claim."""
    expected = {"facturx": {"profile": "EN 16931", "filename": "factur-x.xml", "type": "INVOICE"}}
    assert Pdf(papers.pdf_with_file("a.xml", XML, XMP), Limits()).claims() == expected
    attributes = b"% zf:ConformanceLevel='BASIC' zf:DocumentFileName=\"ZUGFeRD-invoice.xml\"\n"
    claims = Pdf(papers.raw_pdf(b"/MediaBox[0 0 200 100]", extra=attributes), Limits()).claims()
    assert claims == {"facturx": {"profile": "BASIC", "filename": "ZUGFeRD-invoice.xml"}}
    assert Pdf(papers.pdf(), Limits()).claims() is None


@pytest.mark.parametrize("box", [b"[0 0 2147483647 2147483647]", b"[0 0 900000 1]", b"[0 0 200 100]"])
def test_a_page_is_rendered_within_the_limit(box: bytes) -> None:
    """However large the page claims to be, its image has no more pixels than allowed."""
    limits = Limits(pixels=50_000)
    pdf = Pdf(papers.raw_pdf(b"/MediaBox" + box), limits)
    with pdf.page(0) as page:
        drawn = page.image(dpi=200)
    pdf.close()
    assert drawn.mode == "RGB"
    assert 0 < drawn.width * drawn.height <= limits.pixels * 1.02


def test_a_page_is_rendered_as_seen() -> None:
    """White paper, black print, at the requested width."""
    pdf = Pdf(papers.pdf(), Limits())
    with pdf.page(0) as page:
        drawn = page.image(width=500)
        assert not page.empty()
        assert page.image_coverage() == 0.0
    assert drawn.size == (500, 707)
    assert drawn.getpixel((499, 706)) == (255, 255, 255)
    assert min(drawn.convert("L").tobytes()) < 60


def test_pages_without_size_or_content_fail_alone() -> None:
    """A missing page is an error of that page."""
    pdf = Pdf(papers.pdf(pages=2).replace(b"/Type /Page\n", b"/Type /Pagx\n", 1), Limits())
    with pdf.page(1) as page:
        assert page.words()
    with pytest.raises(ValueError, match="cannot be loaded"), pdf.page(7):
        pass
    pdf.close()


@pytest.mark.parametrize(
    ("matrix", "rotate", "turned"),
    [(b"0 1 -1 0 150 20", 0, 90), (b"-1 0 0 -1 180 50", 0, 180), (b"0 -1 1 0 50 180", 0, 270),
     (b"1 0 0 1 20 50", 90, 270), (b"0 1 -1 0 150 20", 90, 0), (b"1 0 0 1 20 50", 0, 0)],
)  # fmt: skip
def test_sideways_text_is_turned_upright(matrix: bytes, rotate: int, turned: int) -> None:
    """Words are side by side, wider than high, on a page rotated by the reported angle."""
    page = b"/MediaBox[0 0 200 200]/Rotate %d" % rotate
    pdf = Pdf(papers.raw_pdf(page, b"BT /F1 12 Tf %s Tm [(Total) -3000 (120.00)] TJ ET" % matrix), Limits())
    with pdf.page(0) as opened:
        (label, amount), rotation = opened.upright()
    pdf.close()
    assert (label.text, amount.text, rotation) == ("Total", "120.00", turned)
    assert label.box[2] < amount.box[0]
    assert label.box[1] == pytest.approx(amount.box[1], abs=0.001)
    for x0, y0, x1, y1 in (label.box, amount.box):
        assert x1 - x0 > 1.5 * (y1 - y0)


def test_a_note_in_the_margin_does_not_rotate_the_page() -> None:
    """Most of the text decides."""
    stream = b"BT /F1 12 Tf 20 50 Td (Most of the text) Tj ET BT /F1 12 Tf 0 1 -1 0 190 20 Tm (Note) Tj ET"
    pdf = Pdf(papers.raw_pdf(b"/MediaBox[0 0 200 100]", stream), Limits())
    with pdf.page(0) as page:
        assert page.upright()[1] == 0
    pdf.close()


@pytest.mark.parametrize(
    ("content", "whole"),
    [(papers.pdf(), True), (papers.pdf() + b"\n\0\0junk", True), (papers.pdf().partition(b"startxref")[0], False),
     (papers.pdf() + b"\n9 0 obj\n<</Type", False)],
    ids=["whole", "junk", "no end", "half an update"],
)  # fmt: skip
def test_a_repaired_file_is_recognised(content: bytes, whole: bool) -> None:
    """One that has lost its end, or holds half of a newer version, still opens."""
    pdf = Pdf(content, Limits())
    assert (len(pdf), pdf.whole) == (1, whole)
    pdf.close()


@pytest.mark.parametrize(
    ("depth", "words", "damage"), [(20, 4, None), (39, 4, None), (41, 0, TOO_DEEP), (60, 0, TOO_DEEP)]
)
def test_too_deeply_nested_forms_are_recognised(depth: int, words: int, damage: str | None) -> None:
    """PDFium follows forty, and silently drops the rest."""
    pdf = Pdf(papers.nested(depth), Limits())
    with pdf.page(0) as page:
        assert (len(page.words()), page.damage()) == (words, damage)
    pdf.close()


def test_actions_are_found_in_packed_objects() -> None:
    """As most programs write them today."""
    packed = zlib.compress(b"9 0 <</S/JavaScript/JS(app.alert(1))>>")
    stream = papers.stream(b"/Type/ObjStm/N 1/First 4/Filter/FlateDecode", packed)
    pdf = Pdf(papers.raw_pdf(b"/MediaBox[0 0 100 100]", extra=b"8 0 obj" + stream + b" endobj\n"), Limits())
    assert pdf.actions() == ["JavaScript"]
    pdf.close()
