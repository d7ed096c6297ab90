"""An answer is what was requested, or a BadOutput that says what to do differently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabellion.messages import Message
from tabellion.models.base import Ask, Usage
from tabellion.models.errors import LONGEST_RAW, BadOutput, Rejected
from tabellion.models.output import complaint_of, judge, loops, next_temperature, parse_response

SCHEMA = {
    "type": "object",
    "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}, "due": {"type": "string"}},
    "required": ["vendor", "total"],
    "additionalProperties": False,
}
ONE = {"type": "object", "properties": {"vendor": {"type": "string"}}, "required": ["vendor"]}
GOOD = '{"vendor": "Acme", "total": 12.5}'


def bad(text: str, schema: Any = SCHEMA, finish: str = "stop", ask: Ask = Ask()) -> BadOutput:
    with pytest.raises(BadOutput) as caught:
        judge(text, schema, ask, finish=finish, usage=Usage(input=3), cost=0.25)
    assert caught.value.usage.input == 3
    assert caught.value.cost == 0.25
    assert caught.value.raw == text[:LONGEST_RAW]
    return caught.value


@pytest.mark.parametrize(
    "text", [GOOD, f"```json\n{GOOD}\n```", f"Here it is:\n```\n{GOOD}\n```\nAnything else?", f"\ufeff {GOOD}\n"]
)
def test_json_is_found_where_models_put_it(text: str) -> None:
    """Bare, in a code fence, after a polite sentence."""
    assert judge(text, SCHEMA, Ask()) == {"vendor": "Acme", "total": 12.5}


def test_without_a_schema_text_is_just_text() -> None:
    """Nothing is parsed, markup included."""
    assert judge("<html>a page about HTML</html>", None, Ask()) is None


def test_null_means_an_absent_optional_field() -> None:
    """Models write null where a field is missing; it is left out at every depth, and an allowed null stays."""
    item = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}}
    schema = {
        "type": "object",
        "properties": {"due": {"type": "string"}, "items": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
        "$defs": {"item": item},
    }
    assert judge('{"due": null, "items": [{"a": null, "b": null}]}', schema, Ask()) == {"items": [{"b": None}]}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<!DOCTYPE html><html><body>Sign in</body></html>", "html"),
        ("Sorry, I cannot.", "json"),
        ('{"vendor": "Acme", "total": NaN}', "json"),
        ('{"vendor": "\\ud800", "total": 1}', "json"),
        ('{"vendor" "Acme"}', "json"),
        ("[" * 100_000 + "]" * 100_000, "json"),
        ('{"vendor": "Acme", "total": "12"}', "schema"),
        ('{"vendor": "Acme"}', "schema"),
        ('{"vendor": null, "total": 1}', "schema"),
        ('{"vendor": "Acme", "total": 1, "more": 1}', "schema"),
        ("[1]", "schema"),
    ],
    ids=lambda value: value[:40],
)
def test_an_invalid_answer_is_retried_warmer(text: str, fault: str) -> None:
    """Each fault has its name, and the hint is the next temperature."""
    error = bad(text)
    assert error.fault == fault
    assert error.hint == {"temperature": 0.2}


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "length"])
def test_a_truncated_answer_is_requested_in_parts(finish: str) -> None:
    """Several fields are split; a single one gets more room."""
    assert (bad(GOOD[:20], finish=finish).fault, bad(GOOD[:20], finish=finish).hint) == ("truncated", {"split": 2})
    assert bad(GOOD[:20], ONE, finish).hint == {"max_tokens": 16384}
    assert bad("some text", None, finish).hint == {"max_tokens": 16384}
    assert bad("", SCHEMA, finish).fault == "empty"
    assert bad("", SCHEMA, finish).hint == {"split": 2}


@pytest.mark.parametrize("text", [GOOD[:-1], '{"vendor": "Ac', '```json\n{"vendor": ["a", "b"\n'])
def test_incomplete_json_was_truncated(text: str) -> None:
    """Some servers report stop anyway."""
    assert bad(text).fault == "truncated"


def test_the_error_does_not_quote_the_document() -> None:
    """Where and which rule, not the content."""
    error = bad('{"vendor": {"canary": 1}, "total": 1}')
    assert "vendor" in str(error)
    assert "canary" not in str(error)


def test_a_hint_changes_the_next_request() -> None:
    """`Ask.again` uses a BadOutput's hint: warmer, or with more room."""
    ask = Ask().again({"temperature": 0.2}).again({"max_tokens": 100})
    assert (ask.attempt, ask.temperature, ask.max_tokens) == (3, 0.2, 100)
    assert bad("", ask=ask).hint == {"temperature": 0.5}
    assert next_temperature(1.0) == 1.0


