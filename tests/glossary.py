"""The nouns of the glossary."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "glossary.md"


def glossary() -> list[str]:
    """Return every noun that the glossary explains, in order."""
    return [
        noun for noun in re.findall(r"^\| ([^|]+?) \|", PAGE.read_text(), re.MULTILINE) if noun not in ("noun", "---")
    ]
