"""Check digits: whether a tax number, a bank account or a company number can be right.

Each check answers True, False, or None where the number is of a kind that carries no check known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LONGEST = 64  # characters; nothing that is checked here is longer

#: Letters and digits of an account number, by country (ISO 13616).
IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AT": 20, "BE": 16, "BG": 22, "BH": 22, "CH": 21, "CY": 28, "CZ": 24, "DE": 22, "DK": 18,
    "EE": 20, "ES": 24, "FI": 18, "FR": 27, "GB": 22, "GR": 27, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IS": 26,
    "IT": 27, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "MC": 27, "MT": 31, "NL": 18, "NO": 15, "PL": 28, "PT": 25,
    "RO": 24, "SA": 24, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TN": 24, "TR": 26,
}  # fmt: skip


def valid_iban(text: str) -> bool | None:
    """ISO 7064 mod 97 over the whole account number, and its length where the country is known."""
    number = compact(text)
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{8,30}", number):
        return False
    if len(number) != IBAN_LENGTHS.get(number[:2], len(number)):
        return False
    return int("".join(str(int(sign, 36)) for sign in number[4:] + number[:4])) % 97 == 1


def valid_vat(text: str) -> bool | None:
    """A VAT number of the countries whose check is known; None for the others."""
    number = compact(text)
    if len(number) < 4 or not number[:2].isalpha():
        return None
    check = VAT_CHECKS.get(number[:2])
    return check(number[2:]) if check else None


def valid_siren(text: str) -> bool | None:
    """A French company number: nine digits, the last by Luhn."""
    number = compact(text)
    return len(number) == 9 and number.isdigit() and _luhn(number)


def valid_siret(text: str) -> bool | None:
    """A French establishment number: a company number and five digits, the whole by Luhn."""
    number = compact(text)
    if len(number) != 14 or not number.isdigit():
        return False
    if number.startswith("356000000"):  # La Poste's offices: their digits add up to a multiple of five instead
        return _luhn(number) or sum(map(int, number)) % 5 == 0
    return _luhn(number) and _luhn(number[:9])


def valid_gst(text: str) -> bool | None:
    """A Canadian GST/HST (TPS/TVH) account: a business number by Luhn, then RT and four digits."""
    match = re.fullmatch(r"(\d{9})(?:RT\d{4})?", compact(text))
    return bool(match) and _luhn(match[1])  # type: ignore[index]


def valid_tax_id(text: str) -> bool | None:
    """Whatever of the above the number looks like; None when it looks like none of them."""
    number = compact(text)
    if number[:2] in VAT_CHECKS:
        return valid_vat(number)
    if re.fullmatch(r"\d{9}RT\d{4}", number):
        return valid_gst(number)
    if re.fullmatch(r"\d{14}", number):
        return valid_siret(number)
    return None  # nine digits alone are many countries' numbers


def compact(text: str) -> str:
    """Letters and digits only, in capitals."""
    return re.sub(r"[^A-Z0-9]", "", text[: 2 * LONGEST].upper())[:LONGEST]


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _france(number: str) -> bool | None:
    if not re.fullmatch(r"[A-Z0-9]{2}\d{9}", number):
        return False
    if not number[:2].isdigit():
        return None  # the newer keys with letters are made in another way
    siren = number[2:]
    return int(number[:2]) == (12 + 3 * (int(siren) % 97)) % 97


def _germany(number: str) -> bool:
    """ISO 7064 mod 11,10."""
    if not re.fullmatch(r"[1-9]\d{8}", number):
        return False
    product = 10
    for digit in number[:8]:
        total = (int(digit) + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == int(number[8])


def _belgium(number: str) -> bool:
    return bool(re.fullmatch(r"[01]\d{9}", number)) and 97 - int(number[:8]) % 97 == int(number[8:])


def _austria(number: str) -> bool:
    if not re.fullmatch(r"U\d{8}", number):
        return False
    digits = [int(digit) for digit in number[1:]]
    total = sum(digits[0:7:2]) + sum(digit // 5 + digit * 2 % 10 for digit in digits[1:6:2])
    return (10 - (total + 4) % 10) % 10 == digits[7]


def _italy(number: str) -> bool:
    return bool(re.fullmatch(r"\d{11}", number)) and _luhn(number)


def _luxembourg(number: str) -> bool:
    return bool(re.fullmatch(r"\d{8}", number)) and int(number[:6]) % 89 == int(number[6:])


VAT_CHECKS: dict[str, Callable[[str], bool | None]] = {
    "FR": _france, "DE": _germany, "BE": _belgium, "AT": _austria, "IT": _italy, "LU": _luxembourg,
}  # fmt: skip
