"""Scripts and styles: cached for good under their version, and free of unsafe constructs."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from tabellion.web.pages import static
from tests.web.live import Live, problem

FOLDERS = [Path(str(files(one))) for one in static.packages()]
SCRIPTS = sorted(path for folder in FOLDERS for path in (folder / "static").glob("*.js"))


def test_a_file_is_cached_for_good_under_its_version(web: Live) -> None:
    """Under another version, or none, it is revalidated; an ETag avoids sending it twice."""
    address = static.address("app.css")
    first = web.get(address, key=None)
    assert first.headers["content-type"] == "text/css; charset=utf-8"
    assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
    for other in ("/static/app.css", "/static/app.css?v=0"):
        assert web.get(other, key=None).headers["cache-control"] == "no-cache"
    assert web.get("/static/app.css", key=None, headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    assert "set-cookie" not in first.headers


def test_scripts_import_each_other_by_version(web: Live) -> None:
    """Otherwise a module would be loaded twice, once by the page and once by its importer."""
    text = web.get(static.address("people.js"), key=None).text
    assert f'from ".{static.address("base.js").removeprefix("/static")}"' in text


@pytest.mark.parametrize("name", ["nope.js", "docs.html", "__init__.py", "..%2fapp.py", "app.css%00", ".hidden"])
def test_other_files_are_not_served(web: Live, name: str) -> None:
    """Only scripts, styles and drawings of that folder are."""
    problem(web.get(f"/static/{name}", key=None), 404, "not_found")
    with pytest.raises(KeyError):
        static.address(name)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_turns_text_into_markup(path: Path) -> None:
    """Nothing is parsed as HTML or run as code, and nothing is loaded from elsewhere."""
    text = path.read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser|https?://(?!www\.w3\.org/)"
    assert not re.findall(forbidden, text)


def test_no_template_disables_escaping() -> None:
    """Every value is escaped, and nothing is inline."""
    for path in (path for folder in FOLDERS for path in (folder / "templates").glob("*.html")):
        text = path.read_text()
        assert not re.findall(r"\|\s*safe|autoescape|<style|\sstyle=|\son\w+=", text), path.name


def test_styles_load_nothing() -> None:
    """They load no fonts or images from elsewhere."""
    for path in (path for folder in FOLDERS for path in (folder / "static").glob("*.css")):
        assert not re.findall(r"@import|url\(|https?:", path.read_text()), path.name


def tokens() -> dict[str, tuple[str, str]]:
    """Return the colours of the skeleton, for light and for dark."""
    text = (FOLDERS[0] / "static" / "app.css").read_text()
    found = dict(re.findall(r"--([a-z-]+): (light-dark\([^)]*\)|var\(--[a-z-]+\));", text))
    pairs: dict[str, tuple[str, str]] = {}
    for name, value in found.items():
        value = found[value[6:-1]] if value.startswith("var(") else value
        match re.findall(r"#[0-9a-f]{6}", value):
            case [light, dark]:
                pairs[name] = (light, dark)
    return pairs


def luminance(colour: str) -> float:
    """Return the luminance of a colour as defined by WCAG."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


TEXTS = [
    ("text", "ground"), ("text", "surface"), ("text", "raised"), ("text", "accent-soft"), ("muted", "ground"),
    ("muted", "surface"), ("muted", "raised"), ("muted", "sunk"), ("accent", "ground"), ("accent", "surface"),
    ("muted", "idle-soft"), ("muted", "accent-soft"), ("on-accent", "accent"), ("on-accent", "bad-fill"),
    ("accent-strong", "accent-soft"), ("bad", "surface"), ("warn", "surface"), ("good", "surface"),
    *((name, f"{name}-soft") for name in ("good", "warn", "bad", "human", "info", "idle")),
]  # fmt: skip


@pytest.mark.parametrize(("front", "back"), TEXTS)
def test_text_has_enough_contrast(front: str, back: str) -> None:
    """WCAG AA in light and in dark."""
    for theme in (0, 1):
        bright, dim = sorted((luminance(tokens()[name][theme]) for name in (front, back)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (front, back, ("light", "dark")[theme])


@pytest.mark.parametrize("back", ["surface", "ground", "raised"])
def test_input_borders_have_enough_contrast(back: str) -> None:
    """3 to 1, so that one sees where to type."""
    for front in ("line-strong", "focus"):
        for theme in (0, 1):
            bright, dim = sorted((luminance(tokens()[name][theme]) for name in (front, back)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 3, (front, back, theme)
