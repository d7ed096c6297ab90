"""The events of documents as webhook deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabellion.delivery.outbox import outbox

LONG = ("fields", "issues")  #: keys that a large document is sent without; the API returns them


def document_outbox(event: str, document: Mapping[str, Any], endpoint: str | None = None) -> tuple[str, dict[str, Any]]:
    """The statement that writes the deliveries of an event of a document."""
    short = {name: value for name, value in document.items() if name not in LONG}
    return outbox(event, str(document["id"]), document, short=short, endpoint=endpoint)
