"""Text written to keep the reader busy."""

from __future__ import annotations

import pytest

from tabellion.reading.fields.reader import read_fields
from tabellion.reading.types import typefile
from tests.reading.fields.paper import paper


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line",
    ["1" * 5000, "1." * 3000, "1 234 " * 1500, "co no reg " * 800, "RM " * 3000 + "1", "· x " * 2000, "Total "
    "" + "." * 6000 + " 12.00",
     "ci-après « " + "' " * 3000, "1/1/" * 2000, "lot numéro " + "12 345 678 , " * 600],
    ids=lambda line: line[:6],
)  # fmt: skip
def test_a_long_line_does_not_hang_the_reader(line: str) -> None:
    """Every pattern ends quickly, whatever the text."""
    for name in ("invoice", "receipt", "deed"):
        assert isinstance(read_fields(paper(line, source="ocr"), typefile.load(name, ())), dict)
