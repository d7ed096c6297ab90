"""Check digits: whether a tax number, a bank account or a company number can be right.

Each check answers True, False, or None where the number is of a kind that carries no check known here.
"""

from __future__ import annotations

import re

LONGEST = 64  # characters; nothing that is checked here is longer
VAT_COUNTRIES = ("FR", "DE", "BE", "AT", "IT", "LU")


def valid_iban(text: str) -> bool | None:
    """ISO 7064 mod 97 over the whole account number, and the shape that it has in its country."""
    from stdnum import iban

    return iban.is_valid(compact(text), check_country=False)


def valid_vat(text: str) -> bool | None:
    """A VAT number of the countries whose check is known; None for the others."""
    number = compact(text)
    if number[:2] not in VAT_COUNTRIES or len(number) < 4:
        return None
    if re.fullmatch(r"FR(?!\d\d)[A-Z0-9]{2}\d{9}", number):
        return None  # keys with letters are newer, and made in another way
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
    """Whatever of the above the number looks like; None when it looks like none of them."""
    number = compact(text)
    if number[:2] in VAT_COUNTRIES:
        return valid_vat(number)
    if re.fullmatch(r"\d{9}RT\d{4}", number):
        return valid_gst(number)
    if re.fullmatch(r"\d{14}", number):
        return valid_siret(number)
    return None  # nine digits alone are many countries' numbers


def compact(text: str) -> str:
    """Letters and digits only, in capitals."""
    return re.sub(r"[^A-Z0-9]", "", text[: 2 * LONGEST].upper())[:LONGEST]


def _is_valid(country: str, kind: str, number: str) -> bool:
    from stdnum.util import get_cc_module

    module = get_cc_module(country, kind)
    return module is not None and module.is_valid(number)
