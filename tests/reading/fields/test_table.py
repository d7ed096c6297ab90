"""Line items."""

from __future__ import annotations

import pytest

from tabellion.reading.fields.reader import read_fields_and_alternatives
from tabellion.reading.fields.table import LineItem, read_items
from tabellion.reading.types import typefile
from tests.reading.fields.paper import paper, sheet

TABLE = """
Pos  Artikel              Menge   Einzelpreis   Betrag
1    Superdrachen         2       20,00         40,00
2    Turbo Flyer          5       40,00        200,00
     mit Anhang
3    Adler                1       75,00         75,00

Rechnungssumme netto                           315,00
zzgl. 19% MwSt.                                 59,85
"""


def items(*drawings: str) -> list[LineItem]:
    return read_items(sheet(*drawings))


def test_each_row_with_an_amount_is_an_item() -> None:
    """Description, quantity and price are read by their columns; rows that continue a description are not items."""
    result = [item.as_dict() for item in items(TABLE)]
    assert result[0] == {
        "description": "Superdrachen", "quantity": "2", "unit_price": "20.00", "amount": "40.00", "tax_rate": None,
    }  # fmt: skip
    assert [one["amount"] for one in result] == ["40.00", "200.00", "75.00"]
    assert all(item.checked for item in items(TABLE))


@pytest.mark.parametrize("kind", ["invoice", "receipt"])
def test_rows_have_the_columns_of_their_type(kind: str) -> None:
    """Other columns are left out: nobody could correct a row that has them."""
    doctype = typefile.load(kind, ())
    fields, offers = read_fields_and_alternatives(paper(TABLE), doctype)
    columns = set(doctype.field("line_items").columns)
    tables = [fields["line_items"].value, *(one.value for one in offers.get("line_items", ()))]
    assert len(tables[0]) == 3
    assert all(set(row) <= columns for rows in tables for row in rows)


def test_sums_end_the_table() -> None:
    """Rows below the first sum are not items."""
    assert len(items(TABLE)) == 3


def test_allowances_and_charges_are_not_items() -> None:
    """Discounts and shipping of the whole bill are in the same column and left out."""
    drawing = TABLE.replace(
        "3    Adler                1       75,00         75,00",
        "     Rabatt 5 %                               -12,00\n     Versandkosten                              5,00",
    )
    assert [str(item.amount) for item in items(drawing)] == ["40.00", "200.00"]


def test_a_table_continues_over_pages() -> None:
    """The repeated heading on the next page is not an item, and the items there count."""
    first, rest = TABLE.split("2    Turbo", 1)
    heading = "Pos  Artikel              Menge   Einzelpreis   Betrag\n"
    assert len(items(first, heading + "2    Turbo" + rest)) == 3


def test_another_table_is_not_included() -> None:
    """A summary of taxes has its own heading."""
    drawing = (
        "Description    Qty   Price   Amount\nBolt           2     3.00    6.00\n\nVAT rate       Base    VAT "
        "amount\n20 %           6.00    1.20"
    )
    assert [str(item.amount) for item in items(drawing)] == ["6.00"]


def test_without_a_heading_there_are_no_items() -> None:
    """Amounts alone are not a table."""
    assert items("Thank you\n12.00\n13.00") == []


def test_freight_with_a_quantity_and_a_price_is_an_item() -> None:
    """Whatever is sold by the piece is an item."""
    drawing = (
        "Description   Qty   Price    Amount\nBolt          2     3.00     6.00\nShipping      1     15.00    "
        "15.00\n\nTotal   21.00"
    )
    assert [str(item.amount) for item in items(drawing)] == ["6.00", "15.00"]


def test_a_carried_over_sum_is_not_an_item() -> None:
    """It was counted on the page before."""
    heading = "Description   Qty   Price    Amount\n"
    first, second = (
        heading + "Bolt          2     3.00     6.00",
        heading + "Brought forward               6.00\nNut  4  1.00  4.00",
    )
    second = second.replace("Nut  4  1.00  4.00", "Nut           4     1.00     4.00")
    assert [str(item.amount) for item in items(first, second)] == ["6.00", "4.00"]


def test_a_table_continues_after_the_sum_of_its_page() -> None:
    """Page sums end the table on their page, not in the document."""
    heading = "Description   Qty   Price    Amount\n"
    first = heading + "Bolt          2     3.00     6.00\nSubtotal                     6.00"
    second = heading + "Nut           4     1.00     4.00\nTotal                       10.00"
    assert [str(item.amount) for item in items(first, second)] == ["6.00", "4.00"]


def test_a_line_far_below_is_not_a_row() -> None:
    """A payment slip has amounts in the same column."""
    drawing = (
        "Description   Qty   Price    Amount\nBolt          2     3.00     6.00"
        + "\n" * 20
        + "to be paid                   7.50"
    )
    assert [str(item.amount) for item in items(drawing)] == ["6.00"]
