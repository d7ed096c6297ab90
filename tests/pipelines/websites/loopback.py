"""A small website on loopback, for visits as they really are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

from tests.http_server import QuietHandler, serving_http

PAGE = """<!doctype html><html lang="en"><head><title>{title}</title>{meta}<style>
body {{ margin: 0; font: 18px/1.6 Georgia, serif; color: #2b2118; background: #fbf6ee; }}
nav {{ padding: 18px 48px; background: #6b8f71; }} nav a {{ color: #fff; margin-right: 20px; }}
main {{ max-width: 860px; padding: 28px 48px; }} h1 {{ font-size: 44px; }}
</style></head><body>{body}</body></html>"""
META = '<meta name="description" content="Wooden toys made by hand for families and schools, in a small workshop.">'
HOME = """<nav><a href="/about.html">About us</a> <a href="/privacy.html">Privacy policy</a></nav><main>
<h1>Wooden toys</h1><p>Beech is a small workshop. We build toys for families and schools that want things that last, and
every toy is sanded, oiled and checked by the person who made it.</p><h2>Our products</h2><h3>Trains</h3>
<p>Of beech.</p><h3>Puzzles</h3><p>Cut by hand.</p><p>Write to hello@beech.example or call +33 4 72 00 00 00.</p>
</main>"""
ABOUT = """<main><h1>About us</h1><p>Founded in 1987, our team of twelve carves, sands and paints. Our workshop is
certified to ISO 9001.</p></main>"""
PRIVACY = "<main><h1>Privacy</h1><p>We keep the addresses of those who order, and give them to nobody.</p></main>"
BEECH = {
    "index.html": PAGE.format(title="Beech | Wooden toys made by hand", meta=META, body=HOME),
    "about.html": PAGE.format(title="About us | Beech", meta="", body=ABOUT),
    "privacy.html": PAGE.format(title="Privacy | Beech", meta="", body=PRIVACY),
}


class Folder(QuietHandler, SimpleHTTPRequestHandler):
    """Serves a folder."""


@contextlib.contextmanager
def served(folder: Path, pages: Mapping[str, str] = BEECH) -> Iterator[str]:
    """The URL of a website on loopback with these pages."""
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        (folder / name).write_text(text)
    with serving_http(partial(Folder, directory=str(folder))) as url:
        yield f"{url}/"
