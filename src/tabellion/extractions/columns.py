"""Which columns of `extraction_queue` have a file's address and take its text; a table made by hand has its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabellion.errors import RateLimited
from tabellion.messages import Message, quote_value

if TYPE_CHECKING:
    from tabellion.config import Config

#: Where nothing is configured: the first of these that the table has.
ADDRESS = (
    "storage_path", "supabase_path", "storage_url", "file_url", "document_url", "pdf_url", "file_path", "document_path",
    "pdf_path", "url", "path", "file",
)  # fmt: skip
TEXT = ("ocr_text", "extracted_text", "ocr_result", "text", "content")
METADATA = ("ocr_metadata", "ocr_meta", "metadata")
PAUSE = 60.0  #: seconds until a row of a table that cannot be worked is looked at again


class ColumnsUnknown(RateLimited):
    """The table has no column that is known to be the one: the rows are not to blame, and wait."""

    def __init__(self, key: str, column: str | None, there: Collection[str]) -> None:
        code = "extraction.column_missing" if column else "extraction.column_unknown"
        super().__init__(PAUSE, Message(code, key=key, value=quote_value(column or ""), known=sorted(there)))


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns of one table."""

    address: str
    text: str
    metadata: str | None  #: None: nothing is said of how the text was made


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """What the configuration says of them; None: guessed."""

    address: str | None = None
    text: str | None = None
    metadata: str | None = None

    def find(self, there: Collection[str]) -> ColumnNames:
        """The columns of a table that has these; raises ColumnsUnknown, which names the key to set."""
        address = _choose("extractions.address_column", self.address, ADDRESS, there)
        text = _choose("extractions.text_column", self.text, TEXT, there)
        if self.metadata is not None:
            return ColumnNames(address, text, _choose("extractions.metadata_column", self.metadata, (), there))
        return ColumnNames(address, text, next((one for one in METADATA if one in there), None))


def _choose(key: str, said: str | None, usual: Collection[str], there: Collection[str]) -> str:
    found = [one for one in ((said,) if said is not None else usual) if one in there]
    if not found:
        raise ColumnsUnknown(key, said, there)
    return found[0]


def column_choice(config: Config) -> ColumnChoice:
    """What the configuration says of them."""
    said = config.section("extractions")
    return ColumnChoice(said.get("address_column"), said.get("text_column"), said.get("metadata_column"))
