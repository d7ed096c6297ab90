"""Asks a model for the fields of a document, and merges its answer with the local reading."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tabellion.messages import Message, has_code
from tabellion.models.base import Ask, Model, Reply, takes
from tabellion.models.evidence import evidence
from tabellion.models.media import MOST_PAGES, PlainSource, parts_of, renderer
from tabellion.models.merge import merge_fields
from tabellion.models.split import in_parts
from tabellion.reading import xml_difference
from tabellion.reading.alternative import merge_alternatives
from tabellion.reading.field import Field
from tabellion.reading.grounding.index import Index
from tabellion.reading.issue import Issue
from tabellion.reading.limits import Limits
from tabellion.reading.reader import Reading
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType

QUESTION = "Read the fields of this document."


async def extract(
    model: Model, reading: Reading, source: PlainSource, doctype: DocumentType, *, ask: Ask = Ask(),
    sandbox: Sandbox | None = None, limits: Limits | None = None, password: str | None = None,
    most_pages: int = MOST_PAGES, text: bool | None = None,
) -> Reading:  # fmt: skip
    """The reading improved by a model: its answer is evidence, and each value is searched on the pages.

    `reading` is the local reading, with its words. A document that could not be read locally is not sent. The model's
    errors are raised unchanged: the engine handles them.
    """
    if reading.error is not None:
        return reading
    if limits is None and sandbox is not None:
        limits = sandbox.limits
    render = renderer(source, password=password, sandbox=sandbox, limits=limits)
    parts, notes = await asyncio.to_thread(
        parts_of, reading, source, takes(model), render=render, most=most_pages, text=text, password=password,
        limits=limits,
    )  # fmt: skip
    # Instructions go into the system prompt, apart from the document's text.
    model_ask = replace(ask, system=f"{ask.system}\n\n{doctype.prompt()}" if ask.system else doctype.prompt())
    reply = await in_parts(model.call, [*parts, QUESTION], doctype.json_schema(quotes=True), model_ask)
    # In a thread: a long document has many words to search, and other jobs use this loop.
    merged = await asyncio.to_thread(merge_reply, reading, reply, doctype)
    return replace(merged, model=reply.model or model.model, cost=reply.cost, notes=(*reading.notes, *notes))


def merge_reply(reading: Reading, reply: Reply, doctype: DocumentType) -> Reading:
    """The reading merged with a reply, with new issues."""
    answer = reply.object if isinstance(reply.object, Mapping) else {}
    by_model = evidence(answer, doctype, Index([page for page in reading.pages if page.words]))
    fields = merge_fields(reading.fields, by_model, doctype)
    issues = _issues(reading.issues, fields, doctype)
    issues += [*_compare_totals(reading, by_model, issues), *_find_ungrounded(fields, doctype)]
    offers = merge_alternatives(reading.offers, fields, reading.fields, by_model)
    return replace(reading, type=doctype.name, fields=fields, issues=tuple(issues), offers=offers)


def _issues(before: Sequence[Issue], fields: Mapping[str, Field], doctype: DocumentType) -> list[Issue]:
    """The issues of the embedded XML, and those of the type's rules for the merged values."""
    rule_names = {"", *(rule.name for rule in doctype.rules)}
    issues = [earlier for earlier in before if earlier.code not in rules.CODES or earlier.rule not in rule_names]
    reported = {frozenset(issue.fields) for issue in issues}
    values: dict[str, Any] = {name: field.value for name, field in fields.items()}
    for found in rules.check(doctype, values):
        if not found.fields or frozenset(found.fields) not in reported:
            issues.append(Issue(found.code, found.severity, found.message, found.fields, found.rule or ""))
    return issues


def _compare_totals(reading: Reading, by_model: Mapping[str, Field], issues: Sequence[Issue]) -> list[Issue]:
    """An issue where the model found another printed total than the XML has."""
    exact, printed = reading.fields.get("total"), by_model.get("total")
    reported = any(issue.code == xml_difference.CODE for issue in issues)
    if (
        reported
        or exact is None
        or printed is None
        or exact.source != "xml"
        or exact.page is not None
        or printed.box is None
    ):
        return []
    return [xml_difference.describe_difference(printed.value, exact.value)]


def _find_ungrounded(fields: Mapping[str, Field], doctype: DocumentType) -> list[Issue]:
    """Issues for required fields whose values were not found on the pages."""
    issues = []
    for spec in doctype.fields:
        field = fields.get(spec.name)
        if field is not None and spec.required and has_code(field.reasons, "reason.ungrounded"):
            message = Message("issue.ungrounded", field=spec.name, value=rules.format_value(field.value))
            issues.append(Issue("ungrounded", "warning", message, (spec.name,), "grounding"))
    return issues
