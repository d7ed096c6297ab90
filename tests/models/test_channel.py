"""The HTTP channel: size limits while reading, deadlines, proxies from the environment."""

from __future__ import annotations

import asyncio
import gzip

import httpx2
import pytest

from tabellion.models.base import Ask
from tabellion.models.channel import AT_ONCE, SendLimiter, _turn, client, deadline, proxy_for, translate_errors
from tabellion.models.errors import BadOutput, Rejected, Unavailable
from tabellion.models.fake.serving import Serving
from tabellion.models.openai import OpenAI
from tests.engine.made_tables import asynchronous
from tests.models.scripted import Answer, scripted


def fetched(answer: Answer, limit: int = 1000) -> httpx2.Response:
    async def story() -> httpx2.Response:
        async with scripted([answer]) as server, client(server.url, {"x-mine": "1"}, limit) as http:
            response = await http.get(server.url)
            assert server.asked[0].headers["accept-encoding"] == "identity"
            assert server.asked[0].headers["x-mine"] == "1"
            return response

    return asyncio.run(story())


def test_an_answer_within_the_limit_is_read() -> None:
    """Up to the last byte."""
    assert len(fetched(Answer(b"x" * 1000)).content) == 1000


def test_an_answer_beyond_the_limit_is_not_read() -> None:
    """One that announces it is not even started; one that does not is aborted."""
    with pytest.raises(BadOutput, match="larger than 1,000 bytes") as caught:
        fetched(Answer(b"x" * 1001))
    assert caught.value.fault == "too_large"
    chunks = b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n"
    with pytest.raises(BadOutput):
        fetched(Answer(chunks, headers={"content-length": "0", "transfer-encoding": "chunked"}))


def test_a_compressed_answer_is_rejected() -> None:
    """It may expand to anything, and was not requested."""
    with pytest.raises(Unavailable, match="gzip"):
        fetched(Answer(gzip.compress(b"x" * 100_000), headers={"content-encoding": "gzip"}))


def test_a_redirect_is_an_answer() -> None:
    """It is not followed."""
    assert fetched(Answer(b"", 302, {"location": "http://127.0.0.1:9"})).status_code == 302


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("https://api.example", {"https_proxy": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example", {"all_proxy": "http://proxy:2"}, "http://proxy:2"),
        ("https://api.example", {"https_proxy": "http://proxy:1", "no_proxy": "api.example"}, None),
        ("https://api.example", {"http_proxy": "http://proxy:1"}, None),
        ("http://127.0.0.1:9931", {"http_proxy": "http://proxy:1"}, None),
        ("https://api.example", {}, None),
    ],
)
def test_proxies_come_from_the_environment(
    url: str, variables: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual variables; this machine is reached without one."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


def test_the_deadline_names_who_was_waited_for() -> None:
    """In the error message."""

    async def story() -> None:
        async with deadline("gemini", 0.01):
            await asyncio.Event().wait()

    with pytest.raises(Unavailable, match=r"gemini: no complete answer within 0\.01 s"):
        asyncio.run(story())


def test_calls_start_in_turns() -> None:
    """A few at a time; a call's turn ends with its request, so that waiting for answers blocks nobody."""

    async def story() -> tuple[int, int]:
        turns, begun, answer = SendLimiter(), 0, asyncio.Event()

        async def call(sent: bool) -> None:
            nonlocal begun
            async with turns.take():
                begun += 1
                if sent and (turn := _turn.get()):
                    await turn.watch("http11.send_request_body.complete", {})
                await answer.wait()

        async with asyncio.TaskGroup() as group:
            for _ in range(3 * AT_ONCE):
                group.create_task(call(sent=False))
            await asyncio.sleep(0)
            stuck = begun
            answer.set()
        begun = 0
        answer.clear()
        async with asyncio.TaskGroup() as group:
            for _ in range(3 * AT_ONCE):
                group.create_task(call(sent=True))
            while begun < 3 * AT_ONCE:
                await asyncio.sleep(0)
            answer.set()
        return stuck, begun

    assert asyncio.run(story()) == (AT_ONCE, 3 * AT_ONCE)


@asynchronous
async def test_a_slow_request_does_not_block_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends by itself."""
    monkeypatch.setattr("tabellion.models.channel.AT_ONCE", 1)
    monkeypatch.setattr("tabellion.models.channel.LONGEST_TURN", 0.01)
    turns = SendLimiter()
    async with turns.take(), turns.take():
        pass
    async with turns.take():
        pass


def test_many_calls_all_end(fake: Serving) -> None:
    """Several hundred at once over one client, and none gets another's answer."""

    async def story() -> list[str]:
        model = OpenAI("key", f"{fake.url}/v1", "gpt-4o-mini@latency=0.2")
        replies = await asyncio.gather(*(model.call([f"number {number}"], None, Ask()) for number in range(300)))
        await model.close()
        return [reply.text for reply in replies]

    assert asyncio.run(story()) == [f"number {number}" for number in range(300)]


def wrapped(inner: Exception) -> Exception:
    """An error as SDKs wrap them."""
    try:
        try:
            raise inner
        except Exception as error:
            raise RuntimeError("connection error canary") from error
    except RuntimeError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (httpx2.ConnectError("refused"), Unavailable, "cannot be reached: refused"),
        (httpx2.ReadTimeout("canary"), Unavailable, "did not answer in time"),
        (TimeoutError("canary"), Unavailable, "did not answer in time"),
        (httpx2.RemoteProtocolError("canary"), Unavailable, "closed the connection"),
        (ConnectionResetError("canary"), Unavailable, "closed the connection"),
        (httpx2.LocalProtocolError("Illegal header value canary"), Rejected, "LocalProtocolError"),
        (ValueError("canary"), Rejected, "could not be sent"),
        (ZeroDivisionError("canary"), Unavailable, "ZeroDivisionError"),
        (wrapped(httpx2.ReadError("canary")), Unavailable, "closed the connection"),
        (wrapped(BadOutput("too much", "too_large")), BadOutput, "too much"),
    ],
    ids=repr,
)
def test_transport_errors_are_reported_plainly(error: Exception, kind: type[Exception], says: str) -> None:
    """As our errors, without what theirs quote."""
    with pytest.raises(kind, match=says) as caught, translate_errors("gemini"):
        raise error
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
