"""The columns of the file's address and its text."""

from __future__ import annotations

import pytest

from tabellion.config import Config
from tabellion.extractions.columns import ColumnChoice, ColumnNames, ColumnsUnknown, column_choice
from tabellion.extractions.queues import QUEUES, ExtractionQueue


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (["id", "storage_path", "ocr_text", "ocr_metadata"], ColumnNames("storage_path", "ocr_text", "ocr_metadata")),
        (["id", "file_url", "extracted_text"], ColumnNames("file_url", "extracted_text", None)),
        (["url", "storage_path", "text", "ocr_text"], ColumnNames("storage_path", "ocr_text", None)),
    ],
)
def test_columns_are_guessed_by_their_names(there: list[str], found: ColumnNames) -> None:
    """The most likely column of the table; metadata is optional."""
    assert ColumnChoice().find(there) == found


def test_configured_columns_win() -> None:
    """Even over a column with a more usual name."""
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
def test_a_missing_column_is_reported_with_its_key(choice: ColumnChoice, key: str) -> None:
    """The error names the key and the existing columns; the row waits."""
    with pytest.raises(ColumnsUnknown, match=key) as raised:
        choice.find(["id", "blob"])
    assert "blob" in str(raised.value)
    assert raised.value.after > 0


def test_the_configuration_names_them() -> None:
    """The section `extractions` is used by every pipeline on the table."""
    config = Config(sections={"extractions": {"address_column": "scan"}})
    assert column_choice(config) == ColumnChoice("scan")


def test_columns_with_inputs_are_those_of_any_pipeline_on_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pipeline that registers a queue may have `columns` in its section."""
    monkeypatch.setitem(QUEUES, "deeds", ExtractionQueue("deeds", "land", error="error_message"))
    config = Config(sections={"land": {"columns": {"lot": "parcel", "other": "x"}}, "sea": {"columns": {"lot": "no"}}})
    assert column_choice(config).inputs == {"lot": "parcel"}
