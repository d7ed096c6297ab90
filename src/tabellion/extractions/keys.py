"""Keys of the configuration that every pipeline on the extraction queue has."""

from __future__ import annotations

from collections.abc import Mapping

from tabellion.pipeline import Key

OPEN = "extractions.open"
KEYS: Mapping[str, Key] = {
    OPEN: (list, "folders and `s3://bucket/prefix` addresses that rows may name files in (none)"),
    "extractions.address_column": (str, "the column of `extraction_queue` with the address of a row's file (guessed)"),
    "extractions.text_column": (str, "its column that the text is written to (guessed)"),
    "extractions.metadata_column": (str, "its column that pages, model, cost and confidence are written to (guessed)"),
}
VARIABLES: Mapping[str, str] = {"TABELLION_EXTRACTIONS_OPEN": OPEN}
