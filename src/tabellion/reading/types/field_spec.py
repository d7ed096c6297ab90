"""The specification of one field of a document type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tabellion.reading.issue import Severity

THRESHOLD = 0.8

Phrases = Mapping[str, tuple[str, ...]]  #: by language


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a document type, or one column of a list."""

    name: str
    kind: str
    title: str
    description: str = ""
    required: bool = False
    pattern: str | None = None
    options: tuple[str, ...] = ()  #: the allowed values; required for a choice
    least: Any = None  #: a Decimal, a date, or for a list the fewest rows
    most: Any = None
    labels: Phrases = field(default_factory=dict, repr=False)  #: the words printed before or above the value
    not_labels: Phrases = field(default_factory=dict, repr=False)  #: words that look like its label but are not
    threshold: float = THRESHOLD  #: confidence below which a person must review it
    severity: Severity = "error"  #: of a value that breaks pattern, enum or range
    items: tuple[FieldSpec, ...] = ()  #: the columns of a list

    @property
    def columns(self) -> dict[str, FieldSpec]:
        """The columns of a list by name."""
        return {spec.name: spec for spec in self.items}

    def fit(self, value: Any) -> Any:
        """The value, for a list with only the columns that the type has."""
        columns = self.columns
        if not columns or not isinstance(value, list):
            return value
        return [
            {name: cell for name, cell in row.items() if name in columns} if isinstance(row, Mapping) else row
            for row in value
        ]
