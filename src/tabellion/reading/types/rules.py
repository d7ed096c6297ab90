"""Judges the values of a document by its type: what is missing, malformed, out of range, or does not add up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

from tabellion.messages import Message
from tabellion.reading.issue import Issue
from tabellion.reading.types import evaluation, pattern
from tabellion.reading.types.doctype import DocumentType, FieldSpec, Rule, Severity
from tabellion.reading.types.kinds import KINDS, NUMERIC

Verdict = Literal["accept", "warn", "reject"]

#: Every code and what it means. Codes are stable: people script against them.
CODES = {
    "missing": "a required field has no value",
    "type": "the value is not of the field's type: a date that does not exist, an amount that is not a number",
    "pattern": "the value does not match the field's pattern",
    "choice": "the value is not one of the options",
    "range": "the value is below the minimum or above the maximum",
    "rule": "a cross-field rule is not met",
    "unknown": "the type has no field with this name",
}
DECIMAL = re.compile(r"[-+]?\d{1,20}(\.\d{1,10})?")
MOST_ISSUES = 200  # a table of ten thousand wrong rows is said once, not ten thousand times
_NOTHING: tuple[Any, ...] = (None, "", [], ())


def check(doctype: DocumentType, values: Mapping[str, Any], *, today: date | None = None) -> list[Issue]:
    """Everything that is wrong with normalised values: ISO dates, decimal strings, lists of dicts."""
    judge = _Judge()
    known: dict[str, Any] = {}
    for one in doctype.fields:
        known[one.name] = judge.field(one, values.get(one.name), one.name)
    for name in values:
        if name not in doctype:
            judge.add("unknown", "warning", "issue.unknown_field", name, type=doctype.name)
    day = today or datetime.now(UTC).date()
    for rule in doctype.rules:
        judge.rule(rule, known, values, day)
    return judge.found[:MOST_ISSUES]


def verdict(issues: Iterable[Issue]) -> Verdict:
    """Reject when anything is an error, warn when anything is a warning, else accept."""
    worst = {issue.severity for issue in issues}
    return "reject" if "error" in worst else "warn" if "warning" in worst else "accept"


def convert_value(one: FieldSpec, value: Any) -> Any:
    """A normalised value in Python's type, or None when there is none; raises ValueError when it is malformed."""
    if value in _NOTHING:
        return None
    if one.kind in NUMERIC:
        return _decimal(value)
    if one.kind == "date":
        return _date(value)
    if one.kind == "bool":
        if not isinstance(value, bool):
            raise ValueError
        return value
    if not isinstance(value, str):
        raise ValueError
    if one.kind == "currency" and not re.fullmatch("[A-Z]{3}", value):
        raise ValueError
    return value


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError
    text = format(value, "f") if isinstance(value, Decimal) and abs(value.adjusted()) < 30 else str(value)
    if not DECIMAL.fullmatch(text):
        raise ValueError
    return Decimal(text)


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        raise ValueError
    return date.fromisoformat(value)


class _Judge:
    def __init__(self) -> None:
        self.found: list[Issue] = []

    def add(self, code: str, severity: Severity, message: str, path: str, **params: Any) -> None:
        """Notes an issue about the field at `path`; `message` is the code of its message."""
        self.found.append(Issue(code, severity, Message(message, field=path, **params), (path,)))

    def field(self, one: FieldSpec, value: Any, path: str) -> Any:
        """Notes what is wrong with a value, and gives it in Python's type for the rules."""
        if value in _NOTHING:
            if one.required:
                self.add("missing", "error", "issue.missing", path)
            if one.kind == "list" and one.least and value is not None:
                self.add("range", one.severity, "issue.no_rows", path, n=one.least)
            return None
        if one.kind == "list":
            return self.rows(one, value, path)
        try:
            found = convert_value(one, value)
        except ValueError:
            self.add("type", "error", "issue.not_of_kind", path, value=format_value(value), detail=form(one))
            return None
        if one.options and found not in one.options:
            self.add(
                "choice", one.severity, "issue.not_an_option", path, value=format_value(value), text=list(one.options)
            )
        if one.pattern and isinstance(found, str) and not pattern.fits(one.pattern, found):
            self.add("pattern", one.severity, "issue.pattern", path, value=format_value(value), text=one.pattern)
        if one.least is not None and found < one.least:
            self.add("range", one.severity, "issue.too_small", path, value=format_value(value), least=one.least)
        if one.most is not None and found > one.most:
            self.add("range", one.severity, "issue.too_large", path, value=format_value(value), most=one.most)
        return found

    def rows(self, one: FieldSpec, value: Any, path: str) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.add("type", "error", "issue.not_rows", path, value=format_value(value))
            return None
        if one.least is not None and len(value) < one.least:
            self.add("range", one.severity, "issue.too_few_rows", path, detail=_rows(value), n=one.least)
        if one.most is not None and len(value) > one.most:
            self.add("range", one.severity, "issue.too_many_rows", path, detail=_rows(value), n=one.most)
        made = []
        for number, row in enumerate(value):
            if len(self.found) > MOST_ISSUES or not isinstance(row, Mapping):
                if not isinstance(row, Mapping):
                    self.add("type", "error", "issue.not_a_row", f"{path}[{number}]", value=format_value(row))
                break
            cells = {column.name: (column, row.get(column.name)) for column in one.items}
            made.append({name: self.field(*both, f"{path}[{number}].{name}") for name, both in cells.items()})
        return made

    def rule(self, rule: Rule, known: Mapping[str, Any], values: Mapping[str, Any], today: date) -> None:
        if evaluation.holds(rule.expression, evaluation.Scope(known, rule.tolerance, today)) is not False:
            return
        seen = [
            Message("rule.seen", field=name, value=_within(known.get(name), values.get(name))) for name in rule.fields
        ]
        if rule.tolerance is not None:
            seen.append(Message("rule.tolerance", value=rule.tolerance))
        text = {language: said.rstrip(".") for language, said in rule.messages.items()}
        message = Message("issue.rule", rule=text or Message("issue.rule_without_message", text=rule.name), seen=seen)
        self.found.append(Issue("rule", rule.severity, message, rule.fields, rule.name))


def format_value(value: Any) -> Message:
    """A value as messages show it: short, and safe to print."""
    if value in _NOTHING:
        return Message("value.nothing")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Message("value.rows", n=len(value))
    return Message("value.quoted", text=brief(str(value)))


def brief(text: str) -> str:
    """The beginning of a text, safe to print."""
    text = "".join(sign if sign.isprintable() else " " for sign in text)
    return f"{text[:60]}…" if len(text) > 60 else text


def _rows(value: Sequence[Any]) -> Message:
    return Message("reason.rows", n=len(value))


def _within(known: Any, value: Any) -> str:
    """A value within a sentence: numbers and dates stand for themselves."""
    return str(value) if isinstance(known, (int, Decimal, date)) else format_value(value)


def form(one: FieldSpec) -> str:
    """How a value of the field is written."""
    return Message("kind.date_form") if one.kind == "date" else KINDS[one.kind]
