"""Verifies the check digits of tax numbers, bank accounts and company numbers.

Each check returns True, False, or None where no check is known for this kind of number.
"""

from __future__ import annotations

import re

LONGEST = 64  # characters; every number that is checked here is shorter
VAT_COUNTRIES = ("FR", "DE", "BE", "AT", "IT", "LU")


def valid_iban(text: str) -> bool | None:
    """An IBAN: ISO 7064 mod 97 over the whole account number, and the format of its country."""
    from stdnum import iban

    return iban.is_valid(compact(text), check_country=False)


def valid_vat(text: str) -> bool | None:
    """A VAT number of `VAT_COUNTRIES`; None for other countries."""
    number = compact(text)
    if number[:2] not in VAT_COUNTRIES or len(number) < 4:
        return None
    if re.fullmatch(r"FR(?!\d\d)[A-Z0-9]{2}\d{9}", number):
        return None  # newer keys have letters and are computed differently
    return _is_valid(number[:2], "vat", number)


def valid_siren(text: str) -> bool | None:
    """A French company number: nine digits, the last by Luhn."""
    return _is_valid("FR", "siren", compact(text))


def valid_siret(text: str) -> bool | None:
    """A French establishment number: a company number and five digits, the whole by Luhn."""
    return _is_valid("FR", "siret", compact(text))


def valid_gst(text: str) -> bool | None:
    """A Canadian GST/HST (TPS/TVH) account: a business number by Luhn, then RT and four digits."""
    number = compact(text)
    return re.fullmatch(r"\d{9}(?:RT\d{4})?", number) is not None and _is_valid("CA", "bn", number)


def valid_tax_id(text: str) -> bool | None:
    """A number of any of these kinds, recognised by its form; None where it has another form."""
    number = compact(text)
    if number[:2] in VAT_COUNTRIES:
        return valid_vat(number)
    if re.fullmatch(r"\d{9}RT\d{4}", number):
        return valid_gst(number)
    if re.fullmatch(r"\d{14}", number):
        return valid_siret(number)
    return None  # many countries have numbers of nine digits


def compact(text: str) -> str:
    """Letters and digits only, in capitals."""
    return re.sub(r"[^A-Z0-9]", "", text[: 2 * LONGEST].upper())[:LONGEST]


def _is_valid(country: str, kind: str, number: str) -> bool:
    from stdnum.util import get_cc_module

    module = get_cc_module(country, kind)
    return module is not None and module.is_valid(number)
