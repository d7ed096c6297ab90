"""Cleaning: texts that every database stores."""

from __future__ import annotations

from tabellion.pipelines.websites.site.cleaning import DEEPEST, clean_json, clean_line, clean_text


def test_a_text_loses_what_cannot_be_stored() -> None:
    """NUL, control characters and halves of surrogate pairs; line breaks stay."""
    assert clean_text(" a\0b\x1b[31m\ud800c\nd\te ", 100) == "ab[31mc\nd\te"
    assert clean_text("abcdef", 3) == "abc"
    assert clean_text(None, 5) == clean_text(5, 5) == ""


def test_a_line_has_single_spaces() -> None:
    """Also for the spaces of typography."""
    assert clean_line(" a\n\u00a0 b\tc ", 100) == "a b c"
    assert clean_line("a" * 10, 4) == "aaaa"


def test_json_is_limited_in_depth_and_numbers() -> None:
    """Infinity is not JSON, and 2**70 is no number of a database."""
    nested: list[object] = []
    for _ in range(100):
        nested = [nested]
    assert str(clean_json(nested, 10)).count("[") == DEEPEST
    assert clean_json({"a\0": ["b\0", 1.5, True, None, float("inf"), 2**70]}, 10) == {
        "a": ["b", 1.5, True, None, None, str(2**70)]
    }
    assert clean_json(object(), 10) is None
