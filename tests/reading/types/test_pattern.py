"""User patterns that are guaranteed to end."""

from __future__ import annotations

import time

import pytest

from tabellion.reading.types.pattern import LONGEST_LINE, LONGEST_VALUE, fault, find, fits


@pytest.mark.parametrize(
    ("pattern", "fitting", "failing"),
    [
        ("[A-Z]{3}", "CAD", "CADD"),
        ("[0-9]{1,3}(?: ?[0-9]{3}){0,2}", "27 123 456", "27 12"),
        ("(?:[A-Z]+-)*[0-9]+", "AB-C-12", "AB-C-"),
        ("FR[0-9A-Z]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{3}", "FR03 552 081 317", "FR03 552"),
        ("(?:INV|RE|F)-?[0-9]{4,12}", "RE-20170509", "XX-20170509"),
        (r"\d+(?:[.,]\d+)?", "12,5", "12,"),
        (r"\w+ \w+", "ab cd", "ab"),
        (".*-.*", "a-b", "ab"),
        ("(?:a|b|cd)*", "abcd", "abc"),
        ("[^\\n]{1,60}", "x y", ""),
        ("°?[éè]+", "°éè", "e"),
        ("^a$", "a", "aa"),
        ("(?P<year>[0-9]{4})", "2024", "24"),
        ("a*?b", "aab", "aa"),
        (r"[^\d]\D\S[^x]", "abcd", "1bcd"),
    ],
)
def test_common_patterns_are_accepted_and_match_the_whole_value(pattern: str, fitting: str, failing: str) -> None:
    """Patterns without backreferences are fine, and a part of the value is not enough."""
    assert fault(pattern) is None
    assert fits(pattern, fitting)
    assert not fits(pattern, failing)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a*)*b",
        "(a|a)*",
        "(?:[ab]x|ax)*c",
        "(a?){30}a{30}",
        "(.*)*x",
        "(?:[a-z]+)*$",
        "([a-zA-Z]+)*",
        r"(\w+\s?)*",
        r"(?:\d{1,3}){2,9}",
        "(?:x+x+)+y",
        ".*.*.*.*x",
        "a*a*a*a*a*b",
        "a{0,30}a{0,30}a{0,30}a{0,30}a{0,30}b",
        "(?:ab|a.)*c",
        "(?:|a)*b",
        "(?:(?:c?)?ab*)* ",
        "(?:a|[^b])*c",
        "(?:[一-龥]+[丁-龠]?)+x",
        "(?:[\u2000-\u9fff]y?|\\w)*x",
    ],
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """Those that make a backtracking matcher explode: most texts have no match, so every way would be tried."""
    assert fault(pattern) is None
    began = time.process_time()
    for text in ("a" * 299 + "!", "ab" * 149 + "!", "x" * 300, "1" * 299 + "!", "一" * 299 + "!"):
        fits(pattern, text)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pattern", "fitting", "failing"),
    [
        (r"\w+", "Éric_9ß", "l'État"),
        (r"\d{2}", "٤٢", "4²"),
        (r"a\sb", "a\u00a0b", "a_b"),
        (r"\W\D\S", "€é–", "éé–"),
        (r"[\w\s-]+", "Saint-Éloi\u202fnord", "a/b"),
        (r"[^\d\s]+", "été", "été 9"),
        (r"[\D]", "é", "٤"),
        (r"[]\d]{,3}", "]4]", "]4]4"),
        (r"[a\]\w{,]+\Z", "é],{", "é-"),
        (r"\u00e9\\u00e9", "é\\u00e9", "éé"),
        (r"\p{Lu}\p{L}*", "Élan", "élan"),
    ],
)
def test_digits_letters_and_spaces_include_every_language(pattern: str, fitting: str, failing: str) -> None:
    """As in Python, though not in RE2."""
    assert fault(pattern) is None
    assert fits(pattern, fitting)
    assert not fits(pattern, failing)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(", "missing )"),
        ("[z-a]", "range: z-a"),
        ("(?i)abc", "flags"),
        ("(?i:abc)", "flags"),
        (r"(a)\1", "or back-references"),
        ("(?=a)a", "no look-around"),
        ("(?<!a)b", "no look-around"),
        (r"[^\W_]", r"write \p{L}"),
        ("a" * 301, "at most 300 characters"),
        ("a{2000}", "repetition size: {2000}"),
        (r"(?:\w{1,100}x\w{1,100}y){10}", "too large"),
        ("\ud800", "surrogates"),
    ],
)
def test_unsupported_pattern_features_are_rejected(pattern: str, what: str) -> None:
    """Each error says why."""
    assert what in (fault(pattern) or "")


def test_half_a_surrogate_pair_matches_no_pattern() -> None:
    """JSON can contain it; RE2 cannot."""
    assert not fits(".*", "a\ud800")


def test_a_very_long_value_matches_no_pattern() -> None:
    """The length of a value is limited before it is matched."""
    assert fits("a*", "a" * LONGEST_VALUE)
    assert not fits("a*", "a" * (LONGEST_VALUE + 1))


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[A-Z]{2}", "AB CD,EF", ["AB", "CD", "EF"]),
        ("[A-Z]{2}", "ABC xAB AB-1 ÉAB", []),
        ("[A-Z]{2}|[A-Z]{3}", "ABC", ["ABC"]),
        ("[0-9]*", "a 12 b", ["12"]),
        (r"(?P<a>\p{L})(\d)", "É1 ü2", ["É1", "ü2"]),
        ("[0-9]+", "\ud800 17", ["17"]),
        ("[0-9]+", " " * LONGEST_LINE + "17", []),
    ],
)
def test_values_are_found_between_words(pattern: str, text: str, found: list[str]) -> None:
    """A value has no letter, digit or hyphen beside it, and a separator between two values belongs to both."""
    assert [text[start:end] for start, end in find(pattern, text)] == found
