"""Finds the columns with the inputs of a search: tables made by hand name them freely."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tabellion.errors import ConfigurationError, RateLimited
from tabellion.extractions.columns import ADDRESS, INPUTS, PAUSE
from tabellion.messages import Message

#: Without configuration, the first of these that the table has is used.
USUAL: Mapping[str, tuple[str, ...]] = {
    **INPUTS,
    "storage_path": ADDRESS,
    "company": ("company", "company_name", "search_term", "query", "name"),
    "name": ("name", "search_name", "selected_name", "company_name"),
}
SEARCHED = tuple(name for name in USUAL if name != "storage_path")
EXTRACTION = tuple(INPUTS)


class NoSuchColumn(RateLimited):
    """No column of the table is known to be the right one. The rows are not to blame: they wait."""

    def __init__(self, name: str, table: str, there: Collection[str]) -> None:
        key = "extractions.address_column" if name == "storage_path" else f"registries.columns.{name}"
        super().__init__(PAUSE, Message("registry.no_column", table=table, name=name, key=key, known=sorted(there)))


class SearchColumns:
    """The configured and usual columns of each input."""

    def __init__(self, configured: Any = None, address: str | None = None) -> None:
        configured = {} if configured is None else configured
        if not isinstance(configured, Mapping) or any(
            not isinstance(column, str) or not column for column in configured.values()
        ):
            raise ConfigurationError('registries.columns: write columns = { company = "company_name" }')
        for name in configured:
            if name not in USUAL or name == "storage_path":
                raise ConfigurationError(f"registries.columns: unknown name {name!r}; known: {', '.join(SEARCHED)}")
        self._configured: dict[str, str] = dict(configured)
        if address is not None:
            self._configured["storage_path"] = address

    def find(self, name: str, there: Collection[str]) -> str | None:
        """Picks the column from those of a table; None if it has none."""
        usual = (self._configured[name],) if name in self._configured else USUAL[name]
        return next((column for column in usual if column in there), None)

    def require(self, name: str, there: Collection[str], table: str) -> str:
        """Picks the column; raises NoSuchColumn, which names the key to set."""
        found = self.find(name, there)
        if found is None:
            raise NoSuchColumn(name, table, there)
        return found

    def lacks(self, names: Collection[str], there: Collection[str], table: str) -> str | None:
        """What `require` would raise for the first of these names that a table with these columns lacks."""
        missing = [name for name in names if self.find(name, there) is None]
        return str(NoSuchColumn(missing[0], table, there)) if missing else None

    def value(self, name: str, row: Mapping[str, Any]) -> Any:
        """The value in a row; None if the row has no such column."""
        column = self.find(name, row)
        return None if column is None else row[column]
