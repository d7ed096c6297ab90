"""Sentences: what the reader, the rules and the server say in English is there in French, hole by hole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tabellion
from tabellion.pipelines.documents import failure
from tabellion.pipelines.documents import followups as fate
from tabellion.pipelines.documents import review_reasons as doubts
from tabellion.pipelines.documents.review import fields
from tabellion.pipelines.documents.review.finishing import REJECTIONS
from tabellion.pipelines.documents.settings import Types
from tabellion.reading import errors, sniff
from tabellion.reading.einvoice.french import MENTIONS
from tabellion.reading.fields.vendor import TOLD
from tabellion.reading.grounding.ground import SCORES
from tabellion.reading.types.doctype import KINDS
from tabellion.web import problems
from tabellion.web.pages import words
from tabellion.web.pages.words_sentences import SENTENCES

SOURCES = Path(tabellion.__file__).parent
HOLE = re.compile(r"\{(\w+)\}")
#: Tables of whole sentences that pages show.
TABLES = {
    "doubts": doubts.REASONS.values(), "failures": failure.CODES.values(), "waiting": failure.WAITING.values(),
    "kept": [fate.KEPT], "people": [*fields.CORRECTED, *fields.ABSENT], "unreadable": errors.CODES.values(),
    "problems": problems.CODES.values(), "rejections": REJECTIONS.values(), "kinds of field": KINDS.values(),
    "vendor": TOLD.values(), "grounding": SCORES, "mentions": MENTIONS.values(),
    "files": [name for _, name in (*sniff.OTHERS, *sniff.ZIPPED, *sniff.BRANDS.items())],
}  # fmt: skip
#: Where sentences are made, and by what.
MAKERS = {
    "reading/*.py": {"Issue", "Unreadable"},
    "reading/einvoice/*.py": {"error", "warning", "Issue", "_lie", "_refusal", "Refused"},
    "reading/fields/*.py": {"append", "Party"},
    "reading/types/rules.py": {"add"},
    "pipelines/documents/*.py": {"_doubt", "Unreadable"},
    "pipelines/documents/review/*.py": {"NotAllowed", "__init__", "Refused"},
}
#: Names that hold a sentence until it is told.
HELD = ("message", "found", "reasons", "what", "where", "proofs")

#: Not told alone: the name of a rule that only the API tells, and parts of sentences whose whole has a template.
PARTS = {r"the\ same\ invoice\ twice", r"page\ .+:\ ", r"byte\ .+\ is\ not\ valid\ in\ it"}


def test_holes_are_the_same() -> None:
    """Every fact of the English is in the French, and no other."""
    for english, french in SENTENCES.items():
        assert french.strip()
        assert sorted(HOLE.findall(english)) == sorted(HOLE.findall(french)), english
        assert len(set(HOLE.findall(english))) == len(HOLE.findall(english)), f"one hole twice: {english}"


def test_nothing_is_said_in_two_ways() -> None:
    """The tables that are put together do not overwrite each other."""
    said: list[str] = []
    for path in sorted(Path(words.__file__).parent.glob("words_sentences*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                said += [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]
    assert len(said) == len(set(said)) == len(SENTENCES)


def test_rules_that_come_with_us_are_translated() -> None:
    """Every message of every shipped type, as it is told: without its full stop."""
    messages = [rule.message.rstrip(".") for one in Types([]).all() for rule in one.rules]
    assert len(messages) > 20
    assert not [message for message in messages if message not in SENTENCES]


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_translated(table: str) -> None:
    """Every sentence that a code stands for has its French."""
    assert not [text for text in TABLES[table] if text not in SENTENCES]


def test_french_is_tied() -> None:
    """No line ends before a mark that belongs to it; English is sent no templates at all."""
    french = words.SPOKEN["fr"]
    assert french["{field} is missing; it is required"] == "{field} manque\N{NO-BREAK SPACE}; ce champ est obligatoire"
    assert not [
        text for text in (*french.values(), *words.catalogue()["fr"].values()) if re.search(" [:;?!%»]|« ", text)
    ]
    assert words.SPOKEN["en"] == {}


def _pattern(node: ast.expr) -> str | None:
    """A sentence in the source as a pattern; None where it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(part) or ".+" for part in node.values).replace(r".+\[.+\]", ".+")
    return None


def _sentences(path: Path, makers: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        found: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found = [*node.args, *(one.value for one in node.keywords)] if name in makers else []
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in HELD:
            found = [node.value]
        for one in found:
            for part in (one.body, one.orelse) if isinstance(one, ast.IfExp) else [one]:
                pattern = _pattern(part)
                if pattern and re.search(r"[a-z]\\ [a-z.]|\.\+\\ [a-z]", pattern):
                    yield pattern


@pytest.mark.parametrize("where", MAKERS)
def test_what_is_said_there_is_translated(where: str) -> None:
    """Whatever is told by those who tell of doubts, issues and refusals has a template that it fits."""
    said = {pattern for path in SOURCES.glob(where) for pattern in _sentences(path, MAKERS[where])} - PARTS
    assert said
    assert not [pattern for pattern in said if not any(re.fullmatch(pattern, english) for english in SENTENCES)]
