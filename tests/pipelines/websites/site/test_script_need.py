"""When a page needs a browser: frames of applications do, pages with text do not."""

from __future__ import annotations

import pytest

from tabellion.pipelines.websites.site.html_tree import parse_html
from tabellion.pipelines.websites.site.script_need import find_script_need
from tests.pipelines.websites.site.sites import PROSE

SCRIPT = '<script src="/app.js"></script>'
JSON = '<script type="application/ld+json">{}</script>'


@pytest.mark.parametrize(
    ("body", "need"),
    [
        (f'<div id="root"></div>{SCRIPT}', "empty_root"),
        (f'<div id="__next"><div class="spinner"></div></div>{SCRIPT}', "empty_root"),
        (f"<app-root></app-root>{SCRIPT}", "empty_root"),
        (f"<header>{'Menu ' * 20}</header><div id=app></div>{SCRIPT}", "empty_root"),
        (
            f"<p>{'Loading the page. ' * 10}</p><noscript>Please enable JavaScript.</noscript>{SCRIPT}",
            "asks_for_scripts",
        ),
        (f"<p>Loading…</p>{SCRIPT}", "nothing_visible"),
        ("<script>location.href = '/home'</script>", "nothing_visible"),
        ('<script type="module">import "/x.js"</script>', "nothing_visible"),
        ("", ""),
        ("<img src=x>", ""),
        (JSON, ""),
        (f"<main>{PROSE}{PROSE}</main>{SCRIPT}", ""),
        (f'<div id="root"><main>{PROSE}{PROSE}</main></div>{SCRIPT}', ""),
        (f"<main>{PROSE}{PROSE}</main><noscript>Enable JavaScript for comments.</noscript>{SCRIPT}", ""),
        (f"<p>{PROSE}</p>{SCRIPT}", ""),
    ],
)
def test_a_page_needs_a_browser_if_scripts_write_it(body: str, need: str) -> None:
    """Little text, and scripts that could add more."""
    assert find_script_need(parse_html(f"<html><body>{body}</body></html>")) == need
