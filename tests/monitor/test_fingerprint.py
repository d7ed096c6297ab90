"""The fingerprint of an error: the same for similar errors, different for others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.monitor.fingerprint import DIGITS, LONGEST, fingerprint, message, shape

SAME = [
    ("cannot open /srv/in/a-17.pdf: No such file", "cannot open /srv/in/deep/er/b.pdf: No such file"),
    ("row 4711 has no file", "row 12 has no file"),
    ("timed out after 3600 s", "timed out after 12.5 s"),
    ("invoice 'ACME & Sons' has no total", 'invoice "Osprey" has no total'),
    ("item 123e4567-e89b-12d3-a456-426614174000 is gone", "item 00000000-0000-0000-0000-000000000001 is gone"),
    ("document 01K0ABCDEFGHJKMNPQRSTVWXYZ is gone", "document 01K9ZZZZZZZZZZZZZZZZZZZZZZ is gone"),
    ("object at 0x7f3301 is closed", "object at 0xdeadbeef is closed"),
    ("request 0000099f was refused", "request 00000924 was refused"),
    ("digest 9f86d081884c7d65 differs", "digest 60303ae22b998861 differs"),
    ("connection to 10.0.0.5:5432 refused", "connection to 192.168.1.1:80 refused"),
    ("late since 2026-01-02T03:04:05Z", "late since 2025-12-31 23:59:59.123+01:00"),
    ("https://a.example/x?y=1 gave nothing", "http://b.example/ gave nothing"),
    ("no user anna@example.org", "no user bob.b@mail.example.com"),
    ("sizes 1, 2, 3 differ", "sizes 4, 5, 6, 7 differ"),
    ("1,234.50 is not 99", "7 is not 1 000 000,25"),
    ("page3 is broken", "page12 is broken"),
    ("two\n  lines", "two lines"),
    ("l'index « a » n'existe pas", "l'index « b c » n'existe pas"),
]
OTHER = [
    ("the receiver answered 503", "the receiver answered 404"),
    ("HTTP 429 Too Many Requests", "HTTP 500 Too Many Requests"),
    ("the worker died (signal 9)", "the worker died (signal 11)"),
    ("exit code 1", "exit code 137"),
    ("no such file", "no such table"),
    ("can't read it", "can't write it"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_similar_errors_have_one_fingerprint(one: str, other: str) -> None:
    """Whatever id, number, path, time, address or quoted value they contain."""
    assert shape(one) == shape(other)
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_different_errors_have_different_ones(one: str, other: str) -> None:
    """Words distinguish them, and so do HTTP statuses, signals and exit codes."""
    assert fingerprint(one) != fingerprint(other)


def test_a_shape_reads_like_the_error() -> None:
    """What was replaced is named."""
    assert shape("cannot open /srv/in/a-17.pdf for row 3: 'x'") == "cannot open <path> for row <n>: <value>"
    assert shape("the receiver answered 503 after 3 tries") == "the receiver answered 503 after <n> tries"


def test_errors_of_documents_are_parsed() -> None:
    """They are JSON with a code and a message; the number of attempts does not count."""
    one = json.dumps({"code": "model_unavailable", "message": "status 502 from host 3", "attempts": 4})
    other = json.dumps({"code": "model_unavailable", "message": "status 502 from host 7", "attempts": 1})
    assert message(one) == "model_unavailable: status 502 from host 3"
    assert fingerprint(one) == fingerprint(other)
    assert message('{"half": ') == '{"half":'
    assert message('{"code": 1}') == '{"code": 1}'


def test_an_empty_error_has_a_fingerprint_too() -> None:
    """Rows that failed without an error text are one group."""
    assert fingerprint(None) == fingerprint("") == fingerprint("  ")
    assert len(fingerprint(None)) == DIGITS


@given(st.text(max_size=3 * LONGEST) | st.just("\ud800 lone"))
def test_any_text_has_a_fingerprint(text: str) -> None:
    """Control characters, lone surrogates and markup included, always the same one."""
    assert len(fingerprint(text)) == DIGITS
    assert fingerprint(text) == fingerprint(text)
