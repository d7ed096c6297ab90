"""Patterns that can be trusted to end."""

from __future__ import annotations

import pytest

from tabellion.reading.types.pattern import LONGEST_VALUE, fault, fits


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
def test_patterns_people_write_are_accepted_and_match_the_whole_value(pattern: str, fitting: str, failing: str) -> None:
    """What needs no trying again is fine, and a part of the value is not enough."""
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
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    """The known ways to make matching explode."""
    assert fault(pattern)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(", "not a regular expression"),
        ("[z-a]", "not a regular expression"),
        ("(?i)abc", "flags"),
        ("(?i:abc)", "flags"),
        (r"(a)\1", "no back-references"),
        ("(?=a)a", "no look-around"),
        ("(?<!a)b", "no look-around"),
        ("a" * 301, "at most 300 characters"),
        ("a{2000}", "more than 1000"),
        ("(" * 140 + ")" * 140, ""),
    ],
)
def test_what_patterns_do_not_have(pattern: str, what: str) -> None:
    """Each refusal says why."""
    found = fault(pattern)
    if what:
        assert found is not None
        assert what in found


def test_a_very_long_value_fits_no_pattern() -> None:
    """The length of a value is bounded before it is matched."""
    assert fits("a*", "a" * LONGEST_VALUE)
    assert not fits("a*", "a" * (LONGEST_VALUE + 1))
