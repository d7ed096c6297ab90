"""The printed notations of a value: folded text, numbers of three countries, dates in three languages."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from decimal import Decimal

from tabellion.reading.einvoice.codes import CURRENCIES

#: Typographic variants with the same meaning.
SIGNS = str.maketrans({
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-", "’": "'", "‘": "'", "‚": "'", "ʼ": "'",
    "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "ø": "o", "ł": "l", "œ": "oe", "æ": "ae",
    "…": "...", "\u00ad": "", "\u200b": "", "\u200c": "", "\u200d": "", "\ufeff": "", "ß": "ss",
})  # fmt: skip
#: Letters that OCR reads for digits.
CONFUSED = str.maketrans({
    "O": "0", "o": "0", "Q": "0", "D": "0", "l": "1", "I": "1", "i": "1", "|": "1", "!": "1", "Z": "2", "z": "2",
    "S": "5", "s": "5", "B": "8", "g": "9", "q": "9", "ε": "3", "З": "3", "О": "0", "о": "0", "б": "6",
})  # fmt: skip
#: A printed number: groups of three with one kind of mark, then optional decimals. Groups do not begin with a zero:
#: 0,125 is an eighth.
PRINTED = re.compile(
    r"(?P<whole>[1-9]\d{0,2}(?P<mark>[.,'’])\d{3}(?:(?P=mark)\d{3})*|\d+)(?:(?P<point>[.,])(?P<decimals>\d+))?"
)
LONGEST = 100  #: characters of a value that can be a number: the time of AMOUNT is cubic in the length of the text
PLAIN = re.compile(r"[+-]?\d+(\.\d+)?")
#: An amount with its surroundings: sign, currency as a sign or up to three letters, per cent.
AMOUNT = re.compile(
    r"(?P<before>[-+(]?\s*(?:[A-Za-z]{1,3}|[A-Za-z]{0,2}[^\w\s.,'()%-])?\s*-?)\s*"
    r"(?:(?P<grouped>[1-9]\d{0,2}(?P<mark>[ .,'])\d{3}(?:(?P=mark)\d{3})*)(?:(?!(?P=mark))[.,](?P<cents>\d+))?"
    r"|(?P<whole>\d+)(?:[.,](?P<decimals>\d+))?)"
    r"(?P<after>(?:,?-)?\s*(?:[A-Za-z]{1,3}|[^\w\s.,'()-])?\s*\)?)"
)
#: Letters beside a number that make it an amount.
MONEY = CURRENCIES | {"CA", "US", "RM", "RS", "KR"}
ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")

MONTHS = {
    "en": "january february march april may june july august september october november december".split(),  # noqa: SIM905
    "fr": "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre".split(),  # noqa: SIM905
    "de": "januar februar marz april mai juni juli august september oktober november dezember".split(),  # noqa: SIM905
}
#: Abbreviations other than the first three letters.
SHORT: dict[str, dict[int, tuple[str, ...]]] = {
    "fr": {1: ("janv",), 2: ("fevr", "fev"), 4: ("avr",), 7: ("juil", "juill"), 9: ("sept",), 8: ("aout",)},
    "en": {9: ("sept",), 6: ("june",), 7: ("july",)},
    "de": {1: ("jan", "jann", "janner"), 2: ("feb", "febr"), 3: ("marz", "mrz", "maerz"), 9: ("sept",)},
}


def _months_by_name() -> dict[str, set[int]]:
    """The months that a name may mean: "jui" is juin or juillet."""
    found: dict[str, set[int]] = {}
    for language, full in MONTHS.items():
        for month, long in enumerate(full, 1):
            for name in (long, long[:3], *SHORT[language].get(month, ())):
                found.setdefault(name, set()).add(month)
    return found


MONTH = _months_by_name()
_DAY, _MONTH = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})"
_NAME = f"(?P<name>{'|'.join(sorted(MONTH, key=len, reverse=True))})"
#: Each is a look-ahead, so that dates that touch another number on the left are found too.
DATES = tuple(
    re.compile(f"(?=({pattern}))")
    for year in (r"(?P<year>\d{4})", r"(?P<year>\d{2})")
    for pattern in (
        rf"{_DAY}(?P<either>[./-]){_MONTH}(?P=either){year}",
        rf"{_DAY}(?:st|nd|rd|th|er)?(?:of)?[./-]?{_NAME}[.,/-]{{0,2}}{year}",
        rf"{_NAME}[.-]?{_DAY}(?:st|nd|rd|th)?[,-]?{year}",
        *(
            [rf"{year}(?P<mark>[./-]){_MONTH}(?P=mark){_DAY}", rf"{year}(?P<month>\d\d)(?P<day>\d\d)"]
            if "4" in year
            else []
        ),
    )
)


def fold(text: str) -> str:
    """The text without case, accents, ligatures and typographic variants; its length may change."""
    if text.isascii():
        return text.lower().replace("`", "'")
    plain = unicodedata.normalize("NFKD", text.casefold().translate(SIGNS))
    return "".join(sign for sign in plain if not unicodedata.combining(sign)).translate(SIGNS)


def decimal_of(text: str) -> Decimal | None:
    """The number that a text represents, or None; a sign, a currency and grouping are allowed."""
    if len(text) > LONGEST:
        return None
    text = unicodedata.normalize("NFKC", text).translate(SIGNS).strip()
    if PLAIN.fullmatch(text):
        return Decimal(text)
    match = AMOUNT.fullmatch(text)
    if not match or any(word.upper() not in MONEY for word in re.findall(r"[A-Za-z]+", text)):
        return None
    whole = re.sub(r"\D", "", match["grouped"] or match["whole"])
    value = Decimal(f"{whole}.{match['cents'] or match['decimals'] or 0}")
    return -value if "-" in match["before"] or match["after"].startswith("-") or text[0] == "(" else value


def says(printed: str, value: Decimal) -> bool:
    """Whether a printed number can mean the value; `1.234` is both 1.234 and 1234."""
    match = PRINTED.fullmatch(printed)
    if not match:
        return False
    whole = re.sub(r"\D", "", match["whole"])
    differ = match["point"] is None or match["point"] != match["mark"]
    if differ and Decimal(f"{whole}.{match['decimals'] or 0}") == abs(value):
        return True
    # A single mark before three digits may be a decimal point.
    single = not match["decimals"] and match["mark"] in (".", ",") and match["whole"].count(match["mark"]) == 1
    return single and Decimal(match["whole"].replace(match["mark"], ".")) == abs(value)


def digits_of(value: Decimal) -> Iterator[str]:
    """The digits of a number as printed, with fewer or more decimals."""
    plain = abs(value).normalize()
    least = max(0, -int(plain.as_tuple().exponent))
    for decimals in sorted({least, 2, 3, 4}):
        if decimals >= least:
            yield f"{abs(value):.{decimals}f}".replace(".", "")


def date_of(text: str) -> date | None:
    """The date in ISO notation, or None."""
    match = ISO.fullmatch(text.strip()[:10])
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def days_in(text: str) -> Iterator[tuple[int, int, date]]:
    """Every date that folded text without spaces may contain, with its position: 3/4 is in March or in April."""
    for pattern in DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            months = MONTH[parts["name"]] if "name" in parts else {int(parts["month"])}
            year = int(parts["year"]) + (0 if len(parts["year"]) == 4 else 2000 if int(parts["year"]) < 70 else 1900)
            for month in months:
                day = int(parts["day"])
                for pair in {(month, day), (day, month)} if "either" in parts else {(month, day)}:
                    with contextlib.suppress(ValueError):
                        yield match.start(1), match.end(1), date(year, *pair)
