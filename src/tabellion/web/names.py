"""Names of files as strangers give them: kept for people to see, safe wherever they are shown."""

from __future__ import annotations

import unicodedata

LONGEST = 255  #: characters
UNNAMED = "document"


def escape_name(name: str) -> str:
    """The last part of a path, control and direction characters written out, at most 255 characters.

    Nothing is ever stored under it.
    """
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    shown = "".join(letter if _plain(letter) else f"\\u{ord(letter):04x}" for letter in base).strip()
    if not shown.strip("."):
        return UNNAMED
    if len(shown) <= LONGEST:
        return shown
    stem, dot, ending = shown.rpartition(".")
    if dot and 0 < len(ending) <= 10:
        return f"{stem[: LONGEST - len(ending) - 2]}….{ending}"
    return shown[: LONGEST - 1] + "…"


def _plain(letter: str) -> bool:
    # Cf has the marks that turn the direction of a text, Cs halves of characters, Co what only some fonts know.
    return letter == " " or (letter.isprintable() and unicodedata.category(letter)[0] != "C")
