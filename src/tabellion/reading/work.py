"""The second task inside the child: from pages, and XML that came with them, to fields and what is wrong with them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tabellion.messages import Message, has_code
from tabellion.reading.alternative import beside
from tabellion.reading.boosting.boost import boost
from tabellion.reading.einvoice.invoice import EInvoice, read_einvoice
from tabellion.reading.field import Field
from tabellion.reading.fields.reader import read_fields, read_fields_and_offers
from tabellion.reading.grounding.ground import ground
from tabellion.reading.grounding.index import Index
from tabellion.reading.issue import Issue
from tabellion.reading.page import Page
from tabellion.reading.pages import parse_page
from tabellion.reading.recognise import recognise
from tabellion.reading.types import rules, typefile
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.identifiers import valid_iban, valid_tax_id

CHECKS = {"iban": valid_iban, "vendor_tax_id": valid_tax_id}
MOST_CHANGES = 500  # nobody reads more
DOUBTED = 0.3  # the chance that a number with wrong check digits is right all the same


def read(
    _file: int | None,
    pages: Sequence[Mapping[str, Any]],
    attachments: Sequence[tuple[str, str]] = (),
    claims: Mapping[str, Mapping[str, str]] | None = None,
    types: Sequence[str] = (),
    boosted: bool = False,
    offers: bool = False,
) -> Iterator[dict[str, Any]]:
    """The task: `types` are the files of the types there are; with more than one the document says which it is."""
    heard = [parse_page(page) for page in pages]
    embedded = read_einvoice([(name, base64.b64decode(data)) for name, data in attachments], claims or {})
    kinds = [_type(path) for path in types]
    kind: DocumentType | None
    kind, share = (kinds[0], 1.0) if len(kinds) == 1 else recognise(heard, kinds)
    if embedded is not None and embedded.syntax and len(kinds) > 1:
        kind, share = next((one for one in kinds if one.name == "invoice"), kind), 1.0
    printed, offered = read_fields_and_offers(heard, kind) if kind and offers else (None, {})
    fields, issues = extract_fields(heard, embedded, kind, printed) if kind else ({}, [])
    said: dict[str, Any] = {
        "type": kind.name if kind else None,
        "share": share,
        "fields": {name: field.as_dict() for name, field in fields.items()},
        "issues": [issue.as_dict() for issue in issues],
    }
    if offers:
        some = beside(offered, fields, printed or {})
        said["offers"] = {name: [one.as_dict() for one in found] for name, found in some.items()}
    if boosted:
        mended = boost(heard)
        changes = [[one.kind, one.before, one.after] for one in mended.changes[:MOST_CHANGES]]
        said |= {"boosted": mended.text, "changes": changes}
    yield said


def extract_fields(
    pages: Sequence[Page],
    embedded: EInvoice | None,
    kind: DocumentType,
    printed: Mapping[str, Field] | None = None,
) -> tuple[dict[str, Field], list[Issue]]:
    """Fields and issues: what the XML says is exact, the words (`printed`, if read already) say what it does not."""
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
        whole = "total" in exact  # XML that breaks off before its sums is helped out by the words
        fields = {**{name: one for name, one in printed.items() if not whole or name not in NOT_BESIDE_XML}, **exact}
    fields = {name: _check_digits(name, field) for name, field in fields.items()}
    known = {frozenset(issue.fields) for issue in issues}
    values = {name: field.value for name, field in fields.items()}
    judged = {name for name, field in fields.items() if field.source == "xml"}
    for issue in rules.check(kind, values):
        # The standard has rules of its own for what its XML says, and knows of allowances that the type does not.
        if frozenset(issue.fields) not in known and not (issue.code == "rule" and judged.issuperset(issue.fields)):
            issues.append(issue)
    return {spec.name: fields[spec.name] for spec in kind.fields if spec.name in fields}, issues


#: What the XML would say if it were so: where it is silent, the words are not asked.
NOT_BESIDE_XML = ("line_items", "taxes", "due_date", "subtotal", "tax", "total", "payment_terms")


def _locate_field(field: Field, printed: Field | None, index: Index) -> Field:
    """The field with the place where the paper says the same: where its label stands, else anywhere."""
    if printed is not None and printed.value == field.value:
        reasons = (*field.reasons, Message("reason.on_page"))
        return replace(field, page=printed.page, box=printed.box, quote=printed.quote, reasons=reasons)
    if not isinstance(field.value, str):
        return field
    where = ground(field.value, index)
    if where is None:
        return replace(field, reasons=(*field.reasons, Message("reason.not_on_page")))
    return replace(field, page=where.page, box=where.box, reasons=(*field.reasons, Message("reason.on_page")))


def _check_digits(name: str, field: Field) -> Field:
    """Numbers with check digits are doubted when these are wrong: misread, mistyped, or made up."""
    check = CHECKS.get(name)
    if check is None or not isinstance(field.value, str) or check(field.value) is not False:
        return field
    reasons = (*field.reasons, Message("reason.but", detail=Message("reason.check_digits_wrong")))
    return replace(field, confidence=min(field.confidence, DOUBTED), reasons=reasons)


def _contradictions(exact: Mapping[str, Field], printed: Mapping[str, Field]) -> list[Issue]:
    """A total on paper that the XML does not have: somebody pays by one and books by the other."""
    xml, paper = exact.get("total"), printed.get("total")
    if xml is None or paper is None or xml.value == paper.value or xml.page is not None:
        return []
    if not has_code(paper.reasons, "reason.arithmetic_closes"):
        return []
    message = Message("issue.xml_differs", value=paper.value, xml=xml.value)
    return [Issue("xml_differs", "warning", message, ("total",), "the same invoice twice")]


def _type(path: str) -> DocumentType:
    status = Path(path).stat()
    return _type_as(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _type_as(path: str, _changed: int, _size: int) -> DocumentType:
    return typefile.read(Path(path))
