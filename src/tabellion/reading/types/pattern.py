"""Patterns of fields: regular expressions that can be trusted to end, whoever wrote them.

A pattern is accepted when the next character alone decides which way a repetition or a choice goes, so that
matching never has to try again; where it does not, the number of ways must stay small. The whole value must match.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterator
from typing import Any

LONGEST = 300  # characters of a pattern
LONGEST_VALUE = 300  # characters of a value; a longer one fits no pattern
MOST_WAYS = 100_000
MOST_REPEATS = 1_000
PLAIN = frozenset([*range(0x250), *map(ord, "–—‘’“”•…€№™−ﬁﬂ")])  #: the characters that are thought of

Characters = frozenset[int]
Items = list[tuple[Any, Any]]


def fits(pattern: str, text: str) -> bool:
    """Whether the whole text has this pattern."""
    return len(text) <= LONGEST_VALUE and _compiled(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def fault(pattern: str) -> str | None:
    """Why this pattern cannot be used, or None."""
    if len(pattern) > LONGEST:
        return f"a pattern has at most {LONGEST} characters; this one has {len(pattern):,}"
    try:
        tree = importlib.import_module("re._parser").parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"not a regular expression: {error}"
    if tree.state.flags & ~re.UNICODE:
        return "flags such as (?i) are not used in patterns; write [Aa]"
    walk = _Walk(tree)
    try:
        walk.sequence(list(tree), frozenset(), within=False)
    except _Refused as refusal:
        return str(refusal)
    if walk.ways > MOST_WAYS:
        return "too many ways to match the same text; put a fixed character between the repetitions"
    return None


class _Refused(Exception):  # noqa: N818 - a verdict
    """The pattern asks for something that patterns do not have."""


class _Walk:
    """Goes through a parsed pattern and counts the ways in which one text could match."""

    def __init__(self, tree: Any) -> None:
        self.alphabet = PLAIN | _ends(tree)
        self.ways = 1

    def sequence(self, items: Items, after: Characters, *, within: bool) -> None:
        """Looks at each item, knowing which characters may follow it."""
        follow = after
        for item in reversed(items):
            self.item(item, follow, within)
            first, skippable = self.first([item])
            follow = first | follow if skippable else first

    def item(self, item: tuple[Any, Any], follow: Characters, within: bool) -> None:
        name, value = str(item[0]), item[1]
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            self.repeat(value, follow, within)
        elif name == "SUBPATTERN":
            _, add, remove, inner = value
            if add or remove:
                raise _Refused("flags such as (?i:…) are not used in patterns; write [Aa]")
            self.sequence(list(inner), follow, within=within)
        elif name == "BRANCH":
            seen: Characters = frozenset()
            for branch in value[1]:
                first, skippable = self.first(list(branch))
                chosen_by = first | follow if skippable else first
                if within and seen & chosen_by:
                    raise _Refused("two choices in a repeated group begin alike; that can take for ever")
                self.ways *= 2 if seen & chosen_by else 1
                seen |= chosen_by
                self.sequence(list(branch), follow, within=within)
        elif name not in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT"):
            raise _Refused("patterns have no look-around and no back-references")

    def repeat(self, value: tuple[int, int, Any], follow: Characters, within: bool) -> None:
        least, most, body = value[0], min(int(value[1]), LONGEST_VALUE), list(value[2])
        if least > MOST_REPEATS:
            raise _Refused(f"a repetition of more than {MOST_REPEATS}")
        first, skippable = self.first(body)
        if skippable and (most > 1 or within):
            raise _Refused("a repeated group that may be empty; that can take for ever")
        self.ways *= 2 if skippable else 1
        varies = least != most
        if varies and first & follow:
            if within:
                raise _Refused("a repetition within a repetition, with nothing between that tells them apart")
            self.ways *= most - least + 1
        self.sequence(body, first | follow if most > 1 else follow, within=within or most > 1)

    def first(self, items: Items) -> tuple[Characters, bool]:
        """The characters that the items can begin with, and whether they can all be left out."""
        found: Characters = frozenset()
        for op, value in items:
            name, skippable = str(op), False
            if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
                inner, skippable = self.first(list(value[2]))
                skippable = skippable or value[0] == 0
            elif name == "SUBPATTERN":
                inner, skippable = self.first(list(value[3]))
            elif name == "BRANCH":
                both = [self.first(list(branch)) for branch in value[1]]
                inner = frozenset().union(*(one for one, _ in both))
                skippable = any(may for _, may in both)
            elif name == "AT":
                inner, skippable = frozenset(), True
            else:
                inner = self.characters(name, value)
            found |= inner
            if not skippable:
                return found, False
        return found, True

    def characters(self, name: str, value: Any) -> Characters:
        if name == "LITERAL":
            return frozenset([value])
        if name == "NOT_LITERAL":
            return self.alphabet - {value}
        if name != "IN":
            return self.alphabet
        found: set[int] = set()
        negated = False
        for op, inner in value:
            if str(op) == "NEGATE":
                negated = True
            elif str(op) == "LITERAL":
                found.add(inner)
            elif str(op) == "RANGE":
                found |= {code for code in self.alphabet if inner[0] <= code <= inner[1]}
            else:
                found |= {code for code in self.alphabet if _in_category(str(inner), chr(code))}
        return self.alphabet - found if negated else frozenset(found)


def _in_category(category: str, sign: str) -> bool:
    kind = category.removeprefix("CATEGORY_").removeprefix("UNI_").removeprefix("NOT_")
    is_in = {"DIGIT": str.isdecimal, "SPACE": str.isspace}.get(kind, lambda one: one.isalnum() or one == "_")(sign)
    return is_in != ("NOT_" in category)


def _ends(tree: Any) -> Characters:
    """The ends of every range of a pattern and what is beside them: sets that meet, meet there or where a kind begins.

    Without them two ranges of letters beyond those that are thought of would seem to have nothing in common.
    """
    spans = list(_spans(tree))
    found = {
        code for first, last in spans for code in (first - 1, first, last, last + 1) if 0 <= code <= sys.maxunicode
    }
    return frozenset(found) | (_beginnings_of_kinds() if any(last >= 0x250 for _, last in spans) else frozenset())


def _spans(node: Any) -> Iterator[tuple[int, int]]:
    if isinstance(node, tuple) and len(node) == 2 and str(node[0]) == "RANGE":
        yield node[1]
    elif isinstance(node, tuple) and len(node) == 2 and str(node[0]) in ("LITERAL", "NOT_LITERAL"):
        yield node[1], node[1]
    elif isinstance(node, tuple | list) or hasattr(node, "data"):
        for one in getattr(node, "data", node):
            yield from _spans(one)


@functools.cache
def _beginnings_of_kinds() -> Characters:
    """The first character of every stretch whose characters are all digits, spaces or letters, or none of them."""
    found, before = [], None
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        kind = (sign.isdecimal(), sign.isspace(), sign.isalnum())
        if kind != before:
            found.append(code)
            before = kind
    return frozenset(found)
