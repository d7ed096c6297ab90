"""File names of users, made safe to show."""

from __future__ import annotations

import unicodedata

LONGEST = 255  #: characters
UNNAMED = "document"


def escape_name(name: str) -> str:
    """The last part of a path with control and direction characters escaped, at most 255 characters.

    It is only shown: no file is stored under this name.
    """
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    escaped = "".join(character if _plain(character) else f"\\u{ord(character):04x}" for character in base).strip()
    if not escaped.strip("."):
        return UNNAMED
    if len(escaped) <= LONGEST:
        return escaped
    stem, dot, ending = escaped.rpartition(".")
    if dot and 0 < len(ending) <= 10:
        return f"{stem[: LONGEST - len(ending) - 2]}….{ending}"
    return escaped[: LONGEST - 1] + "…"


def _plain(character: str) -> bool:
    # Cf contains direction marks, Cs surrogates, Co private characters.
    return character == " " or (character.isprintable() and unicodedata.category(character)[0] != "C")
