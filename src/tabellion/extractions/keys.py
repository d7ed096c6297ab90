"""Keys of the configuration that every pipeline on the extraction queue has."""

from __future__ import annotations

from collections.abc import Mapping

from tabellion.pipeline import Key

OPEN = "extractions.open"
KEYS: Mapping[str, Key] = {
    OPEN: (list, "folders and `s3://bucket/prefix` addresses that rows may name files in (none)"),
}
VARIABLES: Mapping[str, str] = {"TABELLION_EXTRACTIONS_OPEN": OPEN}
