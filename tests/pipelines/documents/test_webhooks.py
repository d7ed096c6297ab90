"""The events of documents as webhook deliveries."""

from __future__ import annotations

import json

from tabellion.delivery.outbox import LARGEST
from tabellion.pipelines.documents.webhooks import document_outbox


def test_a_large_document_is_sent_without_fields_and_issues() -> None:
    """It says so; a smaller one is sent whole."""
    document = {"id": "d1", "status": "completed", "fields": {"x": "y"}, "issues": []}
    _, values = document_outbox("document.completed", document)
    assert json.loads(values["body"])["data"] == document
    _, values = document_outbox("document.completed", {**document, "fields": {"x": "y" * LARGEST}})
    assert json.loads(values["body"])["data"] == {"id": "d1", "status": "completed", "shortened": True}
    assert values["subject"] == "d1"
