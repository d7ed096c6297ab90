"""The local reader: every field of a document type, from the words of its pages."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.reading.alternative import Alternatives
from tabellion.reading.field import Field
from tabellion.reading.fields import by_kind, deed
from tabellion.reading.fields.alternatives import AlternativeFinder
from tabellion.reading.fields.answer import FieldAnswer
from tabellion.reading.fields.bill import Bill
from tabellion.reading.fields.confidence import field_of
from tabellion.reading.fields.labelled_text import LabelledText, label_text
from tabellion.reading.fields.labels import Lexicon
from tabellion.reading.fields.roles import lexicon_phrases
from tabellion.reading.page import Page
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.field_spec import FieldSpec

_LEXICONS: dict[str, Lexicon] = {}  # by the type's key


def read_fields(pages: Sequence[Page], doctype: DocumentType) -> dict[str, Field]:
    """The fields of the type that were found in the pages."""
    return {name: field_of(answer) for name, answer in read_answers(pages, doctype).items()}


def read_fields_and_alternatives(pages: Sequence[Page], doctype: DocumentType) -> tuple[dict[str, Field], Alternatives]:
    """The fields that were found, and the alternatives for each field of the type."""
    doc, bill, answers = _answers(pages, doctype)
    finder = AlternativeFinder(doc, bill)
    alternatives = {
        spec.name: finder.find(spec, answers.get(spec.name)) for spec in doctype.fields if doc.layout.lines
    }  # fmt: skip
    return {name: field_of(answer) for name, answer in answers.items()}, alternatives


def read_answers(pages: Sequence[Page], doctype: DocumentType) -> dict[str, FieldAnswer]:
    """The answers with their evidence, before it becomes a confidence."""
    return _answers(pages, doctype)[2]


def _answers(pages: Sequence[Page], doctype: DocumentType) -> tuple[LabelledText, Bill, dict[str, FieldAnswer]]:
    doc = label_text([page for page in pages if page.words], lexicon_of(doctype), doctype.locale.dates)
    bill = Bill(doc)
    found = ((spec.name, _read(doc, bill, spec)) for spec in doctype.fields if doc.layout.lines)
    return doc, bill, {name: answer for name, answer in found if answer is not None}


def _read(doc: LabelledText, bill: Bill, spec: FieldSpec) -> FieldAnswer | None:
    """Reads a field by its name where there is a reader for it, else by its kind."""
    answer = None
    if spec.name in bill.readers:
        answer = bill.readers[spec.name]()
    elif spec.name in deed.READERS:
        answer = deed.READERS[spec.name](doc)
    else:
        answer = by_kind.read(doc, spec)
    if answer is not None:
        answer.name, answer.value = spec.name, spec.fit(answer.value)
    return answer


def lexicon_of(doctype: DocumentType) -> Lexicon:
    """Every label of the type, and the reader's own phrases."""
    if doctype.key not in _LEXICONS:
        _LEXICONS[doctype.key] = _lexicon(doctype)
    return _LEXICONS[doctype.key]


def _lexicon(doctype: DocumentType) -> Lexicon:
    labels: dict[str, list[str]] = {}
    noise: list[str] = []
    for spec in doctype.fields:
        labels[spec.name] = [phrase for phrases in spec.labels.values() for phrase in phrases]
        noise += [phrase for phrases in spec.not_labels.values() for phrase in phrases]
        for column in spec.items if spec.name not in ("line_items", "taxes") else ():
            labels[f"{spec.name}.{column.name}"] = [phrase for phrases in column.labels.values() for phrase in phrases]
    return Lexicon.of(lexicon_phrases(labels, noise))
