"""Fields of custom types."""

from __future__ import annotations

from tabellion.reading.fields.reader import read_fields
from tabellion.reading.types import typefile
from tests.reading.fields.paper import paper

POLICY = """
name: policy
version: "1"
fields:
  policy_number: {type: id, labels: [Policy no], pattern: "[A-Z]{2}-[0-9]{4}"}
  starts: {type: date, labels: [Valid from]}
  premium: {type: money, labels: [Yearly premium]}
  share: {type: percent, labels: [Own share]}
  holder: {type: name, labels: [Policy holder]}
  place: {type: address, labels: [Insured place]}
  cover: {type: choice, enum: [full, partial], labels: [Cover]}
  glass: {type: bool, labels: [Glass included]}
  cars: {type: list, labels: [Vehicles], items: {plate: {type: id, required: true, pattern: "[A-Z]-[A-Z]{2} [0-9]{4}"}}}
"""
PAPER = """
Policy no     Valid from
XX-1234       01.03.2024

Policy holder: Erika Beispiel
Insured place:   Am Anger 3
                 99084 Erfurt
Yearly premium   1.250,50 EUR
Own share        15 %
Cover: partial
Glass included: yes
Vehicles: M-MM 0001, M-MM 0002
"""


def read() -> dict[str, object]:
    found = read_fields(paper(PAPER), typefile.compile_type(POLICY))
    return {name: field.value for name, field in found.items()}


def test_a_custom_type_is_read_by_its_labels() -> None:
    """Every kind of field is found at its label: after, beside or below it."""
    assert read() == {
        "policy_number": "XX-1234", "starts": "2024-03-01", "premium": "1250.50", "share": "15",
        "holder": "Erika Beispiel",
        "place": "Am Anger 3 99084 Erfurt", "cover": "partial", "glass": True,
        "cars": [{"plate": "M-MM 0001"}, {"plate": "M-MM 0002"}],
    }  # fmt: skip


def test_an_empty_page_has_no_fields() -> None:
    """An empty page gives no fields."""
    assert read_fields(paper("Hello"), typefile.compile_type(POLICY)) == {}


def test_patterns_are_searched_by_the_engine_that_validates_them() -> None:
    """A valid pattern reads ids, texts and lists, and one that would backtrack for hours in Python ends."""
    doctype = typefile.compile_type(r"""
name: member
version: "1"
fields:
  code: {type: id, labels: [Member code], pattern: "\\p{L}{2}-[0-9]{4}"}
  holder: {type: name, labels: [Holder], pattern: "[\\p{L} ]+"}
  serial: {type: name, labels: [Serial], pattern: "(a+)+b"}
  cars: {type: list, labels: [Vehicles], items: {plate: {type: id, pattern: "\\p{Lu}{2} [0-9]{2}"}}}
""")
    drawing = f"""
Member code: ÄÖ-1234, ÄÖ-12345
Holder: Zoé Müller
Serial: {"a" * 60}
Vehicles: ÉÄ 01 ÉÄ 02, xÉÄ 03
"""
    found = {name: field.value for name, field in read_fields(paper(drawing), doctype).items()}
    assert found == {"code": "ÄÖ-1234", "holder": "Zoé Müller", "cars": [{"plate": "ÉÄ 01"}, {"plate": "ÉÄ 02"}]}
