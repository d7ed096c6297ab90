"""Finds postal addresses in plain text by their street and postal code: French, German, British, Canadian, American."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_LINE = 2000  #: characters of a line that are searched
_BETWEEN = r"[ ]?(?:[,;–—·|-]|[ ])[ ]?"
_NAME = r"[A-ZÀ-Þ][\w’'-]{1,30}"
_PATTERNS = (
    # 12 bis, rue de la République, 69002 Lyon
    re.compile(
        r"\b\d{1,4}(?: ?(?:bis|ter|quater))?,? (?i:rue|avenue|av\.|boulevard|bd|place|quai|allée|chemin|impasse|cours"
        r"|route|square|passage|faubourg|esplanade)\b[^\n\d]{2,60}?"
        rf"{_BETWEEN}\d{{5}} {_NAME}(?:[ -]{_NAME}){{0,3}}"
    ),
    # Lindenstraße 4, 10969 Berlin
    re.compile(rf"\b{_NAME}(?:straße|strasse|str\.|weg|platz|allee|gasse) \d{{1,4}}[a-z]?{_BETWEEN}\d{{5}} {_NAME}"),
    # 5 Mill Lane, Leeds LS1 4AP; 100 King Street West, Toronto, ON M5X 1A9; 1 Main Street, Springfield, IL 62701
    re.compile(
        rf"\b\d{{1,5}} {_NAME}(?: {_NAME}){{0,3}},[^\n\d]{{2,60}}? "
        r"(?:[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[A-Z] \d[A-Z]\d|[A-Z]{2} \d{5}(?:-\d{4})?)\b"
    ),
)


def find_postal_addresses(text: str) -> Iterator[str]:
    """The addresses that are written in one line, in their order for each country."""
    for line in text.split("\n"):
        flat = " ".join(line[:LONGEST_LINE].split())
        for pattern in _PATTERNS:
            for match in pattern.finditer(flat):
                yield match[0]
