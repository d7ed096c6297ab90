"""Check digits of tax numbers, accounts and companies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tabellion.reading.types.identifiers import (
    compact,
    valid_gst,
    valid_iban,
    valid_siren,
    valid_siret,
    valid_tax_id,
    valid_vat,
)


def digits_changed(number: str) -> list[str]:
    """Return the number with each of its last nine digits wrong in turn."""
    collected = []
    for place in range(len(number) - 9, len(number)):
        if number[place].isdigit():
            collected.append(number[:place] + str((int(number[place]) + 1) % 10) + number[place + 1 :])
    return collected


@pytest.mark.parametrize(
    ("check", "number"),
    [
        (valid_vat, "FR03552081317"),
        (valid_vat, "DE136695976"),
        (valid_vat, "BE0403019261"),
        (valid_vat, "ATU13585627"),
        (valid_vat, "IT00743110157"),
        (valid_iban, "DE89370400440532013000"),
        (valid_iban, "GB82WEST12345698765432"),
        (valid_iban, "FR1420041010050500013M02606"),
        (valid_siren, "552081317"),
        (valid_siret, "55208131766522"),
        (valid_gst, "123456782RT0001"),
        (valid_gst, "123456782"),
    ],
)
def test_a_valid_number_passes_and_one_wrong_digit_fails(check: Callable[[str], bool | None], number: str) -> None:
    """Whatever digit is misread, the check notices; spaces do not matter."""
    assert check(number) is True
    assert check(" ".join(number).lower()) is True
    for wrong in digits_changed(number.removesuffix("RT0001")):
        assert check(wrong) is False, wrong


def test_what_cannot_be_checked_is_neither_valid_nor_invalid() -> None:
    """Other countries, keys with letters, texts that are not numbers."""
    assert valid_vat("ESB12345678") is None
    assert valid_vat("FRXX552081317") is None
    assert valid_vat("13/456/78901") is None
    assert valid_vat("") is None
    assert valid_tax_id("1234567890TQ0001") is None
    assert valid_tax_id("552081317") is None


def test_a_tax_number_is_checked_by_its_form() -> None:
    """VAT, SIRET and Canadian accounts are distinguished."""
    assert valid_tax_id("DE 136 695 976") is True
    assert valid_tax_id("DE136695977") is False
    assert valid_tax_id("552 081 317 66522") is True
    assert valid_tax_id("552 081 317 66523") is False
    assert valid_tax_id("12345 6782 RT 0001") is True
    assert valid_tax_id("123456789RT0001") is False


def test_lengths_and_forms() -> None:
    """Too short, too long, letters where digits belong: invalid, not an exception."""
    assert valid_iban("DE8937040044053201300") is False
    assert valid_iban("none") is False
    assert valid_iban("9" * 10_000) is False
    assert valid_siren("55208131") is False
    assert valid_siret("552081317665") is False
    assert valid_vat("DE036695976") is False
    assert valid_vat("LU15027442") is True
    assert valid_vat("LU15027443") is False
    assert valid_gst("123456782RC0001") is False
    assert valid_iban("GB09904825495288783989") is False  # a British bank has four letters
    assert len(compact("x" * 10_000)) == 64


def test_la_poste_has_its_own_check() -> None:
    """La Poste's establishments add up to a multiple of five instead."""
    assert valid_siret("35600000049837") is True
    assert valid_siret("35600000049838") is False
