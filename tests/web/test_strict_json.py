"""Strict JSON: only what every other parser would accept."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tabellion.web import strict_json
from tabellion.web.problems import Problem, pointer

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_valid_json_is_read(value: Any) -> None:
    """As the standard library reads it."""
    assert strict_json.loads(json.dumps(value).encode()) == value
    assert strict_json.loads(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=60) | st.text('{}[]",:\\u0eE+-.NaInfity 1', max_size=40).map(str.encode))
def test_invalid_json_is_a_problem(body: bytes) -> None:
    """Any input gives a value or a Problem."""
    with contextlib.suppress(Problem):
        assert strict_json.loads(body) == json.loads(body)


def test_pointers_are_escaped() -> None:
    """As in RFC 6901."""
    assert pointer("a/b", 0, "m~n") == "/a~1b/0/m~0n"
    assert pointer() == ""
