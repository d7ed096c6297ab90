"""The functions of rules and the keys of types are all documented."""

from __future__ import annotations

from pathlib import Path

from tabellion.reading.types.functions import FUNCTIONS
from tabellion.reading.types.kinds import KINDS
from tabellion.reading.types.rules import CODES
from tabellion.reading.types.sections import FIELD_KEYS, PLACEHOLDERS
from tabellion.reading.types.typefile import SECTIONS, compile_type, load

PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "reference" / "types.md").read_text()


def test_the_docs_page_is_complete() -> None:
    """Kinds, keys, sections, functions, codes and placeholders."""
    for name in FUNCTIONS:
        assert f"`{name}" in PAGE or f" {name}(" in PAGE, name
    for word in (*KINDS, *FIELD_KEYS, *CODES):
        assert f"`{word}`" in PAGE, word
    for placeholder in PLACEHOLDERS:
        assert f"`{{{placeholder}}}`" in PAGE
    for section in SECTIONS:
        assert f"`{section}`" in PAGE or f"\n{section}:" in PAGE, section


def test_the_example_of_the_docs_page_is_valid() -> None:
    """What people copy works."""
    compiled = compile_type(PAGE.partition("```yaml\n")[2].partition("```")[0])
    assert [one.name for one in compiled] == ["tenant", "rent", "begins", "ends", "rooms"]
    assert len(compiled.rules) == 2


def test_shipped_rules_have_messages_about_their_own_fields() -> None:
    """Each says in a sentence what is wrong."""
    for name in ("invoice", "receipt", "deed"):
        loaded = load(name, ())
        known = {one.name for one in loaded}
        for rule in loaded.rules:
            assert set(rule.fields) <= known
            assert rule.message
