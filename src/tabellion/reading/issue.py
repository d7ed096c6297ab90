"""A problem with a document, with a message that a person can act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NotRequired

from tabellion.answers import Answer
from tabellion.messages import Translatable, translatable

Severity = Literal["error", "warning"]


class IssueJson(Answer):
    """An issue as JSON."""

    code: str
    severity: Severity
    message: str
    translatable: NotRequired[Translatable]
    fields: list[str]
    rule: str


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem: an error rejects the document, a warning asks for a review."""

    code: str  #: stable, people script against it
    severity: Severity
    message: str
    fields: tuple[str, ...] = ()  #: the fields it is about
    rule: str = ""  #: its source: a rule of EN 16931, a standard, or the name of a rule of the document type

    def as_dict(self) -> IssueJson:
        """The issue as JSON."""
        return {
            "code": self.code, "severity": self.severity, "message": self.message,
            "fields": list(self.fields), "rule": self.rule, **translatable(message=self.message),
        }  # fmt: skip
