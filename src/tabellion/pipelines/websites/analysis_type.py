"""An analysis type: what is asked about a website, and the form of the answer; `analysis_type_file` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tabellion.messages import DEFAULT

Kind = Literal["text", "texts", "choice", "number", "flag", "findings"]
#: What a field can hold, and how it is explained.
KINDS: dict[Kind, str] = {
    "text": "one text",
    "texts": "a list of short texts",
    "choice": "one of the options",
    "number": "a number",
    "flag": "true or false",
    "findings": "a list of findings, each with a level, a detail and a fix",
}
Level = Literal["good", "info", "warning", "bad"]
LEVELS: tuple[Level, ...] = ("good", "info", "warning", "bad")
MOST_ITEMS = 30  #: of one list
BUDGET = 8000  #: tokens of a prompt
ANSWER = 4000  #: tokens of an answer
QUOTE = "A passage copied word for word from the website that shows this; null if there is none."


@dataclass(frozen=True, slots=True)
class AnalysisField:
    """One field of the answer."""

    name: str
    kind: Kind
    description: str = ""  #: what the model is asked for
    titles: Mapping[str, str] = field(default_factory=dict)  #: by language
    options: tuple[str, ...] = ()
    option_titles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  #: by option and language
    least: float | None = None
    most: float | None = None  #: of a number, or items of a list
    required: bool = False  #: whether an answer without it is refused

    def title(self, language: str = DEFAULT) -> str:
        """Its title for people."""
        return self.titles.get(language) or self.titles.get(DEFAULT) or self.name.replace("_", " ").capitalize()

    def option_title(self, option: Any, language: str = DEFAULT) -> str:
        """The title of one of its options."""
        titles = self.option_titles.get(str(option), {})
        return titles.get(language) or titles.get(DEFAULT) or str(option)

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return self.kind in ("texts", "findings")

    def schema(self) -> dict[str, Any]:
        """Its part of the JSON Schema."""
        quote = {"type": ["string", "null"], "description": QUOTE}
        if self.kind == "findings":
            item = _object(
                title={"type": "string", "description": "What was found, in a few words."},
                level={"type": "string", "enum": list(LEVELS)},
                detail={"type": "string", "description": "Why it matters, in one or two sentences."},
                fix={"type": ["string", "null"], "description": "What to do about it; null if nothing."},
                quote=quote,
            )
        else:
            item = _object(value=self._value(), quote=quote)
        if self.is_list:
            most = int(self.most) if self.most is not None else MOST_ITEMS
            return {"type": "array", "items": item, "maxItems": most, "description": self.description}
        return {**item, "description": self.description}

    def _value(self) -> dict[str, Any]:
        if self.kind == "texts":
            return {"type": "string"}
        if self.kind == "choice":
            return {"type": self._type("string"), "enum": [*self.options, *([] if self.required else [None])]}
        if self.kind == "number":
            bounds = {"minimum": self.least, "maximum": self.most}
            return {"type": self._type("number"), **{key: bound for key, bound in bounds.items() if bound is not None}}
        return {"type": self._type("boolean" if self.kind == "flag" else "string")}

    def _type(self, name: str) -> str | list[str]:
        """The type of a value, which is null where the website says nothing, unless the field is required."""
        return name if self.required else [name, "null"]


@dataclass(frozen=True, slots=True)
class AnalysisType:
    """What is asked about a website."""

    name: str
    version: str
    fields: tuple[AnalysisField, ...]
    system: str = ""
    user: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    rules: str | None = None  #: the rules that answer in place of a model; None: it needs a model
    models: tuple[str, ...] = ()  #: asked if the job names none; empty: the configured one
    budget: int = BUDGET
    answer: int = ANSWER
    relevance: tuple[str, ...] = ()  #: words that make a passage relevant
    digest: str = ""
    file: str = ""

    def title(self, language: str = DEFAULT) -> str:
        """Its title for people."""
        return self.titles.get(language) or self.titles.get(DEFAULT) or self.name.replace("-", " ").capitalize()

    def description(self, language: str = DEFAULT) -> str:
        """One sentence about it."""
        return self.descriptions.get(language) or self.descriptions.get(DEFAULT) or ""

    def field(self, name: str) -> AnalysisField | None:
        """The field of this name."""
        return next((spec for spec in self.fields if spec.name == name), None)

    def json_schema(self) -> dict[str, Any]:
        """The schema of the answer that models are asked for."""
        return _object(**{spec.name: spec.schema() for spec in self.fields})


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip
