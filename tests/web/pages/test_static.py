"""Scripts and styles: kept for good under their version, and free of what lets strangers in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabellion.web.pages import static
from tests.web.live import Live, problem

FOLDER = Path(static.__file__).parent.parent / "static"
SCRIPTS = sorted(path for path in FOLDER.glob("*.js"))


def test_a_file_is_kept_for_good_under_its_version(web: Live) -> None:
    """Under another version, or none, it is asked for again; a tag saves sending it twice."""
    address = static.address("app.css")
    first = web.get(address, key=None)
    assert first.headers["content-type"] == "text/css; charset=utf-8"
    assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
    for other in ("/static/app.css", "/static/app.css?v=0"):
        assert web.get(other, key=None).headers["cache-control"] == "no-cache"
    assert web.get("/static/app.css", key=None, headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    assert "set-cookie" not in first.headers


def test_scripts_import_each_other_by_version(web: Live) -> None:
    """Or a module would be there twice, once for the page and once for who imports it."""
    text = web.get(static.address("people.js"), key=None).text
    assert f'from ".{static.address("base.js").removeprefix("/static")}"' in text


@pytest.mark.parametrize("name", ["nope.js", "docs.html", "__init__.py", "..%2fapp.py", "app.css%00", ".hidden"])
def test_other_files_are_not_there(web: Live, name: str) -> None:
    """Only scripts, styles and drawings of the one folder."""
    problem(web.get(f"/static/{name}", key=None), 404, "not_found")
    with pytest.raises(KeyError):
        static.address(name)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_markup_of_texts(path: Path) -> None:
    """Nothing is parsed as HTML or run as code, and nothing comes from elsewhere."""
    text = path.read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser|https?://(?!www\.w3\.org/)"
    assert not re.findall(forbidden, text)


def test_no_template_lets_markup_through() -> None:
    """Every value is escaped, and nothing is inline."""
    for path in (FOLDER.parent / "templates").glob("*.html"):
        text = path.read_text()
        assert not re.findall(r"\|\s*safe|autoescape|<style|\sstyle=|\son\w+=", text), path.name


def test_styles_fetch_nothing() -> None:
    """Neither fonts nor pictures from elsewhere."""
    for path in FOLDER.glob("*.css"):
        assert not re.findall(r"@import|url\(|https?:", path.read_text()), path.name
