"""OpenAI-compatible servers: the fake, and scripted answers."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import sys
from typing import Any

import pytest

import tabellion
from tabellion.errors import ConfigurationError
from tabellion.models.base import Ask, Blob
from tabellion.models.errors import BadOutput, Fault, KeyRefused, ModelError, Rejected, Throttled, Unavailable
from tabellion.models.fake.serving import Serving
from tabellion.models.openai import OpenAI
from tabellion.models.strict import make_strict
from tests.models.asking import BAD, KEY, PAGE, SCHEMA, TEXT, ask, failing
from tests.models.scripted import Answer, RecordedRequest, scripted


def openai(fake: Serving, knobs: str = "", **settings: Any) -> OpenAI:
    model = f"gpt-4o-mini@{knobs}" if knobs else "gpt-4o-mini"
    return OpenAI(KEY, f"{fake.url}/v1", model, **settings)


def test_fields_are_filled_in(fake: Serving) -> None:
    """A schema gets an object, with its tokens and its price."""
    reply = ask(openai(fake), [PAGE, TEXT], SCHEMA)
    assert reply.object["vendor"] == "Acme Ltd"
    assert reply.object["total"] == 118.0
    assert reply.usage.input > 0
    assert reply.cost == pytest.approx((reply.usage.input * 0.15 + reply.usage.output * 0.60) / 1e6)
    assert (reply.model, reply.finish) == ("gpt-4o-mini", "stop")
    assert reply.request_id.startswith("req_")


def test_text_is_answered_with_text(fake: Serving) -> None:
    """Without a schema the text is the answer."""
    assert "Acme Ltd" in ask(openai(fake)).text


ERRORS: list[tuple[str, type[ModelError], str]] = [
    ("400", Rejected, "openai returned HTTP 400: bad request"),
    ("401", KeyRefused, "openai returned HTTP 401: the key was rejected"),
    ("402", KeyRefused, "openai returned HTTP 402: payment required"),
    ("403", KeyRefused, "openai returned HTTP 403: the key is not allowed to do this"),
    ("404", Rejected, "openai returned HTTP 404: not found"),
    ("429=36", Throttled, "openai returned HTTP 429: too many requests; retry in 36"),
    ("429bare", Throttled, "openai returned HTTP 429: too many requests: Model busy, retry later"),
    ("429bare,detail", Throttled, "openai returned HTTP 429: too many requests: Model busy, retry later"),
    ("500", Unavailable, "openai returned HTTP 500: internal error"),
    ("502", Unavailable, "openai returned HTTP 502: bad gateway"),
    ("503", Unavailable, "openai returned HTTP 503: unavailable: The engine is currently overloaded"),
    ("503,html", Unavailable, "openai returned HTTP 503: unavailable: a web page"),
    ("503,detail", Unavailable, "openai returned HTTP 503: unavailable: The engine"),
    ("504", Unavailable, "openai returned HTTP 504"),
    ("reset", Unavailable, "openai closed the connection"),
    ("block", Rejected, "openai refused the request"),
]


@pytest.mark.parametrize(("knob", "kind", "says"), ERRORS)
def test_every_failure_has_its_class(fake: Serving, knob: str, kind: type[ModelError], says: str) -> None:
    """The right class and a message a person understands."""
    error = failing(kind, openai(fake, knob), schema=SCHEMA)
    assert str(error).startswith(says)
    if knob[:3].isdigit():
        assert error.status == int(knob[:3])
        assert error.request_id.startswith("req_")


@pytest.mark.parametrize(
    ("knob", "hint"), [("429=36", 36.4), ("429text=36", 36.4), ("429header=36", 36.0), ("429bare", None)]
)
def test_the_servers_retry_hint_is_used(fake: Serving, knob: str, hint: float | None) -> None:
    """The text, then the header."""
    assert failing(Throttled, openai(fake, knob)).hint == hint


@pytest.mark.parametrize(("knob", "fault", "hint"), BAD)
def test_every_bad_answer_has_its_fault(fake: Serving, knob: str, fault: Fault, hint: dict[str, Any]) -> None:
    """Never a result; the hint says what to do differently, and the cost is kept."""
    error = failing(BadOutput, openai(fake, knob), schema=SCHEMA)
    assert (error.fault, error.hint) == (fault, hint)
    if fault not in ("html", "too_large"):
        assert error.cost
        assert error.usage.input


def test_a_wrong_key_is_not_an_error_of_the_request(fake: Serving) -> None:
    """401, and the gate pauses."""
    failing(KeyRefused, OpenAI("bad-key", f"{fake.url}/v1"))


def answer(text: Any = "ok", finish: str = "stop", **more: Any) -> Answer:
    return Answer({"choices": [{"message": {"content": text}, "finish_reason": finish}], **more})


FILLED = '{"vendor": "A", "total": 1}'


def exchange(
    script: Any, asked: Ask = Ask(), schema: Any = None, parts: Any = (PAGE, TEXT), calls: int = 1,
    **settings: Any,
) -> tuple[Any, list[RecordedRequest]]:  # fmt: skip
    """Calls to a scripted server: the last result, and the requests the server got."""

    async def story() -> tuple[Any, list[RecordedRequest]]:
        async with scripted(script) as server:
            model = OpenAI(KEY, server.url, "m", **settings)
            try:
                for _ in range(calls):
                    reply = await model.call(parts, schema, asked)
                return reply, server.asked
            except ModelError as error:
                return error, server.asked
            finally:
                await model.close()

    return asyncio.run(story())


def test_a_request_has_what_was_asked_for() -> None:
    """Strict schema, data URLs, a file part for a PDF, system text; no retry, no retry telemetry."""
    pdf = Blob(b"%PDF-1.4", "application/pdf", "a.pdf")
    asked = Ask(system="Be exact.", temperature=0.3, max_tokens=100)
    reply, [request] = exchange([answer(FILLED)], asked, SCHEMA, [PAGE, pdf, TEXT])
    assert reply.object == {"vendor": "A", "total": 1}
    assert request.path == "/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body = request.json
    system, user = body["messages"]
    assert system == {"role": "system", "content": "Be exact."}
    page, file, text = user["content"]
    head, _, data = page["image_url"]["url"].partition(",")
    assert (head, base64.b64decode(data)) == ("data:image/png;base64", PAGE.data)
    assert file["file"]["filename"] == "a.pdf"
    assert file["file"]["file_data"].startswith("data:application/pdf;base64,")
    assert text == {"type": "text", "text": TEXT}
    assert (body["temperature"], body["max_tokens"]) == (0.3, 100)
    wanted = body["response_format"]["json_schema"]
    assert (wanted["strict"], wanted["schema"]) == (True, make_strict(SCHEMA))


def test_requests_say_who_sends_them() -> None:
    """The version in User-Agent, and JSON as what is accepted; `headers` of the settings replace them."""
    _, [request] = exchange([answer()])
    assert request.headers["user-agent"] == f"tabellion/{tabellion.__version__}"
    assert request.headers["accept"] == request.headers["content-type"] == "application/json"
    _, [request] = exchange([answer()], headers={"User-Agent": "mine", "authorization": "Basic x"})
    assert (request.headers["user-agent"], request.headers["authorization"]) == ("mine", "Basic x")


def test_headers_of_the_environment_are_sent(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """As OpenAI's package does: one in each line. Settings win; the answer stays unpacked; no value is logged."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS",
        "X-Gateway: a:b \r\n\nno colon\nAUTHORIZATION: Token canary-secret\nx-team: theirs\nAccept-Encoding: gzip",
    )
    _, [request] = exchange([answer()], headers={"X-Team": "ours"})
    expected = {
        "x-gateway": "a:b", "authorization": "Token canary-secret", "x-team": "ours", "accept-encoding": "identity",
        "openai-organization": "org-1",
    }  # fmt: skip
    assert expected.items() <= request.headers.items()
    assert "canary-secret" not in caplog.text


