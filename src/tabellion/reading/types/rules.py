"""Validates the values of a document against its type: missing, malformed, out of range, or inconsistent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

from tabellion.messages import Message
from tabellion.reading.issue import Issue, Severity
from tabellion.reading.types import evaluation, pattern
from tabellion.reading.types.doctype import DocumentType, Rule
from tabellion.reading.types.field_spec import FieldSpec
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
MOST_ISSUES = 200  # a table may have ten thousand wrong rows
_NOTHING: tuple[Any, ...] = (None, "", [], ())


def check(doctype: DocumentType, values: Mapping[str, Any], *, today: date | None = None) -> list[Issue]:
    """All issues of normalised values: ISO dates, decimal strings, lists of dicts."""
    judge = _Judge()
    converted: dict[str, Any] = {}
    for spec in doctype.fields:
        converted[spec.name] = judge.field(spec, values.get(spec.name), spec.name)
    for name in values:
        if name not in doctype:
            judge.add("unknown", "warning", "issue.unknown_field", name, type=doctype.name)
    day = today or datetime.now(UTC).date()
    for rule in doctype.rules:
        judge.rule(rule, converted, values, day)
    found = judge.found
    if len(found) > MOST_ISSUES:
        found = sorted(found, key=lambda issue: issue.severity != "error")[:MOST_ISSUES]
    return found


def verdict(issues: Iterable[Issue]) -> Verdict:
    """Reject when anything is an error, warn when anything is a warning, else accept."""
    severities = {issue.severity for issue in issues}
    return "reject" if "error" in severities else "warn" if "warning" in severities else "accept"


def convert_value(spec: FieldSpec, value: Any) -> Any:
    """A normalised value in Python's type, or None where it is empty; raises ValueError when it is malformed."""
    if value in _NOTHING:
        return None
    if spec.kind in NUMERIC:
        return _decimal(value)
    if spec.kind == "date":
        return _date(value)
    if spec.kind == "bool":
        if not isinstance(value, bool):
            raise ValueError
        return value
    if not isinstance(value, str):
        raise ValueError
    if spec.kind == "currency" and not re.fullmatch("[A-Z]{3}", value):
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
        self.counts: Counter[Severity] = Counter()

    def add(self, code: str, severity: Severity, message: str, path: str, **params: Any) -> None:
        """Records an issue about the field at `path`; `message` is the code of its message."""
        self.counts[severity] += 1
        if self.counts[severity] <= MOST_ISSUES:
            self.found.append(Issue(code, severity, Message(message, field=path, **params), (path,)))

    def field(self, spec: FieldSpec, value: Any, path: str) -> Any:
        """Records the issues of a value, and returns it in Python's type for the rules."""
        if value in _NOTHING:
            if spec.required:
                self.add("missing", "error", "issue.missing", path)
            if spec.kind == "list" and spec.least and value is not None:
                self.add("range", spec.severity, "issue.no_rows", path, n=spec.least)
            return None
        if spec.kind == "list":
            return self.rows(spec, value, path)
        try:
            converted = convert_value(spec, value)
        except ValueError:
            self.add("type", "error", "issue.not_of_kind", path, value=format_value(value), detail=form(spec))
            return None
        if spec.options and converted not in spec.options:
            self.add(
                "choice", spec.severity, "issue.not_an_option", path, value=format_value(value), text=list(spec.options)
            )
        if spec.pattern and isinstance(converted, str) and not pattern.fits(spec.pattern, converted):
            self.add("pattern", spec.severity, "issue.pattern", path, value=format_value(value), text=spec.pattern)
        if spec.least is not None and converted < spec.least:
            self.add("range", spec.severity, "issue.too_small", path, value=format_value(value), least=spec.least)
        if spec.most is not None and converted > spec.most:
            self.add("range", spec.severity, "issue.too_large", path, value=format_value(value), most=spec.most)
        return converted

    def rows(self, spec: FieldSpec, value: Any, path: str) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.add("type", "error", "issue.not_rows", path, value=format_value(value))
            return None
        if spec.least is not None and len(value) < spec.least:
            self.add("range", spec.severity, "issue.too_few_rows", path, detail=_rows(value), n=spec.least)
        if spec.most is not None and len(value) > spec.most:
            self.add("range", spec.severity, "issue.too_many_rows", path, detail=_rows(value), n=spec.most)
        rows = []
        for number, row in enumerate(value):
            if not isinstance(row, Mapping):
                self.add("type", "error", "issue.not_a_row", f"{path}[{number}]", value=format_value(row))
                # Cells without a value, so that no rule is decided by the rest of the table.
                rows.append({column.name: None for column in spec.items})
                continue
            cells = {column.name: (column, row.get(column.name)) for column in spec.items}
            rows.append({name: self.field(*cell, f"{path}[{number}].{name}") for name, cell in cells.items()})
        return rows

    def rule(self, rule: Rule, converted: Mapping[str, Any], values: Mapping[str, Any], today: date) -> None:
        if evaluation.holds(rule.expression, evaluation.Scope(converted, rule.tolerance, today)) is not False:
            return
        shown = [
            Message("rule.seen", field=name, value=_within(converted.get(name), values.get(name)))
            for name in rule.fields
        ]
        if rule.tolerance is not None:
            shown.append(Message("rule.tolerance", value=rule.tolerance))
        text = {language: text.rstrip(".") for language, text in rule.messages.items()}
        message = Message("issue.rule", rule=text or Message("issue.rule_without_message", text=rule.name), seen=shown)
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


def _within(converted: Any, value: Any) -> str:
    """A value within a sentence: numbers and dates without quotes."""
    return str(value) if isinstance(converted, (int, Decimal, date)) else format_value(value)


def form(spec: FieldSpec) -> str:
    """The message that describes how a value of the field is written."""
    return Message("kind.date_form") if spec.kind == "date" else KINDS[spec.kind]
