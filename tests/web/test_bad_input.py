"""What clients get wrong, case by case: the answer names the field, what was expected, and what to do."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, ValidationError, field_validator

from tabellion.messages import Message, translate
from tabellion.pipelines.documents.routes.review_bodies import FieldChange
from tabellion.web.problems import Problem
from tabellion.web.validation import build_problem
from tests.web.live import Live, live, problem

JSON = {"Content-Type": "application/json"}
URL = "/api/documents"


def post(web: Live, body: bytes | str, path: str = "/api/webhooks", **headers: str) -> httpx2.Response:
    """Post a JSON body as it is."""
    return web.ask("POST", path, content=body, headers=JSON | headers)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"", "json_invalid", "line 1, column 1"),
        (b"{", "json_invalid", "line 1, column 2"),
        (b'{\n  "url": "x",\n}', "json_invalid", "line 3, column 1"),
        (b'{"url": "x"} x', "json_invalid", "line 1, column 14"),
        (b'{"url": NaN}', "json_invalid", "line 1, column 9: NaN is not JSON"),
        (b'{"url": -Infinity}', "json_invalid", "-Infinity is not JSON"),
        (b'{"url": "a", "url": "b"}', "json_invalid", 'the key "url" is repeated'),
        (b'{"url": "\xff"}', "json_invalid", "byte 10 is not UTF-8"),
        (b'\xef\xbb\xbf{"url": "x"}', "json_invalid", "line 1, column 1"),
        (b'{"url": "\\ud800"}', "json_invalid", "lone surrogate"),
        (b'{"url": "a\\u0000b"}', "text_nul", "NUL"),
        (b'{"a\\u0000b": 1}', "text_nul", "NUL"),
        (b"[" * 200 + b"]" * 200, "json_too_deep", "50"),
        (b'{"a":' * 100_000, "json_too_deep", "50"),
        (b"'url'", "json_invalid", "line 1"),
    ],
)
def test_an_ambiguous_or_invalid_body_is_rejected(web: Live, body: bytes, code: str, words: str) -> None:
    """400 with line and column where there is one."""
    error = problem(post(web, body), 400, code)
    assert words in error["detail"]
    if "column" in words:
        assert {"line", "column"} <= error.keys()


@pytest.mark.parametrize(
    "media", ["text/plain", "application/xml", "application/x-www-form-urlencoded", "", "nonsense"]
)
def test_a_body_of_another_media_type_is_rejected(web: Live, media: str) -> None:
    """415 with the supported type."""
    for path in ("/api/webhooks", URL):
        error = problem(web.ask("POST", path, content=b"{}", headers={"Content-Type": media}), 415, "media_unsupported")
        assert "application/json" in error["fix"]


@pytest.mark.parametrize(
    ("body", "code", "field", "expected", "got"),
    [
        ({}, "value_missing", "/url", "a value", "nothing"),
        ({"url": "https://a.example", "events": [], "role": "admin"}, "value_unknown", "/role", "no such", "a string"),
        ({"url": 3}, "value_invalid", "/url", "a string", "an integer"),
        ({"url": True}, "value_invalid", "/url", "a string", "a boolean"),
        ({"url": None}, "value_invalid", "/url", "a string", "null"),
        ({"url": ""}, "value_invalid", "/url", "at least 1", "an empty string"),
        ({"url": "x" * 10_000}, "value_invalid", "/url", "at most 2,048", "a string of 10,000 characters"),
        ({"url": "https://a.example", "events": "*"}, "value_invalid", "/events", "a list", "a string of 1 character"),
        ({"url": "https://a.example", "events": [1]}, "value_invalid", "/events/0", "a string", "an integer"),
        ({"url": "https://a.example", "events": ["x"]}, "value_invalid", "/events/0", "document.completed", None),
        ({"url": "https://a.example", "a/b~c": 1}, "value_unknown", "/a~1b~0c", "no such", "an integer"),
        ([], "value_invalid", "", "", "a list"),
        ("x", "value_invalid", "", "", "a string of 1 character"),
    ],
)
def test_an_invalid_value_is_named(web: Live, body: Any, code: str, field: str, expected: str, got: str | None) -> None:
    """422 with the JSON pointer, what was expected and the kind received; never the value."""
    error = problem(post(web, json.dumps(body)), 422, code)
    assert error["field"] == field
    assert expected in error["expected"]
    if got is not None:
        assert error["got"].startswith(got)
    assert "xxxxxxxxxx" not in json.dumps(error)


@pytest.mark.parametrize("number", ["9223372036854775808", "-99999999999999999999", "1" + "0" * 5000, "1e999"])
def test_a_number_beyond_64_bits_is_rejected(web: Live, number: str) -> None:
    """422, whatever the field."""
    problem(post(web, '{"url": ' + number + "}"), 422, "value_invalid")


@pytest.mark.parametrize(
    ("query", "field", "expected"),
    [
        ("limit=-1", "limit", "at least 1"), ("limit=0", "limit", "at least 1"),
        ("limit=1000000000", "limit", "at most 200"), ("limit=1.0", "limit", "integer"),
        ("limit=1_0", "limit", "integer"), ("limit=+5", "limit", "integer"), ("limit=", "limit", "integer"),
        ("limit=5e1", "limit", "integer"), ("limit=%D9%A3", "limit", "integer"),
        ("status=done", "status", "'queued'"), ("status=", "status", "'queued'"),
        ("verdict=good", "verdict", "'accept'"),
        ("since=yesterday", "since", "RFC 3339"), ("until=2020-13-01", "until", "date"), ("q=", "q", "at least 1"),
        ("cursor=zzzz", "cursor", "the `next`"), ("cursor=", "cursor", "the `next`"),
        ("cursor=" + "A" * 5000, "cursor", "the `next`"),
        ("sort=name", "sort", "one of cursor, limit, q, review, since"),
        ("status__in=queued", "status__in", "one of"), ("status%5B%5D=queued", "status[]", "one of"),
        ("LIMIT=1", "LIMIT", "one of"), ("q%00=1", "q\x00", "one of"),
    ],
)  # fmt: skip
def test_an_invalid_parameter_is_named(web: Live, query: str, field: str, expected: str) -> None:
    """422 with the parameter and the allowed values."""
    answer = web.get(f"{URL}?{query}")
    assert answer.status_code == 422, answer.text
    error = answer.json()
    assert error["field"] == field
    assert expected in error["expected"]


@pytest.mark.parametrize(
    ("query", "form", "french"),
    [
        ("limit=0", {"code": "expected.at_least", "params": {"n": 1}}, "attendu : au moins 1"),
        ("limit=1.0", {"code": "expected.digits", "params": {}}, "un nombre entier en chiffres décimaux"),
        ("q=", {"code": "expected.min_length", "params": {"n": 1}}, "au moins 1 caractère"),
        ("since=yesterday", {"code": "expected.moment", "params": {}}, "une date, ou une date et une heure (RFC 3339)"),
    ],
)
def test_what_was_expected_is_a_message(web: Live, query: str, form: dict[str, Any], french: str) -> None:
    """So that pages show it in their language; nothing of it is a sentence of pydantic."""
    forms = web.get(f"{URL}?{query}").json()["translatable"]
    assert forms["detail"] == {
        "code": "problem.value_in",
        "params": {"text": {"code": "request_part.query", "params": {}}},
    }
    assert forms["fix"] == {"code": "fix.expected", "params": {"text": form}}
    fix = Message.from_stored("", forms["fix"])
    assert isinstance(fix, Message)
    assert french in translate("fr", fix.code, **fix.params)


def test_what_was_received_is_a_message(web: Live) -> None:
    """With its plural, in the language of the page."""
    error = problem(post(web, '"x"'), 422, "value_invalid")
    assert error["translatable"]["got"] == {"code": "got.text", "params": {"n": 1}}
    assert translate("fr", "got.text", n=1) == "une chaîne de 1 caractère"


def test_an_endpoint_without_parameters_says_so(web: Live) -> None:
    """There is none to list."""
    error = problem(web.get("/api/metrics?x=1"), 422, "value_unknown")
    assert error["expected"] == "no query parameters"
    assert error["fix"] == "remove the query; this endpoint takes no parameters"


def test_a_validator_says_what_was_expected() -> None:
    """Also one of a pipeline of another package, which has no code for it."""

    class Address(BaseModel):
        to: str

        @field_validator("to")
        @classmethod
        def check(cls, text: str) -> str:
            raise ValueError("must be street, city")

    with pytest.raises(ValidationError) as caught:
        Address.model_validate({"to": "x"})
    found = build_problem(caught.value.errors())
    assert (found.more["expected"], found.fix) == ("must be street, city", "expected: must be street, city")


def test_allowed_values_are_listed(web: Live) -> None:
    """Each as it must be written, in quotes of the language."""
    forms = web.get(f"{URL}?verdict=good").json()["translatable"]
    names = forms["fix"]["params"]["text"]["params"]["names"]
    assert [one["params"]["text"] for one in names] == ["accept", "warn", "reject"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"action": "confirm", "value": "x"}, "expected.correction_alone"),
        ({"action": "correct", "value": "x", "quote": "x"}, "expected.page"),
        ({"action": "correct", "value": "x", "page": 1, "box": [0.9, 0.1, 0.2, 0.2]}, "expected.box"),
        ({"action": "correct", "value": "x", "page": 0}, "expected.at_least"),
        ({"action": "correct", "value": "x", "page": 1, "box": [0.1]}, "expected.min_items"),
        ({"action": "correct", "value": "x", "page": 1, "box": [0.1, 0.1, 0.2, 2]}, "expected.at_most"),
        ({"action": "correct", "value": "x", "page": 1.5}, "expected.integer"),
        ({"action": "guess"}, "expected.one_of"),
        ([], "expected.object"),
    ],
)
def test_a_wrong_change_of_a_field_is_a_message(change: Any, code: str) -> None:
    """What our own checks say as well as what pydantic's do."""
    with pytest.raises(ValidationError) as caught:
        FieldChange.model_validate(change)
    [error] = caught.value.errors()
    expected = build_problem([error]).more["expected"]
    assert isinstance(expected, Message)
    assert expected.code == code


