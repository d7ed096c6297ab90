"""Extracts fields and issues from pages and embedded XML: the second task of the reading child."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tabellion.messages import Message, has_code
from tabellion.reading.alternative import merge_alternatives
from tabellion.reading.boosting.boost import boost
from tabellion.reading.einvoice.invoice import EInvoice, read_einvoice
from tabellion.reading.field import Field
from tabellion.reading.fields.reader import read_fields, read_fields_and_alternatives
from tabellion.reading.grounding.ground import ground
from tabellion.reading.grounding.index import Index
from tabellion.reading.issue import Issue
from tabellion.reading.page import Page, parse_page
from tabellion.reading.recognise import recognise
from tabellion.reading.types import rules, typefile
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.identifiers import valid_iban, valid_tax_id
from tabellion.reading.xml_difference import describe_difference

CHECKS = {"iban": valid_iban, "vendor_tax_id": valid_tax_id}
MOST_CHANGES = 500  # people do not read more
DOUBTED = 0.3  # the confidence limit of a number with wrong check digits


def extract_in_child(
    _file: int | None,
    pages: Sequence[Mapping[str, Any]],
    attachments: Sequence[tuple[str, str]] = (),
    claims: Mapping[str, Mapping[str, str]] | None = None,
    types: Sequence[str] = (),
    boosted: bool = False,
    offers: bool = False,
) -> Iterator[dict[str, Any]]:
    """The task: `types` are the files of the possible types; with more than one the type is recognised."""
    parsed = [parse_page(page) for page in pages]
    embedded = read_einvoice([(name, base64.b64decode(data)) for name, data in attachments], claims or {})
    kinds = [typefile.read_cached(Path(path)) for path in types]
    kind: DocumentType | None
    kind, share = (kinds[0], 1.0) if len(kinds) == 1 else recognise(parsed, kinds)
    if embedded is not None and embedded.syntax and len(kinds) > 1:
        kind, share = next((candidate for candidate in kinds if candidate.name == "invoice"), kind), 1.0
    printed, offered = read_fields_and_alternatives(parsed, kind) if kind and offers else (None, {})
    fields, issues = extract_fields(parsed, embedded, kind, printed) if kind else ({}, [])
    result: dict[str, Any] = {
        "type": kind.name if kind else None,
        "share": share,
        "fields": {name: field.as_dict() for name, field in fields.items()},
        "issues": [issue.as_dict() for issue in issues],
    }
    if offers:
        alternatives = merge_alternatives(offered, fields, printed or {})
        result["offers"] = {name: [value.as_dict() for value in values] for name, values in alternatives.items()}
    if boosted:
        repaired = boost(parsed)
        changes = [[change.kind, change.before, change.after] for change in repaired.changes[:MOST_CHANGES]]
        result |= {"boosted": repaired.text, "changes": changes}
    yield result


def extract_fields(
    pages: Sequence[Page],
    embedded: EInvoice | None,
    kind: DocumentType,
    printed: Mapping[str, Field] | None = None,
) -> tuple[dict[str, Field], list[Issue]]:
    """Fields and issues: from the XML, which is exact, else from the words (`printed`, if already read)."""
    if printed is None:
        printed = read_fields(pages, kind)
    issues: list[Issue] = list(embedded.issues) if embedded else []
    fields = dict(printed)
    if embedded is not None and embedded.fields:
        index = Index(pages)
        exact = {
            name: _locate_field(replace(field, value=kind.field(name).fit(field.value)), printed.get(name), index)
            for name, field in embedded.fields.items()
            if name in kind
        }
        issues += _contradictions(exact, printed)
        has_total = "total" in exact  # XML without its sums is completed by the words
        fields = {
            **{name: field for name, field in printed.items() if not has_total or name not in NOT_BESIDE_XML},
            **exact,
        }
    fields = {name: _check_digits(name, field) for name, field in fields.items()}
    reported = {frozenset(issue.fields) for issue in issues}
    values = {name: field.value for name, field in fields.items()}
    from_xml = {name for name, field in fields.items() if field.source == "xml"}
    for issue in rules.check(kind, values):
        # The standard has its own rules for its XML, and includes allowances that the type does not know.
        if frozenset(issue.fields) not in reported and not (issue.code == "rule" and from_xml.issuperset(issue.fields)):
            issues.append(issue)
    return {spec.name: fields[spec.name] for spec in kind.fields if spec.name in fields}, issues


#: Fields that complete XML contains where they exist: they are not read from the words instead.
NOT_BESIDE_XML = ("line_items", "taxes", "due_date", "subtotal", "tax", "total", "payment_terms")


def _locate_field(field: Field, printed: Field | None, index: Index) -> Field:
    """The field with the place of the same value on the page: at its label, else anywhere."""
    if printed is not None and printed.value == field.value:
        reasons = (*field.reasons, Message("reason.on_page"))
        return replace(field, page=printed.page, box=printed.box, quote=printed.quote, reasons=reasons)
    if not isinstance(field.value, str):
        return field
    grounding = ground(field.value, index)
    if grounding is None:
        return replace(field, reasons=(*field.reasons, Message("reason.not_on_page")))
    return replace(field, page=grounding.page, box=grounding.box, reasons=(*field.reasons, Message("reason.on_page")))


def _check_digits(name: str, field: Field) -> Field:
    """Lowers the confidence of a number whose check digits are wrong: misread, mistyped, or invented."""
    check = CHECKS.get(name)
    if check is None or not isinstance(field.value, str) or check(field.value) is not False:
        return field
    reasons = (*field.reasons, Message("reason.but", detail=Message("reason.check_digits_wrong")))
    return replace(field, confidence=min(field.confidence, DOUBTED), reasons=reasons)


def _contradictions(exact: Mapping[str, Field], printed: Mapping[str, Field]) -> list[Issue]:
    """An issue where the printed total differs from the XML: one may be paid and the other booked."""
    xml, paper = exact.get("total"), printed.get("total")
    if xml is None or paper is None or xml.value == paper.value or xml.page is not None:
        return []
    if not has_code(paper.reasons, "reason.arithmetic_closes"):
        return []
    return [describe_difference(paper.value, xml.value)]
