"""Typed values in printed text: dates, money, percentages, in English, French and German notations."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal

DateOrder = Literal["dmy", "mdy", "ymd"]

_MONTHS = (
    "january february march april may june july august september october november december",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "januar februar maerz april mai juni juli august september oktober november dezember",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "janv fevr mar avr mai juin juil aou sept oct nov dec",
    "jan feb marz apr mai jun jul aug sep okt nov dez",
    "jan feb mrz apr mai jun jul aug sep okt nov dez",
)
MONTHS = {name: number for names in _MONTHS for number, name in enumerate(names.split(), 1)}

#: Printed signs by currency. "$" is the US dollar unless the page shows another country's. "Fr." counts only where a
#: currency is expected: on paper it may be a Friday.
SYMBOLS = {
    "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "RM": "MYR", "US$": "USD", "CA$": "CAD", "C$": "CAD",
    "$CA": "CAD", "$CAN": "CAD", "CHF": "CHF", "FR.": "CHF", "SFR": "CHF", "SFR.": "CHF", "EURO": "EUR", "EUROS": "EUR",
    "S$": "SGD", "A$": "AUD", "KČ": "CZK", "ZŁ": "PLN",
}  # fmt: skip
_CODES = (
    "EUR USD GBP CHF CAD AUD NZD JPY CNY HKD SGD MYR IDR THB PHP VND INR PKR BDT LKR SEK NOK DKK ISK PLN CZK HUF RON "
    "BGN TRY "
    "UAH RUB GEL ILS AED SAR QAR KWD EGP MAD TND DZD ZAR NGN KES GHS XOF XAF BRL MXN ARS CLP COP PEN UYU KRW TWD"
)
CODES = frozenset(_CODES.split())

#: Signs with letters, as printed beside amounts.
NAMED_SIGNS = r"S[Ff][Rr]\.?|K[čČ]|[zZ][łŁ]"
_MONEY_MARK = (
    r"(?:US\$|CA\$|C\$|A\$|S\$|\$\s?CAN?\b|[€$£¥₹]|"
    rf"(?<![A-Za-z])(?:RM|EUROS?|{NAMED_SIGNS}|{'|'.join(sorted(CODES))})(?![A-Za-z]))"
)
_GROUPED = r"\d{1,3}(?:(?P<group>[.,'’\u00a0\u202f ])\d{3})(?:(?P=group)\d{3})*(?:[.,]\d{1,4})?"
_PLAIN = r"\d+(?:\s?[.,]\s?\d{1,4})?"
_NUMBER = re.compile(
    rf"(?<![\w.,/-])(?<!\d:)(?P<before>{_MONEY_MARK}\s?:?\s?)?(?P<sign>[-–−(]\s?)?(?P<mark>{_MONEY_MARK}\s?)?"
    rf"(?P<number>{_GROUPED}|{_PLAIN})"
    rf"(?P<after>\s?{_MONEY_MARK})?(?P<tail>-(?!\d)|\))?(?P<percent>\s?%)?(?P<stuck>[A-Z]{{1,3}}\b)?(?![\w/:]|[.,]\d|-\d)"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number as printed, with what makes it money."""

    value: Decimal
    start: int
    end: int
    decimals: int
    currency: str | None = None
    percent: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Day:
    """A date as printed."""

    value: datetime.date
    start: int
    end: int
    sure: bool  #: False when day and month could be the other way round
    text: str = ""


def fold(text: str) -> str:
    """Lower case without accents: how labels and month names are compared."""
    text = text.casefold().replace("ä", "ae").replace("ö", "oe").replace("ü", "ue") if text else ""
    return "".join(mark for mark in unicodedata.normalize("NFKD", text) if not unicodedata.combining(mark))


def decimal_mark(texts: Iterable[str]) -> str:
    """The decimal mark of these texts, "," or ".", by majority; "." where nothing decides."""
    votes = {",": 0, ".": 0}
    for text in texts:
        for mark in re.findall(r"\d([.,])\d{2}(?![\d.,])", text):
            votes[mark] += 1
    return "," if votes[","] > votes["."] else "."


def number(text: str, mark: str = ".") -> tuple[Decimal, int]:
    """Parses a text of digits and separators; returns the number and how many decimals it has."""
    digits = re.sub(r"[^\d.,]", "", text).strip(".,")
    comma, dot = digits.rfind(","), digits.rfind(".")
    last = max(comma, dot)
    if comma >= 0 and dot >= 0:
        point = last
    elif last < 0 or digits.count(digits[last]) > 1:
        point = -1
    else:
        after = len(digits) - last - 1
        grouped = after == 3 and digits[last] != mark and last <= 3 and not digits.startswith("0")
        point = -1 if grouped else last
    if point < 0:
        return Decimal(re.sub(r"[.,]", "", digits)), 0
    whole = re.sub(r"[.,]", "", digits[:point]) or "0"
    return Decimal(f"{whole}.{digits[point + 1 :]}"), len(digits) - point - 1