@pytest.mark.parametrize("line", [": secret", "a b: secret", "x-a: sécret", "x-a: sec\x00ret", "x\ty: secret"])
def test_an_invalid_header_of_the_environment_is_reported(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the model is created, by its line, without its text."""
    variable = dict(os.environ) | {"OPENAI_CUSTOM_HEADERS": f"x-good: 1\n{line}"}
    monkeypatch.setattr(os, "environ", variable)  # a real variable cannot contain a null byte
    with pytest.raises(ConfigurationError, match="OPENAI_CUSTOM_HEADERS: line 2 is not a valid header") as caught:
        OpenAI(KEY)
    assert "cret" not in str(caught.value)


def refusal(message: str, param: str | None = None, code: str | None = None) -> Answer:
    return Answer({"error": {"message": message, "param": param, "code": code, "type": "invalid_request_error"}}, 400)


def test_a_server_without_schemas_is_asked_for_any_json_and_remembered() -> None:
    """json_schema, then json_object, with the schema in the prompt; the second call already knows."""
    refused = refusal("response_format type json_schema is not supported")
    reply, asked = exchange([refused, answer(FILLED), answer(FILLED)], Ask(), SCHEMA, calls=2)
    assert reply.object == {"vendor": "A", "total": 1}
    forms = [request.json["response_format"]["type"] for request in asked]
    assert forms == ["json_schema", "json_object", "json_object"]
    assert json.dumps(SCHEMA) in asked[1].json["messages"][0]["content"]


def test_a_server_without_response_formats_is_asked_in_the_prompt() -> None:
    """As a last resort; the answer is validated anyway."""
    refused = refusal("unknown field response_format")
    reply, asked = exchange([refused, refused, answer(f"```json\n{FILLED}\n```")], Ask(), SCHEMA)
    assert reply.object == {"vendor": "A", "total": 1}
    assert "response_format" not in asked[2].json


def test_a_bad_request_is_not_retried() -> None:
    """Only a rejected response format is a reason to ask differently."""
    error, asked = exchange([refusal("the image is broken")], Ask(), SCHEMA)
    assert isinstance(error, Rejected)
    assert len(asked) == 1


@pytest.mark.parametrize(("param", "then"), [("max_tokens", "max_completion_tokens"), ("temperature", None)])
def test_unsupported_parameters_are_left_out(param: str, then: str | None) -> None:
    """Newer models reject what older servers need; the rejection is remembered."""
    refused = refusal(f"Unsupported parameter: '{param}' is not supported", param, "unsupported_parameter")
    reply, asked = exchange([refused, answer(), answer()], calls=2)
    assert reply.text == "ok"
    assert len(asked) == 3
    for request in asked[1:]:
        assert param not in request.json
        assert then is None or then in request.json


def test_the_providers_own_cost_wins() -> None:
    """DeepInfra and OpenRouter report the cost; thoughts and cached tokens are separate."""
    usage = {
        "prompt_tokens": 100, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 20},
        "prompt_tokens_details": {"cached_tokens": 60},
    }  # fmt: skip
    reply, _ = exchange([answer(usage=usage | {"estimated_cost": 0.001})])
    assert reply.cost == 0.001
    assert (reply.usage.input, reply.usage.output, reply.usage.thoughts, reply.usage.cached) == (100, 30, 20, 60)
    assert exchange([answer(usage=usage | {"cost": 0.002})])[0].cost == 0.002
    assert exchange([answer(usage=usage | {"cost": "free"})])[0].cost is None


def test_a_refusal_is_final() -> None:
    """OpenAI's own field for it, and the content filter."""
    refused = {"choices": [{"message": {"content": None, "refusal": "I cannot"}, "finish_reason": "stop"}]}
    for script in (Answer(refused), answer("", "content_filter")):
        assert isinstance(exchange([script])[0], Rejected)


def test_answers_in_parts_are_joined() -> None:
    """Some servers answer with a list of parts."""
    assert exchange([answer([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 7])])[0].text == "ab"


STRANGE: list[Any] = [
    {}, {"choices": []}, {"choices": [None]}, {"choices": "x"}, {"choices": [{"message": 5}], "usage": 5},
]  # fmt: skip


@pytest.mark.parametrize("body", STRANGE, ids=str)
def test_unexpected_answers_are_bad_output(body: Any) -> None:
    """Whatever shape the body has."""
    error, _ = exchange([Answer(body)])
    assert isinstance(error, BadOutput)
    assert error.fault == "empty"


def test_redirects_are_not_followed() -> None:
    """The key and the document go to the configured address and nowhere else."""
    error, asked = exchange([Answer(b"", 307, {"location": "http://127.0.0.1:9/"})])
    assert isinstance(error, Unavailable)
    assert "redirects are not followed" in str(error)
    assert len(asked) == 1


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra is a configuration error."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tabellion\[openai\]'"):
        ask(OpenAI(KEY, "http://127.0.0.1:9"))