LEADERS = "\n".join(f"Chapter {number} {'.' * 120} {number * 7}" for number in range(60))
TABLE = "| item | price |\n|---|---|\n" + "\n".join(f"| part {number} | 10.00 |" for number in range(400))
SAME_ROWS = "| item | price |\n|---|---|\n" + "| hour of work | 100.00 |\n" * 40
BLANK_FORM = "Name\n" + "|     |     |     |\n" * 200
LOOPS = {
    "words": "The total is due. " + "and the same again " * 400,
    "digits": '{"total": 1' + "0" * 4000,
    "dots": "Contents " + "." * 4000,
    "lines": "Invoice\n" + "| Widget | 10.00 | 20.00 |\n" * 300,
    "items": '{"lines": [' + '{"a": "Widget", "b": 1}, ' * 200,
    "closed": '{"text": "' + "la " * 2000 + '"}',
}


@pytest.mark.parametrize("text", [LEADERS, TABLE, SAME_ROWS, BLANK_FORM, "-" * 1500, "short " * 20])
def test_tables_and_dotted_leaders_are_not_loops(text: str) -> None:
    """Normal document content is not a fault."""
    assert not loops(text, cut=False)


@pytest.mark.parametrize("text", [LEADERS, TABLE])
def test_a_truncated_table_is_not_a_loop(text: str) -> None:
    """Not even when the answer ran out of tokens within it."""
    assert not loops(text, cut=True)


@pytest.mark.parametrize("what", LOOPS)
def test_a_loop_is_recognised(what: str) -> None:
    """The same over and over until the tokens ran out: retried warmer."""
    error = bad(LOOPS[what], finish="length")
    assert (error.fault, error.hint) == ("repetition", {"temperature": 0.2})


def test_a_long_loop_counts_even_when_it_ended_by_itself() -> None:
    """Thousands of characters of the same words are not a table."""
    assert bad(LOOPS["closed"]).fault == "repetition"


def test_the_raw_reply_is_limited() -> None:
    """64 kB of it are kept as evidence."""
    assert len(bad("x " + json.dumps("y") * 100_000).raw) == LONGEST_RAW


def test_the_response_must_be_an_object() -> None:
    """A web page, a list and incomplete JSON are distinguished."""
    assert parse_response("gemini", '{"a": 1}') == {"a": 1}
    for body, fault in [("<html>sign in</html>", "html"), ("[1]", "json"), ('{"a', "json"), ("", "json")]:
        with pytest.raises(BadOutput) as caught:
            parse_response("gemini", body)
        assert caught.value.fault == fault
    with pytest.raises(BadOutput):
        parse_response("gemini", "[" * 200_000)


def test_an_invalid_schema_is_an_error_of_the_caller() -> None:
    """An invalid schema, or one that needs the network, is Rejected."""
    with pytest.raises(Rejected, match="schema"):
        judge(GOOD, {"type": "strange"}, Ask())
    with pytest.raises(Rejected, match="schema"):
        judge(GOOD, {"$ref": "http://127.0.0.1:9/schema.json"}, Ask())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Sorry, I cannot.", "json.not_valid_at"),
        ('{"vendor": "Acme", "total": NaN}', "json.constant"),
        ('{"vendor": "\\ud800", "total": 1}', "json.lone_surrogate"),
        ("[" * 100_000 + "]" * 100_000, "json.too_deep"),
        ('{"vendor": 1, "total": 1}', "schema.broken"),
    ],
)
def test_what_is_wrong_with_an_answer_is_a_message(text: str, code: str) -> None:
    """In a message: pages show both in their language."""
    message = str(bad(text))
    assert isinstance(message, Message)
    assert message.params["text"].code == code


def test_very_large_numbers_are_validated_too() -> None:
    """A model that writes a hundred digits breaks nothing."""
    assert complaint_of({"n": 10**100}, {"properties": {"n": {"type": "string"}}}) != ""
