"""Words: the same keys in every language, none that is missing, none that nobody says."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from tabellion.web.pages import static, words

FOLDERS = [Path(str(files(one))) for one in static.packages()]
PAGES = [
    path for one in FOLDERS for path in (*one.glob("pages/[!w]*.py"), *one.glob("pages.py"), *one.glob("routes/*.py"))
]
SAID = re.compile(r"""\b(?:t|tell)\(\s*["'`]([a-z_]+\.[a-z_0-9.]+)["'`]\s*[,)]""")
#: Beginnings of keys whose ends are values: `t("base.role_" ~ role)`, t(`base.role_${role}`).
MADE = re.compile(r"""\b(?:t|tell)\(\s*["'`]([a-z_]+\.[a-z_0-9.]*)(?:["']\s*[~+]|\$\{)""")
BEGUN = re.compile(r"""["'`]([a-z_]+\.[a-z_0-9]+_)["'`]""")
PLACE = re.compile(r"\{(\w+)\}")


def sources() -> list[Path]:
    found = [path for one in FOLDERS for path in (*one.glob("templates/*.html"), *one.glob("static/*.js"))]
    return sorted(found)


def test_every_language_has_the_same_keys() -> None:
    """And the same facts to fill in."""
    english = words.catalogue()["en"]
    for language in words.LANGUAGES:
        assert words.catalogue()[language].keys() == english.keys()
        for key, text in words.catalogue()[language].items():
            assert text.strip()
            assert set(PLACE.findall(text)) == set(PLACE.findall(english[key])), (language, key)


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_pages_say_only_what_there_are_words_for(path: Path) -> None:
    """Every key in a template or script is known, and where a key is put together some begin so."""
    text = path.read_text()
    for key in SAID.findall(text):
        assert key in words.catalogue()["en"], key
    for start in MADE.findall(text):
        assert [key for key in words.catalogue()["en"] if key.startswith(start)], start


def test_no_word_is_left_over() -> None:
    """What nobody says any more is gone from the lists."""
    everything = "\n".join(path.read_text() for path in [*sources(), *PAGES])
    starts = (*MADE.findall(everything), *BEGUN.findall(everything))
    unsaid = [
        key
        for key in words.catalogue()["en"]
        if not re.search(rf"""["'`]{re.escape(key.removesuffix(".one"))}["'`]""", everything)
        and not key.startswith((*starts, "base.error_", "base.problem_", "fields."))
    ]
    assert not unsaid


def test_words_take_facts_and_numbers() -> None:
    """One is not many, and in French none is like one; what looks like a fact in a fact stays as it is."""
    assert words.say("en", "base.days", n=1) == "1 day"
    assert words.say("en", "base.days", n=0) == "0 days"
    assert words.say("fr", "base.days", n=0) == "0 jour"
    assert words.say("fr", "base.days", n=2) == "2 jours"
    assert words.say("en", "people.added", name="{name} {role}") == "{name} {role} is added."


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"), ("fr", "fr"), ("fr-CA,fr;q=0.9,en;q=0.8", "fr"), ("de,en;q=0.5,fr;q=0.9", "fr"), ("de", "en"),
        ("en;q=0,fr;q=0.1", "fr"), ("*", "en"), ("fr;q=x,en", "en"), (",,;q=", "en"), ("FR", "fr"),
    ],
)  # fmt: skip
def test_a_browser_is_answered_in_its_language(header: str, language: str) -> None:
    """In the one that it wants most of those there are."""
    assert words.accepted(header) == language


def test_a_script_gets_the_words_of_its_page_only() -> None:
    """And those of the skeleton."""
    found = words.chosen("fr", ("base", "people"))
    assert {key.partition(".")[0] for key in found} == {"base", "people"}


def test_fields_that_come_with_us_have_words() -> None:
    """Where their type's file gives no title of its own; and no word is for a field that is none."""
    from tabellion.pipelines.documents.settings import Types

    wanted = set()
    for one in Types([]).all():
        wanted.add(f"fields.type.{one.name}")
        for field in [part for spec in one for part in (spec, *spec.items)]:
            if field.title == field.name.replace("_", " ").capitalize():
                wanted.add(f"fields.{field.name}")
    assert {key for key in words.catalogue()["en"] if key.startswith("fields.")} == wanted