def test_an_unknown_kind_of_error_is_still_a_message() -> None:
    """Whatever a later pydantic checks: no English sentence of it is shown."""
    problem_ = build_problem([{"type": "new", "loc": ("body", "a"), "msg": "Input should shine", "input": 1}])
    assert (problem_.fix, problem_.more["expected"]) == ("expected: a valid value", "a valid value")


def test_a_repeated_parameter_is_rejected(web: Live) -> None:
    """It would be unclear which one counts."""
    error = problem(web.get(f"{URL}?limit=1&limit=2"), 422, "value_repeated")
    assert error["field"] == "limit"


def test_a_nul_in_a_text_is_harmless(web: Live) -> None:
    """PostgreSQL cannot store it, so it is never sent there."""
    for query in ("q=a%00b", "type=a%00b"):
        problem(web.get(f"{URL}?{query}"), 422, "value_invalid")


@pytest.mark.parametrize("id", ["x", "0" * 25, "0" * 27, "%00", "..", "%2e%2e", "'; drop table documents--", "é" * 26])
def test_an_invalid_id_is_not_found(web: Live, id: str) -> None:  # noqa: A002
    """404, never a database error."""
    for method, tail in (("GET", ""), ("DELETE", ""), ("GET", "/file"), ("GET", "/events"), ("POST", "/reprocess")):
        answer = web.ask(method, f"{URL}/{id}{tail}")
        problem(answer, 404, "not_found")


