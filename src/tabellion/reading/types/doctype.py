"""A document type: the fields of a kind of document, the rules for them, and how documents are processed.

Written as one YAML file (`typefile` reads it), it compiles to the schema that models fill in, the Pydantic model, the
prompt, the hints of the local reader and the form that reviewers see.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from tabellion.reading.issue import Severity
from tabellion.reading.types import schema
from tabellion.reading.types.expression import names
from tabellion.reading.types.field_spec import THRESHOLD, FieldSpec, Phrases

if TYPE_CHECKING:
    from pydantic import BaseModel

ANY = "any"  #: the key of labels for every language


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on the values of several fields."""

    name: str
    text: str
    expression: ast.expr = field(repr=False, compare=False)  #: parsed from the text, which is compared
    tolerance: Decimal | None = None
    severity: Severity = "error"
    messages: Mapping[str, str] = field(default_factory=dict)  #: shown when it does not hold, by language

    @property
    def message(self) -> str:
        """The message when it does not hold: in English where available."""
        return self.messages.get("en") or next(iter(self.messages.values()), "")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that the rule uses."""
        return names(self.expression)


@dataclass(frozen=True, slots=True)
class Idempotency:
    """What happens when the same file is uploaded again."""

    policy: Literal["link", "reject", "keep"] = "link"  #: link to the first one, reject, or read it again
    hash: Literal["sha256"] = "sha256"
    cache_ttl: float | None = None  #: seconds that a result is reused; None means for ever
    preserve_locked: bool = True  #: what a person corrected is never overwritten


@dataclass(frozen=True, slots=True)
class Output:
    """Where results are written, as path templates under the data folder; None writes no file."""

    json: str | None = "json/{yyyy}/{mm}/{dd}/{id}.json"
    parquet: str | None = "parquet/{yyyy}/{mm}/{dd}/{id}.parquet"
    compression: Literal["zstd", "snappy", "gzip", "none"] = "zstd"

    @staticmethod
    def fill_template(template: str, **values: str) -> str:
        """Replaces the placeholders of a template."""
        return template.format_map(values)


@dataclass(frozen=True, slots=True)
class ProcessingOptions:
    """How documents of this type are processed."""

    model: str | None = None  #: a configured model; None reads locally
    retries: int = 3  #: tries after the first
    retry_base: float = 10.0  #: seconds before the first retry; doubles from there
    concurrency: int | None = None  #: documents of this type at once, in all workers
    failure_threshold: int = 5  #: the circuit breaker's
    recovery_timeout: float = 60.0
    sla: float | None = None  #: seconds from upload to review; None: the configured value
    review: Literal["never", "doubtful", "always"] = "doubtful"
    sampling: float = 0.0  #: percent of the documents without doubts that are reviewed anyway
    threshold: float = THRESHOLD


@dataclass(frozen=True, slots=True)
class Locale:
    """How to read ambiguous dates, languages and currencies."""

    dates: Literal["dmy", "mdy", "ymd"] | None = None  #: of 03/04/2024; None: as usual in the document's language
    languages: tuple[str, ...] = ()
    currency: str | None = None  #: used when none is printed


@dataclass(frozen=True, slots=True)
class Hint:
    """What the local reader looks for in a field."""

    name: str
    kind: str
    labels: tuple[str, ...]  #: longest first
    not_labels: tuple[str, ...]
    pattern: str | None
    options: tuple[str, ...]
    columns: tuple[Hint, ...]


@dataclass(frozen=True, slots=True)
class DocumentType:
    """A compiled document type."""

    name: str
    version: str
    fields: tuple[FieldSpec, ...]
    title: str = ""
    description: str = ""
    instructions: str = ""  #: shown to reviewers beside every document of the type
    rules: tuple[Rule, ...] = ()
    idempotency: Idempotency = Idempotency()
    output: Output = Output()
    processing: ProcessingOptions = ProcessingOptions()
    locale: Locale = Locale()
    recognise: Phrases = field(default_factory=dict, repr=False)  #: words whose presence suggests this type
    digest: str = ""  #: of the file's contents without comments, layout and instructions
    file: str = ""

    def __iter__(self) -> Iterator[FieldSpec]:
        return iter(self.fields)

    def __contains__(self, name: object) -> bool:
        return any(spec.name == name for spec in self.fields)

    def field(self, name: str) -> FieldSpec:
        """The field of this name."""
        for spec in self.fields:
            if spec.name == name:
                return spec
        raise KeyError(name)

    @property
    def key(self) -> str:
        """The type's part of the key under which results are cached."""
        return f"{self.name}/{self.version}/{self.digest[:16]}"

    def hints(self) -> dict[str, Hint]:
        """What the local reader looks for, in all languages."""
        return {spec.name: _hint(spec) for spec in self.fields}

    def json_schema(self, *, quotes: bool = False) -> dict[str, Any]:
        """Plain JSON Schema of the values; with quotes, each field is `{value, quote, page}` and each row has both."""
        return schema.json_schema(self.name, self.fields, self.description, quotes=quotes)

    def pydantic_model(self) -> type[BaseModel]:
        """The Pydantic model of the values, with dates and decimals."""
        return schema.pydantic_model(self.name, self.fields)

    def prompt(self) -> str:
        """The instructions for a model."""
        return schema.prompt(self.title or self.name, self.fields, self.description)

    def form(self) -> list[dict[str, Any]]:
        """The review form: one entry per field, in the file's order."""
        return schema.form(self.fields)


def phrases(of: Phrases) -> tuple[str, ...]:
    """The phrases of all languages, each once, the longest first so that `total ht` is matched before `total`."""
    return tuple(sorted(dict.fromkeys(chain.from_iterable(of.values())), key=len, reverse=True))


def _hint(spec: FieldSpec) -> Hint:
    return Hint(
        name=spec.name, kind=spec.kind, labels=phrases(spec.labels),
        not_labels=phrases(spec.not_labels), pattern=spec.pattern, options=spec.options,
        columns=tuple(_hint(column) for column in spec.items),
    )  # fmt: skip
