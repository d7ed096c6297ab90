"""Which columns of the tables have what a search needs; tables made by hand have their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tabellion.errors import ConfigurationError
from tabellion.extractions.columns import ADDRESS

#: Where nothing is configured: the first of these that the table has.
USUAL: Mapping[str, tuple[str, ...]] = {
    "circonscription": ("circonscription", "circonscription_fonciere", "circumscription"),
    "cadastre": ("cadastre",),
    "designation_secondaire": ("designation_secondaire", "secondary_designation"),
    "lot": ("lot", "lot_number", "numero_lot"),
    "document_number": ("document_number", "numero_inscription", "numero"),
    "storage_path": ADDRESS,
    "company": ("company", "company_name", "search_term", "query", "name"),
    "name": ("name", "search_name", "selected_name", "company_name"),
}
SEARCHED = tuple(name for name in USUAL if name != "storage_path")
EXTRACTION = ("circonscription", "cadastre", "designation_secondaire", "lot", "document_number")


class SearchColumns:
    """The configured and usual columns by what they have."""

    def __init__(self, given: Any = None, address: str | None = None) -> None:
        given = {} if given is None else given
        if not isinstance(given, Mapping) or any(not isinstance(one, str) or not one for one in given.values()):
            raise ConfigurationError('registries.columns: write columns = { company = "company_name" }')
        for name in given:
            if name not in USUAL or name == "storage_path":
                raise ConfigurationError(f"registries.columns: unknown name {name!r}; known: {', '.join(SEARCHED)}")
        self._given: dict[str, str] = dict(given)
        if address is not None:
            self._given["storage_path"] = address

    def find(self, name: str, there: Collection[str]) -> str | None:
        """The column of a table that has these columns."""
        usual = (self._given[name],) if name in self._given else USUAL[name]
        return next((one for one in usual if one in there), None)

    def require(self, name: str, there: Collection[str], table: str) -> str:
        """The same; raises a ConfigurationError that names the key."""
        found = self.find(name, there)
        if found is None:
            raise ConfigurationError(
                f"{table} has no column for {name}: name it in registries.columns = {{ {name} = … }}; "
                f"its columns: {', '.join(sorted(there))}"
            )
        return found

    def value(self, name: str, row: Mapping[str, Any]) -> Any:
        """What a row has of it; None: nothing."""
        column = self.find(name, row)
        return None if column is None else row[column]
