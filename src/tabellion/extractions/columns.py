"""Finds the columns of `extraction_queue` for the file's address and its text: tables made by hand name them freely."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tabellion.errors import RateLimited
from tabellion.extractions.queues import QUEUES
from tabellion.messages import Message, quote_value

if TYPE_CHECKING:
    from tabellion.config import Config

#: Without configuration, the first of these that the table has is used.
ADDRESS = (
    "storage_path", "supabase_path", "storage_url", "file_url", "document_url", "pdf_url", "file_path", "document_path",
    "pdf_path", "url", "path", "file",
)  # fmt: skip
TEXT = ("ocr_text", "extracted_text", "ocr_result", "text", "content")
METADATA = ("ocr_metadata", "ocr_meta", "metadata")
#: The inputs of a search, each with the usual names of its column; those whose column is missing are left out.
INPUTS: Mapping[str, tuple[str, ...]] = {
    "document_number": ("document_number", "numero_inscription", "numero"),
    "lot": ("lot", "lot_number", "numero_lot"),
    "cadastre": ("cadastre",),
    "circonscription": ("circonscription", "circonscription_fonciere", "circumscription"),
    "designation_secondaire": ("designation_secondaire", "secondary_designation"),
}
PAUSE = 60.0  #: seconds until a row is retried whose table lacks a column


log = logging.getLogger("tabellion.extractions")


class ColumnsUnknown(RateLimited):
    """No column of the table is known to be the right one. The rows are not to blame: they wait."""

    def __init__(self, key: str, column: str | None, there: Collection[str]) -> None:
        code = "extraction.column_missing" if column else "extraction.column_unknown"
        super().__init__(PAUSE, Message(code, key=key, value=quote_value(column or ""), known=sorted(there)))


@functools.lru_cache(maxsize=100)
def warn_once(queue: str, why: str) -> None:
    """Logs a warning that the rows of a queue wait, once in the life of the process."""
    log.warning("the rows of %s wait: %s", queue, why)


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns of a table."""

    address: str
    text: str
    metadata: str | None  #: None: the table has no column for it


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The configured columns; None: guessed."""

    address: str | None = None
    text: str | None = None
    metadata: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)

    def find_inputs(self, there: Collection[str]) -> dict[str, str]:
        """The columns of a table with the inputs of a search, by input."""
        found = {}
        for name, usual in INPUTS.items():
            candidates = (self.inputs[name],) if name in self.inputs else usual
            known = [column for column in candidates if column in there]
            if known:
                found[name] = known[0]
        return found

    def find(self, there: Collection[str]) -> ColumnNames:
        """Picks the columns from those of a table; raises ColumnsUnknown, which names the key to set."""
        address = _choose("extractions.address_column", self.address, ADDRESS, there)
        text = _choose("extractions.text_column", self.text, TEXT, there)
        if self.metadata is not None:
            return ColumnNames(address, text, _choose("extractions.metadata_column", self.metadata, (), there))
        return ColumnNames(address, text, next((name for name in METADATA if name in there), None))

    def lacks(self, there: Collection[str]) -> str | None:
        """What `find` would raise for a table with these columns."""
        try:
            self.find(there)
        except ColumnsUnknown as error:
            return str(error)
        return None


def _choose(key: str, configured: str | None, usual: Collection[str], there: Collection[str]) -> str:
    found = [name for name in ((configured,) if configured is not None else usual) if name in there]
    if not found:
        raise ColumnsUnknown(key, configured, there)
    return found[0]


def column_choice(config: Config) -> ColumnChoice:
    """The columns that are configured."""
    section = config.section("extractions")
    inputs: dict[str, str] = {}
    for queue in QUEUES.values():
        columns = config.section(queue.pipeline).get("columns")
        inputs |= {name: columns[name] for name in INPUTS if name in columns} if isinstance(columns, Mapping) else {}
    return ColumnChoice(
        section.get("address_column"), section.get("text_column"), section.get("metadata_column"), inputs
    )
