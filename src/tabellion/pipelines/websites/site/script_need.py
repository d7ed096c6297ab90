"""Decides whether a page must be read in a browser because its scripts write its content.

A page needs a browser if it shows little text without scripts, and has scripts that could add more:
- fewer than 80 visible characters, and any script (`script.nothing_visible`);
- fewer than 400, and an empty element that frameworks fill, such as `<div id="root">` (`script.empty_root`);
- fewer than 400, and a `<noscript>` that asks to enable JavaScript (`script.asks_for_scripts`).

Pages that show more are read as the server sends them: rendering costs seconds, and rarely adds to the main text.
"""

from __future__ import annotations

import re
from typing import Literal

from lxml.html import HtmlElement

from tabellion.pipelines.websites.site.html_tree import HIDDEN, visible_text

Need = Literal["", "nothing_visible", "empty_root", "asks_for_scripts"]
NOTHING = 80  #: visible characters
LITTLE = 400
ROOTS = ("root", "app", "__next", "__nuxt", "___gatsby", "svelte", "q-app", "main-app", "ember-root", "application")
_ASKS = re.compile(r"java\s?-?script", re.IGNORECASE)


def find_script_need(tree: HtmlElement) -> Need:
    """Why the page needs a browser; empty if it does not."""
    scripts = [
        script
        for script in tree.iter("script")
        if (script.get("type") or "text/javascript").lower() in ("text/javascript", "application/javascript", "module")
    ]
    if not scripts:
        return ""
    shown = len(visible_text(tree, limit=LITTLE * 2))
    if shown < LITTLE and _has_empty_root(tree):
        return "empty_root"
    if shown < LITTLE and any(_ASKS.search("".join(one.itertext())) for one in list(tree.iter("noscript"))[:20]):
        return "asks_for_scripts"
    return "nothing_visible" if shown < NOTHING else ""


def _has_empty_root(tree: HtmlElement) -> bool:
    for element in tree.iter("div", "main", "section", "app-root", "body"):
        is_root = element.get("id") in ROOTS or element.get("ng-app") is not None or element.tag == "app-root"
        if is_root and len(visible_text(element, HIDDEN, LITTLE)) < NOTHING:
            return True
    return False
