"""Which columns have the file's address and take its text."""

from __future__ import annotations

import pytest

from tabellion.config import Config
from tabellion.extractions.columns import ColumnChoice, ColumnNames, ColumnsUnknown, column_choice


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (["id", "storage_path", "ocr_text", "ocr_metadata"], ColumnNames("storage_path", "ocr_text", "ocr_metadata")),
        (["id", "file_url", "extracted_text"], ColumnNames("file_url", "extracted_text", None)),
        (["url", "storage_path", "text", "ocr_text"], ColumnNames("storage_path", "ocr_text", None)),
    ],
)
def test_columns_are_guessed_by_their_names(there: list[str], found: ColumnNames) -> None:
    """The likeliest that the table has; metadata need not be there."""
    assert ColumnChoice().find(there) == found


def test_what_is_configured_wins() -> None:
    """Also over a column with a better name."""
    choice = ColumnChoice("scan", "words", "about")
    assert choice.find(["scan", "words", "about", "storage_path", "ocr_text"]) == ColumnNames("scan", "words", "about")


@pytest.mark.parametrize(
    ("choice", "key"),
    [
        (ColumnChoice(), "extractions.address_column"),
        (ColumnChoice(address="id"), "extractions.text_column"),
        (ColumnChoice(address="id", text="id", metadata="none"), "extractions.metadata_column"),
    ],
)
def test_a_column_that_is_not_there_is_told_with_its_key(choice: ColumnChoice, key: str) -> None:
    """And with the columns to choose from; the row is not to blame, so it waits."""
    with pytest.raises(ColumnsUnknown, match=key) as told:
        choice.find(["id", "blob"])
    assert "blob" in str(told.value)
    assert told.value.after > 0


def test_the_configuration_names_them() -> None:
    """Under `extractions`, for every pipeline on the table."""
    config = Config(sections={"extractions": {"address_column": "scan"}})
    assert column_choice(config) == ColumnChoice("scan")
