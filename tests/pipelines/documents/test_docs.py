"""The page on documents says what the code does."""

from __future__ import annotations

import re

from tabellion.pipelines.documents import failure, lookup
from tabellion.pipelines.documents import review_reasons as doubts
from tests.workers import ROOT

PAGE = (ROOT / "docs" / "reference" / "documents.md").read_text()


def test_every_code_is_documented_with_its_meaning() -> None:
    """Those of failures and of reasons, word for word."""
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE))
    for code, meaning in {**failure.CODES, **doubts.REASONS}.items():
        assert listed.get(code) == meaning


def test_every_filter_is_documented() -> None:
    """By its name."""
    for name in lookup.FILTERS:
        assert f"`{name}`" in PAGE