def test_unknown_paths_and_methods(web: Live) -> None:
    """404 and 405, the latter with what is allowed."""
    for path in (
        "/api",
        "/api/nope",
        "/api/documents/",
        "/docs/",
        "/docs/../app.py",
        "/docs/docs.html",
        "//healthz",
    ):
        problem(web.get(path), 404, "not_found")
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
        answer = web.ask(method, URL)
        problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/documents", "GET, HEAD, POST"), ("/api/documents/x", "DELETE, GET, HEAD"), ("/healthz", "GET, HEAD"),
        ("/api/documents/x/reprocess", "POST"),
    ],
)  # fmt: skip
def test_allow_names_every_method_of_a_path(web: Live, path: str, allowed: str) -> None:
    """Not only those of the route that came first."""
    answer = web.ask("PATCH", path)
    assert allowed in problem(answer, 405, "method_not_allowed")["fix"]
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("accept", ["text/html", "application/xml, text/*", "application/json;q=0", "nonsense"])
def test_a_client_that_does_not_accept_json_gets_406(web: Live, accept: str) -> None:
    """The answer names what is available."""
    error = problem(web.get(URL, headers={"Accept": accept}), 406, "not_acceptable")
    assert "application/json" in error["detail"]


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/*", "text/html, */*;q=0.1", "Application/JSON; charset=utf-8"]
)
def test_a_client_that_accepts_json_gets_it(web: Live, accept: str) -> None:
    """In every valid form of the Accept header."""
    assert web.get(URL, headers={"Accept": accept}).status_code == 200


