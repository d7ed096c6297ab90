"""The issue of a printed total that differs from the one in the XML."""

from __future__ import annotations

from tabellion.reading.xml_difference import CODE, describe_difference


def test_both_totals_are_quoted_and_safe_to_print() -> None:
    """Whatever the document contains."""
    issue = describe_difference("1\x1b[31m" + "9" * 99, None)
    assert (issue.code, issue.severity, issue.fields) == (CODE, "warning", ("total",))
    assert issue.message == f"the page shows '1 [31m{'9' * 54}…', but the embedded XML contains (nothing)"
