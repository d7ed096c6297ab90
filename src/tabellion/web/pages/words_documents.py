"""Words of the list of documents and of one document."""

from __future__ import annotations

WORDS = {
    "en": {
        "documents.title": "Documents",
    },
    "fr": {
        "documents.title": "Documents",
    },
}
