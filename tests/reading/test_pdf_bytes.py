"""What can be read from a PDF's bytes."""

from __future__ import annotations

import re

import pytest

from tabellion.reading.limits import Limits
from tabellion.reading.pdf import Pdf
from tabellion.reading.pdf_bytes import actions, has_slipped_xref
from tests.reading import papers

PAPER = papers.pdf()


def shifted(by: int) -> bytes:
    """The PDF with wrong offsets in its table."""
    body, mark, table = PAPER.partition(b"\nxref\n")
    return body + mark + re.sub(rb"(\d{10}) 00000 n", lambda found: b"%010d 00000 n" % (int(found[1]) + by), table)


@pytest.mark.parametrize("by", [-3, 7])
def test_slightly_wrong_offsets_are_not_damage(by: int) -> None:
    """Every object is there: programs miscount, and nothing is lost."""
    content = shifted(by)
    assert has_slipped_xref(content)
    pdf = Pdf(content, Limits())
    assert pdf.whole
    pdf.close()


@pytest.mark.parametrize(
    "content",
    [
        PAPER.replace(b"startxref", b"startxrfe"),
        re.sub(rb"startxref\n\d+", b"startxref\n5", PAPER),
        shifted(-3).replace(b"\n4 0 obj", b"\n4 0 xxx", 1),
        shifted(500),
        shifted(-3).replace(b"/Size", b"/Prev 9\n/Size"),
        shifted(-3)[:-8],
    ],
    ids=["no table", "a table elsewhere", "an object less", "far off", "an older version", "cut off"],
)
def test_a_table_that_points_nowhere_is_damage(content: bytes) -> None:
    """Its former content cannot be known."""
    assert not has_slipped_xref(content)
    pdf = Pdf(content, Limits())
    assert not pdf.whole
    pdf.close()


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        (b"/OpenAction<</S/JavaScript/JS(app.alert(1))>>", {"JavaScript"}), (b"<< /S /Launch /F (sh) >>", {"Launch"}),
        (b"/AA<</O<</S/SubmitForm>>/C<</S/ImportData>>>>", {"SubmitForm", "ImportData"}),
        (b"/OpenAction << /Type /Action /S /URI /URI (http://x) >>", {"URI"}),
        (b"/OpenAction [3 0 R /FitH null]", set()), (b"/OpenAction<</S/GoTo/D[3 0 R/Fit]>>", set()),
        (b"/A<</S/URI/URI(http://x)>>", set()),
    ],
)  # fmt: skip
def test_actions_are_found(objects: bytes, names: set[str]) -> None:
    """Those that do something; page changes and links do not count."""
    assert actions(objects) == names
