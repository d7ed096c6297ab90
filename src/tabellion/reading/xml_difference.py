"""The issue of a printed total that differs from the one in the embedded XML."""

from __future__ import annotations

from typing import Any

from tabellion.messages import Message
from tabellion.reading.issue import Issue
from tabellion.reading.types.rules import format_value

CODE = "xml_differs"


def describe_difference(printed: Any, xml: Any) -> Issue:
    """The issue about these two totals: one may be paid and the other booked."""
    message = Message("issue.xml_differs", value=format_value(printed), xml=format_value(xml))
    return Issue(CODE, "warning", message, ("total",), "the same invoice twice")