def test_a_body_that_is_too_large_is_not_read(web: Live) -> None:
    """413 with the limit, whether the length was announced or not."""
    error = problem(post(web, b"x" * 1_000_001), 413, "too_large")
    assert (error["limit"], error["got"]) == (1_000_000, 1_000_001)
    chunked = web.ask("POST", "/api/webhooks", content=(b"x" * 100_000 for _ in range(11)), headers=JSON)
    assert problem(chunked, 413, "too_large")["limit"] == 1_000_000


def test_a_body_that_stalls_times_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    """408 after a silence; a slow client costs one connection for a while."""
    from tabellion.web.limits import RequestLimits

    folder = tmp_path_factory.mktemp("slow")
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, limits=RequestLimits(silence=0.3)) as web:
        for media, head in (
            ("application/json", b'{"url": '), ("application/pdf", b"%PDF-1.4"),
            (
                "multipart/form-data; boundary=b",
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n',
            ),
        ):  # fmt: skip
            answer = raw(web, media, head, length=100)
            assert answer.startswith(b"HTTP/1.1 408 "), answer
            assert b'"request_timeout"' in answer
        assert not list(web.blobs("prod").rglob("*.*"))


def test_a_body_that_trickles_times_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A byte now and then does not count as an upload."""
    from tabellion.web.limits import RequestLimits

    folder = tmp_path_factory.mktemp("drip")
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, limits=RequestLimits(patience=0.2)) as web:
        answer = raw(web, "application/pdf", b"%PDF-1.4", length=1000, drips=200)
        assert answer.startswith(b"HTTP/1.1 408 "), answer


def test_a_connection_that_ends_early_leaves_nothing(web: Live) -> None:
    """Half an upload leaves no document and no file."""
    before = web.get(URL).json()["documents"]
    raw(web, "application/pdf", b"%PDF-1.4", length=1000, end=True)
    assert web.get(URL).json()["documents"] == before
    assert not [path for path in web.blobs("prod").rglob("*") if path.is_file()]


def raw(web: Live, media: str, head: bytes, *, length: int, drips: int = 0, end: bool = False) -> bytes:
    """Send a request by hand: announce a length, send less."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 10) as line:
        line.sendall(
            f"POST {URL} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {web.key()}\r\nContent-Type: {media}\r\n"
            f"Content-Length: {length}\r\n\r\n".encode()
            + head
        )
        if end:
            return b""
        line.settimeout(0.02 if drips else 10)
        for _ in range(drips):
            try:
                if found := line.recv(65536):
                    return found
            except TimeoutError:
                line.sendall(b"x")
        line.settimeout(10)
        return b"".join(iter(lambda: line.recv(65536), b""))


def test_invalid_http_gets_a_short_answer(web: Live) -> None:
    """Garbage and endless headers do not reach the application."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    for sent in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000):
        with socket.create_connection((host, int(port)), 10) as line:
            line.sendall(sent)
            assert line.recv(65536).startswith(b"HTTP/1.1 4")


def test_status_titles_do_not_depend_on_python() -> None:
    """They are those of the current standard."""
    titles = [Problem(status, "value_invalid").as_dict("x")["title"] for status in (404, 413, 422)]
    assert titles == ["Not Found", "Content Too Large", "Unprocessable Content"]