def amounts(text: str, mark: str = ".") -> Iterator[Amount]:
    """Every number of a text, in the notations that money is written in."""
    for match in _NUMBER.finditer(text):
        try:
            value, decimals = number(match["number"], mark)
        except ArithmeticError:
            continue
        tail = match["tail"]
        if (match["sign"] and not (match["sign"].startswith("(") and tail != ")")) or tail == "-":
            value = -value
        sign = currency(match["before"] or match["mark"] or match["after"] or "")
        yield Amount(
            value, match.start(), match.end(), decimals, sign, bool(match["percent"]), match.group().strip()
        )  # fmt: skip


def currency(mark: str) -> str | None:
    """The ISO code of a printed currency sign or code."""
    mark = mark.upper().replace(" ", "").strip(":")
    return SYMBOLS.get(mark) or (mark if mark in CODES else None)


_SEPARATOR = r"\s?[-/.]\s?"
_CLOCK = r"\d{1,2}:\d\d"  # a time that ran into its date: "9/3/201820:54"
_ISO = re.compile(rf"(?<![\d.,-])((?:19|20)\d\d){_SEPARATOR}(\d{{1,2}}){_SEPARATOR}(\d{{1,2}})(?:(?!\d)|(?={_CLOCK}))")
_NUMERIC = re.compile(
    rf"(?<![\d.,-])(\d{{1,2}}){_SEPARATOR}(\d{{1,2}}){_SEPARATOR}((?:19|20)\d\d|\d\d)(?:(?![\d%]|[.,]\d)|(?={_CLOCK}))"
)
_DAY_MONTH = re.compile(
    r"(?<![\d.,])(\d{1,2})\s?(?:er|st|nd|rd|th|[.º°]|o(?![a-z]))?[\s/.-]{0,3}(?:of\s|de\s)?([a-z0]{3,9})\.?,?[\s/.,-]{0,3}((?:19|20)\d\d|'?\d\d)(?!\d)"
)
_MONTH_DAY = re.compile(
    rf"(?<![a-z])([a-z0]{{3,9}})\.?\s?(\d{{1,2}})(?:st|nd|rd|th)?\s?,?\s{{0,2}}((?:19|20)\d\d)(?:(?!\d)|(?={_CLOCK}))"
)
_COMPACT = re.compile(r"(?<!\d)((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?!\d)")


def days(text: str, order: DateOrder = "dmy", *, compact: bool = False) -> list[Day]:
    """Every date of a text; `order` decides where day and month could be swapped."""
    plain = fold_in_place(text)
    found: list[Day] = []
    for match in _ISO.finditer(plain):
        _add(found, match, text, int(match[1]), int(match[2]), int(match[3]))
    for match in _NUMERIC.finditer(plain):
        first, second, year = int(match[1]), int(match[2]), _year(match[3])
        if order == "ymd" and len(match[3]) == 2:
            _add(found, match, text, _year(match[1]), second, int(match[3]), sure=False)
            continue
        ambiguous = first <= 12 and second <= 12 and first != second
        day, month = (second, first) if (order == "mdy" and first <= 12) or second > 12 else (first, second)
        _add(found, match, text, year, month, day, sure=not ambiguous)
    for match in _DAY_MONTH.finditer(plain):
        if named_month := _month(match[2]):
            _add(found, match, text, _year(match[3]), named_month, int(match[1]))
    for match in _MONTH_DAY.finditer(plain):
        if named_month := _month(match[1]):
            _add(found, match, text, int(match[3]), named_month, int(match[2]))
    if compact:
        for match in _COMPACT.finditer(plain):
            _add(found, match, text, int(match[1]), int(match[2]), int(match[3]))
    return sorted(found, key=lambda day: day.start)


@lru_cache(maxsize=4096)  # the same lines are folded for every field
def fold_in_place(text: str) -> str:
    """Lower case without accents, with every character at its position."""
    if text.isascii():
        return text.lower()
    letters = []
    for letter in text:
        plain = unicodedata.normalize("NFKD", letter.casefold())
        letters.append(plain[0] if plain else letter)
    return "".join(letters)


def date_order(texts: Iterable[str], default: DateOrder = "dmy") -> DateOrder:
    """The order of day and month in the unambiguous dates of a document."""
    first = second = 0
    for text in texts:
        for match in _NUMERIC.finditer(text):
            first += int(match[1]) > 12
            second += int(match[2]) > 12
    return "mdy" if second > first else "dmy" if first > second else default


def _month(name: str) -> int | None:
    """The number of a month by its name, which may have "0" for "o"."""
    return MONTHS.get(name.replace("0", "o"))


def _year(text: str) -> int:
    year = int(text.strip("'"))
    return year if year >= 100 else 2000 + year if year < 70 else 1900 + year


def _add(
    found: list[Day], match: re.Match[str], text: str, year: int, month: int, day: int, *, sure: bool = True
) -> None:
    if any(match.start() < other.end and other.start < match.end() for other in found):
        return
    try:
        value = datetime.date(year, month, day)
    except ValueError:
        return
    found.append(Day(value, match.start(), match.end(), sure, text[match.start() : match.end()]))


def money(value: Decimal) -> str:
    """The amount as a field value: at least two decimals, no exponent."""
    return f"{value:.2f}" if value == value.quantize(Decimal("0.01")) else digits(value)


def digits(value: Decimal) -> str:
    """A number without an exponent and without trailing zeros."""
    return format(value.normalize(), "f")
