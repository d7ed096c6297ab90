"""ground: the places of values, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fpdf import FPDF
from typer.testing import CliRunner

from tabellion.cli.app import app
from tabellion.errors import Permanent
from tests.reading import papers


@pytest.fixture
def invoice(tmp_path: Path) -> Path:
    """A page with a total and a date."""
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=12)
    pdf.text(20, 30, "Facture du 14 mars 2026")
    pdf.text(20, 50, "Total 1 234,50 EUR")
    path = tmp_path / "invoice.pdf"
    path.write_bytes(bytes(pdf.output()))
    return path


def run(invoice: Path, data: object, *options: str) -> tuple[int, str]:
    file = invoice.with_suffix(".json")
    file.write_text(json.dumps(data))
    result = CliRunner().invoke(app, ["ground", str(invoice), str(file), *options], env={"COLUMNS": "200"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_values_are_printed_with_their_places(invoice: Path) -> None:
    """As JSON: the data with page, box, quote and match of each value."""
    code, output = run(invoice, {"total": "1234.50", "dates": ["2026-03-14"]}, "--json")
    body = json.loads(output)
    assert code == 0
    assert body["total"]["quote"] == "1 234,50"
    assert (body["dates"][0]["match"], body["dates"][0]["page"]) == ("date", 1)
    x0, y0, x1, y1 = body["total"]["box"]
    assert 0.1 < x0 < x1 < 0.4
    assert 0.14 < y0 < y1 < 0.18


def test_an_ungrounded_value_is_exit_code_6(invoice: Path) -> None:
    """A table for people; exit code 6 when a value is ungrounded."""
    code, output = run(invoice, {"total": "1234.50", "vendor": {"value": "Durand"}})
    assert code == 6
    assert [line.split()[:3] for line in output.splitlines() if "total" in line] == [["total", "1234.50", "number"]]
    assert [line.split()[:3] for line in output.splitlines() if "vendor" in line] == [
        ["vendor", "Durand", "ungrounded"]
    ]


def test_invalid_json_is_an_error(invoice: Path) -> None:
    """One clear message, which the command line turns into exit code 5."""
    file = invoice.with_suffix(".json")
    file.write_text("{")
    with pytest.raises(Permanent, match="not JSON"):
        CliRunner().invoke(app, ["ground", str(invoice), str(file)], catch_exceptions=False)
    with pytest.raises(Permanent, match=r"none\.json"):
        CliRunner().invoke(app, ["ground", str(invoice), str(invoice.parent / "none.json")], catch_exceptions=False)


def test_a_field_may_have_the_name_of_a_result_key(invoice: Path) -> None:
    """Fields called match, value or page are searched like any other."""
    code, output = run(invoice, {"match": "Total", "page": {"match": "Durand"}})
    assert code == 6
    rows = [line.split()[:3] for line in output.splitlines() if "match" in line][1:]
    assert rows == [["match", "Total", "exact"], ["page.match", "Durand", "ungrounded"]]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_too_deeply_nested_data_is_an_error(invoice: Path, options: tuple[str, ...]) -> None:
    """One clear message."""
    data: list[object] = []
    for _ in range(900):
        data = [data]
    with pytest.raises(Permanent, match="too deep"):
        run(invoice, data, *options)


def test_the_output_of_read_is_grounded_by_its_fields(invoice: Path) -> None:
    """Of a reading's own JSON the values are searched, not the file's name or its size."""
    fields = {"total": {"value": "1234.50", "confidence": 0.9, "page": 1, "box": None, "quote": "1 234,50"}}
    reading = {"file": "invoice.pdf", "verdict": "accept", "pages": [{"number": 1}], "fields": fields}
    code, output = run(invoice, reading, "--json")
    body = json.loads(output)
    assert (code, list(body), body["total"]["match"]) == (0, ["total"], "exact")


def test_an_encrypted_document_is_opened_by_its_password(invoice: Path) -> None:
    """Without it the message says how to pass it."""
    invoice.write_bytes(papers.pdf(password="view"))
    with pytest.raises(Permanent, match="--password, or TABELLION_PDF_PASSWORD"):
        run(invoice, {"total": "120.00"})
    assert run(invoice, {"total": "120.00"}, "--password", "view")[0] == 0
