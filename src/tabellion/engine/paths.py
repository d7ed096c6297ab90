"""Paths in messages that others see: where files are on this machine is not for them."""

from __future__ import annotations

import re

_ABSOLUTE = re.compile(r"(?<![\w:/.…])/(?:[\w.@+~-]++/)++([\w.@+~-]*+)")


def hide_folders(text: str) -> str:
    """The text with each absolute path cut to its last part."""
    return _ABSOLUTE.sub(r"…/\1", text)
