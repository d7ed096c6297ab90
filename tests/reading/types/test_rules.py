"""Judging values: what is missing, malformed or does not add up."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tabellion.reading.issue import Issue
from tabellion.reading.types.rules import CODES, MOST_ISSUES, check, verdict
from tabellion.reading.types.typefile import compile_type, load

TODAY = date(2026, 11, 20)
INVOICE: dict[str, Any] = {
    "vendor": "Papeterie Mistral inc.", "vendor_tax_id": "FR03552081317", "invoice_number": "F-2026-17",
    "invoice_date": "2026-10-01", "due_date": "2026-10-31", "currency": "CAD",
    "subtotal": "100.00", "tax": "14.98", "total": "114.98", "iban": "DE89370400440532013000",
    "taxes": [{"name": "T.P.S.", "rate": "5", "amount": "5.00"}, {"name": "TVQ", "rate": "9.975", "amount": "9.98"}],
    "line_items": [{"description": "Paper", "amount": "60.00"}, {"description": "Ink", "amount": "40.00"}],
}  # fmt: skip


def found(name: str, values: dict[str, Any]) -> list[Issue]:
    return check(load(name, ()), values, today=TODAY)


def changed(**changes: Any) -> list[Issue]:
    return found("invoice", INVOICE | changes)


def test_a_valid_invoice_has_no_issue() -> None:
    """It is accepted."""
    assert changed() == []
    assert verdict([]) == "accept"


def test_a_total_that_does_not_add_up_is_an_error_with_its_numbers() -> None:
    """The message names the fields, the values and the tolerance."""
    [issue] = changed(total="114.95")
    assert (issue.code, issue.severity, issue.rule) == ("rule", "error", "total adds up")
    assert issue.fields == ("total", "subtotal", "tax")
    assert "total 114.95, subtotal 100.00, tax 14.98, tolerance 0.02" in issue.message
    assert verdict([issue]) == "reject"
    assert changed(total="114.96") == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"due_date": "2026-09-30"}, "due after issued"),
        ({"due_date": "2036-09-30"}, "due within three years"),
        ({"invoice_date": "2026-12-22", "due_date": None}, "not from the future"),
        ({"line_items": [{"description": "Paper", "amount": "60.00"}]}, "line items add up"),
        ({"taxes": [{"name": "TPS", "amount": "4.50"}, {"name": "TVQ", "amount": "10.48"}]}, "TPS is 5 %"),
        ({"taxes": [{"name": "TPS", "amount": "5.00"}, {"name": "QST", "amount": "9.50"}]}, "TVQ is 9.975 %"),
        ({"taxes": None, "subtotal": "-100.00", "tax": "214.98"}, "total has the sign of the subtotal"),
    ],
)  # fmt: skip
def test_warnings_of_the_invoice(changes: dict[str, Any], rule: str) -> None:
    """Each rule of the shipped type notices its case, and only warns."""
    issues = changed(**changes)
    assert rule in [issue.rule for issue in issues]
    assert verdict(issues) == "warn"


def test_taxes_are_judged_by_the_rates_of_their_time() -> None:
    """The TVQ was 9.5 % in 2012."""
    taxes = [{"name": "TPS", "amount": "5.00"}, {"name": "TVQ", "amount": "9.98"}]
    assert changed(invoice_date="2012-06-01", due_date=None, taxes=[*taxes[:1], taxes[1] | {"amount": "9.97"}]) == []


def test_a_rule_with_a_missing_field_says_nothing() -> None:
    """Without tax it is unknown whether the total adds up."""
    assert changed(tax=None, taxes=None, total="999.00") == []
    assert changed(taxes=[], line_items=[]) == []
    assert changed(line_items=[{"description": "Paper", "amount": None}]) == []


@pytest.mark.parametrize(
    ("changes", "code", "field", "words"),
    [
        ({"vendor": None}, "missing", "vendor", "vendor is required but missing"),
        ({"vendor": ""}, "missing", "vendor", "vendor is required but missing"),
        ({"invoice_date": "2026-02-30", "due_date": None}, "type", "invoice_date", "'2026-02-30' is not a date"),
        ({"invoice_date": "20261001", "due_date": None}, "type", "invoice_date", "YYYY-MM-DD"),
        ({"total": "114,98"}, "type", "total", "'114,98' is not an amount"),
        ({"total": "1e5"}, "type", "total", "is not an amount"),
        ({"total": "NaN"}, "type", "total", "is not an amount"),
        ({"total": True}, "type", "total", "is not an amount"),
        ({"vendor": 7}, "type", "vendor", "'7' is not"),
        ({"currency": "cad"}, "type", "currency", "three letters"),
        ({"invoice_date": "1889-10-01", "due_date": None}, "range", "invoice_date", "is less than 1990-01-01"),
        ({"line_items": "Paper"}, "type", "line_items", "is not a list of rows"),
        ({"line_items": ["Paper"]}, "type", "line_items[0]", "is not a valid row"),
        ({"line_items": [{"amount": "100.00"}]}, "missing", "line_items[0].description", "is required but missing"),
        ({"taxes": None, "line_items": [{"description": "a", "amount": "ten"}]}, "type", "line_items[0].amount",
         "'ten' is not an amount"),
    ],
)  # fmt: skip
def test_an_invalid_value_is_an_error(changes: dict[str, Any], code: str, field: str, words: str) -> None:
    """The issue has its code, its field, the value and what was expected."""
    [issue] = changed(**changes)
    assert (issue.code, issue.severity, issue.fields) == (code, "error", (field,))
    assert words in issue.message


def test_a_field_has_a_severity_for_pattern_choice_and_range() -> None:
    """An invalid IBAN warns; so does a name the type does not have."""
    codes = {issue.code: issue.severity for issue in changed(iban="none", nonsense="x")}
    assert codes == {"pattern": "warning", "unknown": "warning"}
    compiled = compile_type(
        "name: a\nversion: '1'\nfields:\n  k: {type: choice, enum: [x, y]}\n  l: {type: list, range: {min: 1, max: 2}, "
        "items: {a: text}}\n  p: {type: percent, range: {max: 100}}\n  b: bool\n"
    )
    issues = check(compiled, {"k": "z", "l": [], "p": "100.5", "b": "true"})
    assert [(issue.code, issue.fields[0], issue.severity) for issue in issues] == [
        ("choice", "k", "error"), ("range", "l", "error"), ("range", "p", "error"), ("type", "b", "error"),
    ]  # fmt: skip
    assert [issue.code for issue in check(compiled, {"l": [{"a": "1"}] * 3})] == ["range"]
    assert check(compiled, {"k": "x", "p": 5, "b": False}) == []
    assert check(compiled, {"p": Decimal("99.50"), "b": True}) == []


def test_a_deed() -> None:
    """Lots by pattern, dates in order, a sale with its price and parties."""
    deed: dict[str, Any] = {
        "registration_number": "27 123 456", "registration_date": "2022-03-04", "act_type": "vente",
        "act_date": "2022-03-01", "price": "425000.00", "cadastre": "Cadastre du Québec", "notary": "Anne Roy",
        "minute_number": "4 321", "parties": [{"name": "A. Tremblay", "role": "vendeur"}, {"name": "B. Côté"}],
        "lots": [{"lot": "1 234 567"}, {"lot": "123-45 Ptie"}],
    }  # fmt: skip
    assert found("deed", deed) == []
    assert found("deed", deed | {"act_type": "quittance", "price": None}) == []
    rules = {issue.rule or issue.code for issue in found("deed", deed | {
        "registration_date": "2022-02-01", "registration_number": "27-12", "price": None,
        "parties": deed["parties"][:1], "lots": [{"lot": "lot 12"}], "cadastre": None, "minute_number": None,
    })}  # fmt: skip
    assert rules == {"registered after it was signed", "pattern", "a sale has a price", "a sale has two parties",
                     "lots have a cadastre", "a notarial act has a minute"}  # fmt: skip


def test_a_receipt() -> None:
    """Tax in or on top of the total, and change that adds up."""
    receipt = {"vendor": "Kedai Ria", "invoice_date": "2026-11-01", "total": "10.60", "subtotal": "10.00",
               "tax": "0.60", "payment": "cash", "tendered": "20.00", "change": "9.40"}  # fmt: skip
    assert found("receipt", receipt) == []
    assert found("receipt", receipt | {"subtotal": "10.60"}) == []
    assert [issue.rule for issue in found("receipt", receipt | {"subtotal": "9.00"})] == ["total adds up"]
    assert [issue.rule for issue in found("receipt", receipt | {"change": "1.00"})] == ["change adds up"]
    assert [issue.code for issue in found("receipt", receipt | {"payment": "barter"})] == ["choice"]


def test_ten_thousand_wrong_rows_are_not_ten_thousand_issues() -> None:
    """The list of issues is limited, and so is each message."""
    issues = changed(line_items=[{"description": "a", "amount": "x" * 5000}] * 10_000)
    assert len(issues) == MOST_ISSUES
    assert max(len(issue.message) for issue in issues) < 300


def test_a_sum_is_never_judged_by_a_part_of_its_table() -> None:
    """A malformed row is an issue, and a sum over its table is undecided."""
    rows: list[Any] = [{"description": "Paper", "amount": "60.00"}, "Ink", {"description": "Ink", "amount": "40.00"}]
    assert [issue.fields for issue in changed(line_items=rows)] == [("line_items[1]",)]
    assert [issue.fields for issue in changed(line_items=[*rows, 7])] == [("line_items[1]",), ("line_items[3]",)]


def test_warnings_do_not_displace_an_error() -> None:
    """However many warnings come first, the error is listed and rejects the document."""
    compiled = compile_type(
        "name: a\nversion: '1'\nfields:\n  l: {type: list, items: {a: {type: text, pattern: x, severity: warning}}}\n"
        "  total: {type: money, required: true}\n"
    )
    issues = check(compiled, {"l": [{"a": "y"}] * (MOST_ISSUES + 5)})
    assert len(issues) == MOST_ISSUES
    assert (issues[0].code, verdict(issues)) == ("missing", "reject")


def test_messages_are_safe_to_print_and_issues_are_json() -> None:
    """Control characters of a document do not reach a terminal."""
    [issue] = changed(total="\x1b[31m7")
    assert "\x1b" not in issue.message
    assert issue.as_dict() == {
        "code": "type", "severity": "error", "message": issue.message, "fields": ["total"], "rule": "",
        "translatable": {"message": {"code": "issue.not_of_kind", "params": {
            "field": "total", "value": {"code": "value.quoted", "params": {"text": " [31m7"}},
            "detail": {"code": "kind.amount", "params": {}},
        }}},
    }  # fmt: skip
    assert issue.code in CODES
