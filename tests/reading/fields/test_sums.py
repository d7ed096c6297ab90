"""Subtotal, tax and total, chosen together."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tabellion.reading.fields.sums import Sums, read_sums
from tabellion.reading.fields.table import read_items
from tests.reading.fields.paper import sheet


def sums(drawing: str, kind: str = "invoice") -> tuple[str | None, str | None, str | None]:
    read = read_sums(sheet(drawing, kind=kind))
    return tuple(str(one.value) if one else None for one in (read.subtotal, read.tax, read.total))  # type: ignore[return-value]


def chosen(drawing: str, kind: str = "invoice") -> Sums:
    return read_sums(sheet(drawing, kind=kind))


@pytest.mark.parametrize(
    "drawing",
    [
        "Subtotal      100.00\nVAT 19%        19.00\nTotal         119.00",
        "Total HT   Total TVA   Total TTC\n100,00       19,00      119,00",
        "Nettobetrag: 100,00 €\nzzgl. 19 % MwSt.: 19,00 €\nGesamtbetrag: 119,00 €",
        "Sous-total   100,00 $\nTPS           19,00 $\nTOTAL        119,00 $",
        "Net total: 100.00 €\nVAT total: 19.00 €\nDue payable: 119.00 €",
        "Rechnungssumme Netto (exkl. USt.)   100,00\nUmsatzsteuer   19,00\nRechnungssumme Brutto (inkl. USt.)   119,00",
    ],
)
def test_the_three_sums_are_read_from_usual_layouts(drawing: str) -> None:
    """Beside, below and after their labels, in three languages."""
    assert sums(drawing) == ("100.00", "19.00", "119.00")


def test_several_taxes_are_added() -> None:
    """TPS and TVQ are added when their sum makes the total add up."""
    read = chosen("Sous-total    100,00 $\nTPS 5 %         5,00 $\nTVQ 9,975 %     9,98 $\nTotal         114,98 $")
    assert read.tax is not None
    assert (read.tax.value, read.closes) == (Decimal("14.98"), True)


def test_arithmetic_beats_a_better_label() -> None:
    """The amount left to pay after a deposit is not the total."""
    drawing = (
        "Nettobetrag    100,00\nMwSt.           19,00\nBruttosumme    119,00\nAnzahlung      -50,00\n"
        "Zahlbetrag      69,00"
    )
    assert sums(drawing)[2] == "119.00"


def test_cash_less_change_confirms_the_total() -> None:
    """On a receipt the money that was kept is the total, whatever the label."""
    read = chosen("SUBTOTAL   28.70\nCASH      100.00\nCHANGE     71.30", "receipt")
    assert read.total is not None
    assert (str(read.total.value), read.proofs) == ("28.70", ["cash minus change"])


def test_the_rounded_total_is_the_total() -> None:
    """After a rounding adjustment the later total counts."""
    drawing = "Total (Inclusive of GST)   41.52\nRounding Adj   -0.02\nTOTAL   41.50\nVISA    41.50"
    assert sums(drawing, "receipt")[2] == "41.50"


def test_column_headings_are_not_labels_of_sums() -> None:
    """The first amount under a column's "Total" is an item."""
    drawing = (
        "Description   Qty   Price   Total\nBolt          2     3.00    6.00\nNut           4     1.00    "
        "4.00\n\nTotal due             10.00"
    )
    assert sums(drawing)[2] == "10.00"


def test_a_total_of_pieces_is_not_an_amount() -> None:
    """ "Total Qty" is left alone."""
    assert sums("Total Qty  3.00\nTotal  9.00", "receipt")[2] == "9.00"


def test_nothing_is_invented() -> None:
    """No amounts, no sums."""
    assert sums("Hello world") == (None, None, None)


def test_two_items_are_not_a_subtotal_and_its_tax() -> None:
    """Two items in the proportion of a sum and its tax leave an invoice without tax alone."""
    drawing = (
        "Description   Qty   Price      Amount\nWork          1     1000.00    1000.00\nTravel        1      200.00  "
        "   200.00\n\n"
        "Subtotal                       1200.00\nTotal                          1200.00"
    )
    bill = sheet(drawing)
    read = read_sums(bill, read_items(bill))
    assert read.total is not None
    assert (str(read.total.value), read.tax) == ("1200.00", None)


def test_two_unlabelled_amounts_are_not_subtotal_and_tax() -> None:
    """A total alone proves nothing about its parts."""
    assert sums("Deposit paid in May   1000.00\nand in June            200.00\nTotal                 1200.00") == (
        None, None, "1200.00",
    )  # fmt: skip


def test_an_item_is_not_the_tax_even_if_it_fits() -> None:
    """Between a subtotal and a total that differ, an item is not the tax."""
    drawing = (
        "Description   Qty   Price      Amount\nWork          1     800.00     800.00\n"
        "Travel        1     200.00     200.00\n\nSubtotal   1000.00\nTotal      1200.00"
    )
    bill = sheet(drawing)
    assert read_sums(bill, read_items(bill)).tax is None


def test_one_amount_is_not_two_sums() -> None:
    """The total is not its own subtotal."""
    assert sums("VAT     17.00\nTotal  117.00") == (None, "17.00", "117.00")


def test_what_was_paid_decides_between_two_totals() -> None:
    """Cash less change beats the larger one."""
    assert sums("TOTAL   40.00\nTOTAL   28.70\nCASH    50.00\nCHANGE  21.30", "receipt")[2] == "28.70"


def test_an_item_under_the_heading_total_is_not_the_total() -> None:
    """Even where it is larger than what is left to pay."""
    drawing = (
        "Description   Qty   Price    Total\nMachine       1     60.00    60.00\nReturned      1    -50.00   -50.00\n\n"
        "Total due   10.00"
    )
    assert sums(drawing)[2] == "10.00"


def test_words_about_tax_distinguish_subtotal_from_total() -> None:
    """The same label with and without tax is two sums."""
    drawing = "Rechnungsbetrag ohne USt.   100,00\nRechnungsbetrag inkl. USt.  119,00"
    assert sums(drawing) == ("100.00", None, "119.00")


def test_a_subtotal_before_a_discount_is_not_the_total() -> None:
    """It is larger, and labelled as subtotal."""
    drawing = (
        "SUBTOTAL        79.60\nDISCOUNT       -30.00\nTotal Amount    49.60\nServ Charge 10%  4.96\n"
        "GST @ 6%         3.27\nRounding Adj    -0.03\nTotal Amount    57.80\nTOTAL        RM 57.80"
    )
    assert sums(drawing, "receipt")[2] == "57.80"
