"""Joins words that are divided at line ends, unless the hyphen belongs to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from tabellion.reading.einvoice.codes import parse_codes

T = TypeVar("T")

BROKEN = re.compile(r"([^\W\d_]+)([-‐\u00ad])$")
#: First halves after which a hyphen stays: French, English.
BEFORE = parse_codes(
    "sous non demi quasi après avant arrière outre celui celle ceux peut rendez vice self well cross half"
)
#: Second halves before which the hyphen stays.
AFTER = parse_codes("vous nous il elle ils elles je tu ci là moi toi lui leur même mêmes total totaux based free")
#: Words that look like compounds but are not.
WHOLE = re.compile(r"sous(cri|tra[^i]|trai[rs])|non(ant|ce)|avantag|demis")
#: A first half that shares its second with a later word: "Vor- und Nachname", "short- and long-term".
SHARED = parse_codes("und oder bzw sowie bis and or to et ou")


def words_in(text: str) -> list[str]:
    """The words of a text."""
    return re.findall(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*", text)


def join_lines(lines: Sequence[str], original: str, changes: list[T], change: Callable[[str, str, str], T]) -> str:
    """Joins the lines of a paragraph and the words divided between them."""
    known = {word.lower() for line in original.splitlines() for word in words_in(line)}
    text = ""
    for line in lines:
        match = BROKEN.search(text)
        following = re.match(r"[^\W\d_]+(?:['’][^\W\d_]+)*", line)
        if not text:
            text = line
        elif not match or not following:
            text = f"{text} {line}" if line else text
        else:
            glue = _find_separator(match[1], match[2], following[0], known)
            before = f"{match[1]}{match[2]} {following[0]}"
            text = f"{text[: match.start(2)]}{glue}{line}"
            if glue != "- ":
                changes.append(change("hyphen", before, f"{match[1]}{glue}{following[0]}"))
    return text.replace("\u00ad", "")


def _find_separator(first: str, sign: str, second: str, known: set[str]) -> str:
    """What to put between the halves: nothing, the hyphen, or the hyphen and a space."""
    start, end = first.lower(), second.lower()
    if sign == "\u00ad":
        return ""
    if end in SHARED:
        return "- "
    if f"{start}-{end}" in known:
        return "-"
    if start + end in known or WHOLE.match(start + end):
        return ""
    if second[0].isupper() or start in BEFORE or end in AFTER:
        return "-"  # a name or a compound; a divided word continues in lower case
    return ""
