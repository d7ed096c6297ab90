"""A document type: which fields a kind of document has, what makes them right, and what happens to them.

Written as one YAML file (`typefile` reads it), it compiles to the schema that models fill in, the Pydantic model, the
prompt, the hints of the local reader and the form that reviewers see.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from tabellion.reading.types.expression import names

if TYPE_CHECKING:
    from pydantic import BaseModel

THRESHOLD = 0.8
ANY = "any"  #: the language of labels that belong to none

Severity = Literal["error", "warning"]
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
    options: tuple[str, ...] = ()  #: the values there may be; all that a choice has
    least: Any = None  #: a Decimal, a date, or for a list the fewest rows
    most: Any = None
    labels: Phrases = field(default_factory=dict, repr=False)  #: what stands before or above the value on paper
    not_labels: Phrases = field(default_factory=dict, repr=False)  #: what looks like a label of it and is not
    threshold: float = THRESHOLD  #: confidence below which a person must look
    severity: Severity = "error"  #: of a value that breaks pattern, enum or range
    items: tuple[FieldSpec, ...] = ()  #: the columns of a list

    @property
    def columns(self) -> dict[str, FieldSpec]:
        """The columns of a list by name."""
        return {one.name: one for one in self.items}

    def fit(self, value: Any) -> Any:
        """A value with what the type asks for: the rows of a list without columns that the type does not have."""
        names = self.columns
        if not names or not isinstance(value, list):
            return value
        return [
            {name: cell for name, cell in row.items() if name in names} if isinstance(row, Mapping) else row
            for row in value
        ]


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that must hold between fields."""

    name: str
    text: str
    expression: ast.expr = field(repr=False, compare=False)  #: of the text, which is compared
    tolerance: Decimal | None = None
    severity: Severity = "error"
    messages: Mapping[str, str] = field(default_factory=dict)  #: what to say when it does not hold, by language

    @property
    def message(self) -> str:
        """What to say when it does not hold: in English if there is that."""
        return self.messages.get("en") or next(iter(self.messages.values()), "")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it speaks of."""
        return names(self.expression)


@dataclass(frozen=True, slots=True)
class Idempotency:
    """What happens when the same file comes again."""

    policy: Literal["link", "reject", "keep"] = "link"  #: follow the first one, refuse, or read it anew
    hash: Literal["sha256"] = "sha256"
    cache_ttl: float | None = None  #: seconds that a result is reused; None is for ever
    preserve_locked: bool = True  #: what a person corrected is never overwritten


@dataclass(frozen=True, slots=True)
class Output:
    """Where results are written, as templates under the data folder; None writes none."""

    json: str | None = "json/{yyyy}/{mm}/{dd}/{id}.json"
    parquet: str | None = "parquet/{yyyy}/{mm}/{dd}/{id}.parquet"
    compression: Literal["zstd", "snappy", "gzip", "none"] = "zstd"

    @staticmethod
    def fill_template(template: str, **values: str) -> str:
        """A template with its placeholders replaced."""
        return template.format_map(values)


@dataclass(frozen=True, slots=True)
class Processing:
    """How documents of this type are worked on."""

    model: str | None = None  #: a configured model; None reads locally
    retries: int = 3  #: tries after the first
    retry_base: float = 10.0  #: seconds before the first retry; doubles from there
    concurrency: int | None = None  #: documents of this type at once, in all workers
    failure_threshold: int = 5  #: the circuit breaker's
    recovery_timeout: float = 60.0
    sla: float | None = None  #: seconds from the upload in which a person should have looked; None: as is configured
    review: Literal["never", "doubtful", "always"] = "doubtful"
    sampling: float = 0.0  #: percent of the documents nobody doubts that a person sees all the same
    threshold: float = THRESHOLD


@dataclass(frozen=True, slots=True)
class Locale:
    """What is meant where paper is ambiguous."""

    dates: Literal["dmy", "mdy", "ymd"] | None = None  #: of 03/04/2024; None is as the document's language has it
    languages: tuple[str, ...] = ()
    currency: str | None = None  #: when none is printed


@dataclass(frozen=True, slots=True)
class Hint:
    """What the local reader knows about a field."""

    name: str
    kind: str
    labels: tuple[str, ...]  #: longest first
    not_labels: tuple[str, ...]
    pattern: str | None
    options: tuple[str, ...]
    columns: tuple[Hint, ...]


@dataclass(frozen=True, slots=True)
class DocumentType:
    """A kind of document, compiled."""

    name: str
    version: str
    fields: tuple[FieldSpec, ...]
    title: str = ""
    description: str = ""
    instructions: str = ""  #: what reviewers are told beside every document of the type
    rules: tuple[Rule, ...] = ()
    idempotency: Idempotency = Idempotency()
    output: Output = Output()
    processing: Processing = Processing()
    locale: Locale = Locale()
    recognise: Phrases = field(default_factory=dict, repr=False)  #: words whose presence suggests this type
    digest: str = ""  #: of what the file says; neither comments nor layout nor instructions change it
    file: str = ""

    def __iter__(self) -> Iterator[FieldSpec]:
        return iter(self.fields)

    def __contains__(self, name: object) -> bool:
        return any(one.name == name for one in self.fields)

    def field(self, name: str) -> FieldSpec:
        """The field of this name."""
        for one in self.fields:
            if one.name == name:
                return one
        raise KeyError(name)

    @property
    def key(self) -> str:
        """What results are remembered under, beside the bytes and the model."""
        return f"{self.name}/{self.version}/{self.digest[:16]}"

    def hints(self, languages: Iterable[str] | None = None) -> dict[str, Hint]:
        """What the local reader looks for, in these languages or in all."""
        wanted = None if languages is None else {*languages, ANY}
        return {one.name: _hint(one, wanted) for one in self.fields}

    def json_schema(self, *, quotes: bool = False) -> dict[str, Any]:
        """Plain JSON Schema of the values; with quotes, each field is `{value, quote, page}` and each row has both."""
        from tabellion.reading.types import schema

        return schema.json_schema(self, quotes=quotes)

    def pydantic_model(self) -> type[BaseModel]:
        """The Pydantic model of the values, with dates and decimals."""
        from tabellion.reading.types import schema

        return schema.pydantic_model(self)

    def prompt(self) -> str:
        """What a model is asked to do."""
        from tabellion.reading.types import schema

        return schema.prompt(self)

    def form(self) -> list[dict[str, Any]]:
        """The review form: one entry a field, in the file's order."""
        from tabellion.reading.types import schema

        return schema.form(self)


def phrases(of: Phrases, languages: set[str] | None = None) -> tuple[str, ...]:
    """The phrases of these languages, each once, the longest first so that `total ht` is seen before `total`."""
    found = {phrase: None for language, some in of.items() if not languages or language in languages for phrase in some}
    return tuple(sorted(found, key=len, reverse=True))


def _hint(one: FieldSpec, languages: set[str] | None) -> Hint:
    return Hint(
        name=one.name, kind=one.kind, labels=phrases(one.labels, languages),
        not_labels=phrases(one.not_labels, languages), pattern=one.pattern, options=one.options,
        columns=tuple(_hint(column, languages) for column in one.items),
    )  # fmt: skip
