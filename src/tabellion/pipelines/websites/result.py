"""The result of an analysis: values by field, each with where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tabellion.messages import restore_text, translatable
from tabellion.pipelines.websites.analysis_type import AnalysisType, Level

#: Where something was seen: the text of a page, or one of the facts beside it.
SourceKind = Literal[
    "text", "text_around", "title", "description", "heading", "link", "header", "meta", "contact", "structured",
    "certificate", "robots", "social", "address", "ungrounded",
]  # fmt: skip
TEXTS = ("value", "detail", "fix")  #: of an item; may be messages


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value came from. A quote that was not found is `ungrounded`, and has no page."""

    kind: SourceKind
    quote: str = ""  #: as the page has it; as the model wrote it if it is ungrounded
    page: str = ""  #: the URL of the page
    start: int | None = None  #: of the quote in the page's text
    end: int | None = None

    @property
    def is_grounded(self) -> bool:
        """Whether the quote was found on the website."""
        return self.kind != "ungrounded"


@dataclass(frozen=True, slots=True)
class ResultItem:
    """One value of a field. For a finding, `value` is its title."""

    value: Any
    sources: tuple[Source, ...] = ()
    level: Level | None = None
    detail: str = ""
    fix: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The item as JSON; texts that are messages keep their codes, so that they can be translated."""
        found = {"value": self.value, "sources": [asdict(source) for source in self.sources]}
        if self.level is not None or self.detail:
            found |= {"level": self.level, "detail": self.detail, "fix": self.fix}
        return {**found, **translatable(value=self.value, detail=self.detail, fix=self.fix)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ResultItem:
        """Restores the result of `as_dict`."""
        texts = {name: restore_text(data, name) for name in TEXTS if name in data}
        return cls(
            sources=tuple(Source(**source) for source in data.get("sources", ())), level=data.get("level"),
            **texts,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """What a model, or the rules in its place, said about a website."""

    fields: Mapping[str, tuple[ResultItem, ...]] = field(default_factory=dict)
    answered_by: str = ""  #: the provider's name for the model
    seconds: float = 0.0
    tokens: Mapping[str, int] = field(default_factory=dict)  #: input and output
    from_memo: bool = False  #: whether the same question had been answered before

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        fields = {name: [item.as_dict() for item in items] for name, items in self.fields.items()}
        return {
            "fields": fields, "answered_by": self.answered_by, "seconds": round(self.seconds, 3),
            "tokens": dict(self.tokens), "from_memo": self.from_memo,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AnalysisResult:
        """Restores the result of `as_dict`."""
        fields = {name: tuple(ResultItem.from_dict(item) for item in items) for name, items in data["fields"].items()}
        return cls(
            fields, data.get("answered_by", ""), data.get("seconds", 0.0), data.get("tokens", {}),
            bool(data.get("from_memo")),
        )  # fmt: skip

    def first(self, name: str) -> Any:
        """The first value of a field, or None."""
        items = self.fields.get(name, ())
        return items[0].value if items else None

    def count_quotes(self) -> tuple[int, int]:
        """How many sources there are, and how many of them were found on the website."""
        sources = [source for items in self.fields.values() for item in items for source in item.sources]
        return len(sources), sum(source.is_grounded for source in sources)


def keep_known(kind: AnalysisType, fields: Mapping[str, tuple[ResultItem, ...]]) -> dict[str, tuple[ResultItem, ...]]:
    """The fields that the type declares, in its order and within its limits."""
    found = {}
    for spec in kind.fields:
        items = fields.get(spec.name, ())
        most = int(spec.most) if spec.is_list and spec.most is not None else None if spec.is_list else 1
        if items:
            found[spec.name] = tuple(items[:most])
    return found
