"""Asks a model for the fields of a document, and merges its answer with what was read here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tabellion.messages import Message, has_code
from tabellion.models.base import Ask, Model, Reply, takes
from tabellion.models.evidence import evidence
from tabellion.models.media import MOST_PAGES, Source, parts_of, renderer
from tabellion.models.merge import merge_fields
from tabellion.models.split import in_parts
from tabellion.reading.alternative import beside
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
    model: Model, reading: Reading, source: Source, doctype: DocumentType, *, ask: Ask = Ask(),
    sandbox: Sandbox | None = None, limits: Limits | None = None, password: str | None = None,
    most_pages: int = MOST_PAGES, text: bool | None = None,
) -> Reading:  # fmt: skip
    """The reading with a model's help: what it says is evidence, and every value of it is looked for on the pages.

    `reading` is what was read here, with its words. A document that could not be read here is not sent. Errors of the
    model are raised as they are: the engine knows what to do with them.
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
    # What to do is said where documents cannot speak: apart from them.
    asked = replace(ask, system=f"{ask.system}\n\n{doctype.prompt()}" if ask.system else doctype.prompt())
    reply = await in_parts(model.call, [*parts, QUESTION], doctype.json_schema(quotes=True), asked)
    # A long document has many words to look through, and other jobs wait for this loop.
    found = await asyncio.to_thread(merge_reply, reading, reply, doctype)
    return replace(found, model=reply.model or model.model, cost=reply.cost, notes=(*reading.notes, *notes))


def merge_reply(reading: Reading, reply: Reply, doctype: DocumentType) -> Reading:
    """The reading with a reply merged into it, judged anew."""
    said = reply.object if isinstance(reply.object, Mapping) else {}
    heard = evidence(said, doctype, Index([page for page in reading.pages if page.words]))
    fields = merge_fields(reading.fields, heard, doctype)
    issues = _issues(reading.issues, fields, doctype)
    issues += [*_differing(reading, heard, issues), *_find_ungrounded(fields, doctype)]
    offers = beside(reading.offers, fields, reading.fields, heard)
    return replace(reading, type=doctype.name, fields=fields, issues=tuple(issues), offers=offers)


def _issues(before: Sequence[Issue], fields: Mapping[str, Field], doctype: DocumentType) -> list[Issue]:
    """What the embedded XML has wrong stays; what the rules say is said again, of the merged values."""
    named = {"", *(rule.name for rule in doctype.rules)}
    kept = [issue for issue in before if issue.code not in rules.CODES or issue.rule not in named]
    known = {frozenset(issue.fields) for issue in kept}
    values: dict[str, Any] = {name: field.value for name, field in fields.items()}
    for one in rules.check(doctype, values):
        if not one.fields or frozenset(one.fields) not in known:
            kept.append(Issue(one.code, one.severity, one.message, one.fields, one.rule or ""))
    return kept


def _differing(reading: Reading, heard: Mapping[str, Field], issues: Sequence[Issue]) -> list[Issue]:
    """A total that the model has seen on the paper and that the XML does not have."""
    exact, seen = reading.fields.get("total"), heard.get("total")
    known = any(issue.code == "xml_differs" for issue in issues)
    if known or exact is None or seen is None or exact.source != "xml" or exact.page is not None or seen.box is None:
        return []
    message = Message("issue.xml_differs", value=rules.format_value(seen.value), xml=rules.format_value(exact.value))
    return [Issue("xml_differs", "warning", message, ("total",), "the same invoice twice")]


def _find_ungrounded(fields: Mapping[str, Field], doctype: DocumentType) -> list[Issue]:
    """Required fields for which there is the model's word alone."""
    found = []
    for spec in doctype.fields:
        field = fields.get(spec.name)
        if field is not None and spec.required and has_code(field.reasons, "reason.ungrounded"):
            message = Message("issue.ungrounded", field=spec.name, value=rules.format_value(field.value))
            found.append(Issue("ungrounded", "warning", message, (spec.name,), "grounding"))
    return found
