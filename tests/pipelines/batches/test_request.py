"""URLs of requests: the table of attacks, at every place where a caller can send one, and again where one is used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.net.guard import HostUnreachable, Rules
from tabellion.pipelines.batches.images import download_image
from tabellion.pipelines.batches.request import NewPi, UrlBlocked, UrlChecks
from tests.engine.made_tables import asynchronous
from tests.pipelines.batches.live import PUBLIC, LiveBatches, live_batches
from tests.pipelines.batches.material import (
    LOOPBACK,
    chunk_of,
    picture,
    rows,
    settings_in,
    stage,
    submit,
    submit_new,
    work,
)
from tests.pipelines.batches.urls import BLOCKED, TOO_LONG
from tests.pipelines.documents.receiver import receiving
from tests.web.live import problem

HARMLESS = f"{PUBLIC}/callback"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBatches]:
    """An application that may reach public addresses only."""
    folder = tmp_path_factory.mktemp("batches")
    with live_batches(folder, {"prod": f"sqlite:///{folder}/work.db"}, allow=()) as one:
        yield one


@pytest.mark.parametrize("url", BLOCKED.values(), ids=BLOCKED)
def test_a_url_of_the_table_is_refused_wherever_it_is_sent(web: LiveBatches, url: str) -> None:
    """Callback and image, chunk and batch, JSON and JSONL: 422 that names the field, and no row."""
    good = chunk_of(PUBLIC, HARMLESS)
    image = json.loads(json.dumps(good))
    image["pis"][1]["refs"][2]["cdn_url"] = url
    field = "/pis/1/refs/2/cdn_url"
    batch = {"pis": good["pis"]}
    answers = [
        (web.process(good | {"callback_url": url}), "/callback_url"),
        (web.process(image), field),
        (web.submit(batch | {"callback_url": url}), "/callback_url"),
        (web.submit({"pis": image["pis"]}), field),
    ]
    lines = "\n".join(json.dumps(pi) for pi in image["pis"]).encode()
    answers.append((web.submit_lines(lines), "/refs/2/cdn_url"))
    clean = "\n".join(json.dumps(pi) for pi in good["pis"]).encode()
    answers.append((web.submit_lines(clean, params={"callback_url": url}), "/callback_url"))
    for answer, expected in answers:
        body = problem(answer, 422, "url_blocked")
        assert (body["field"], bool(body["reason"])) == (expected, True)
    assert answers[4][0].json()["line"] == 2
    assert web.count("batch_chunks") == web.count("batches") == 0


def test_a_url_of_2049_characters_is_refused(web: LiveBatches) -> None:
    """In each place; one of 2,048 is accepted."""
    good = chunk_of(PUBLIC, HARMLESS, batch="long")
    image = json.loads(json.dumps(good))
    image["pis"][0]["refs"][0]["cdn_url"] = TOO_LONG
    for answer in (
        web.process(good | {"callback_url": TOO_LONG}), web.process(image), web.submit({"pis": image["pis"]}),
        web.submit({"pis": good["pis"], "callback_url": TOO_LONG}),
        web.submit_lines(json.dumps(image["pis"][0]).encode()),
        web.submit_lines(json.dumps(good["pis"][0]).encode(), params={"callback_url": TOO_LONG}),
    ):  # fmt: skip
        assert answer.status_code == 422, answer.text
        assert answer.json()["field"].rpartition("/")[2] in ("callback_url", "cdn_url")
    assert web.count("batch_chunks") == 0
    image["pis"][0]["refs"][0]["cdn_url"] = TOO_LONG[:2048]
    assert web.process(image).status_code == 202
    web.sql("DELETE FROM batch_chunks")
    web.sql("DELETE FROM batches")


@asynchronous
async def test_addresses_are_checked_however_many_hosts_a_request_has() -> None:
    """Names beyond the bound are not resolved before they are used; an address needs no resolving and is refused."""

    async def resolver(host: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    checks = UrlChecks(Rules(resolver=resolver))
    for number in range(40):
        await checks.check(f"https://host{number}.example/x", "/x")
    for url in ("http://127.0.0.1/x", "http://[::1]/x", "http://93.184.216.34:22/x"):
        with pytest.raises(UrlBlocked):
            await checks.check(url, "/x")


def test_every_address_of_a_name_must_be_public() -> None:
    """One private address among public ones is enough to refuse it."""

    async def resolver(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    pi = {
        "pi": "p", "current_tip": "t",
        "refs": [{"filename": "a.png", "staging_key": "a", "cdn_url": "https://mixed.example/a.png"}],
    }  # fmt: skip
    with pytest.raises(UrlBlocked) as refused:
        asyncio.run(UrlChecks(Rules(resolver=resolver)).check_refs([NewPi.model_validate(pi)]))
    assert refused.value.field == "/pis/0/refs/0/cdn_url"


class Rebinding:
    """A name server that answers with a public address first, and with loopback from then on."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of any name."""
        self.asked += 1
        return ["93.184.216.34"] if self.asked == 1 else ["127.0.0.1"]


def test_a_name_that_moves_to_loopback_is_not_asked_for_its_image(url: str, tmp_path: Path) -> None:
    """Public when it was submitted, loopback when it is used: the ref fails at once, and nothing was requested."""
    with receiving() as inside:
        rules = Rules(resolver=Rebinding(), ports=frozenset({80, 443, int(inside.url.split(":")[2].split("/")[0])}))
        target = inside.url.replace("127.0.0.1", "images.example")
        asyncio.run(UrlChecks(rules).check(target, "/x"))
        settings = replace(settings_in(tmp_path), rules=rules)
        request = chunk_of("http://unused", inside.url, pis=1, refs=1)
        request["pis"][0]["refs"][0]["cdn_url"] = target
        stage(settings, request["pis"])
        submit(url, settings, request)
        work(url, settings, deliver=False)
        [ref] = rows(url, "SELECT status, attempts, error FROM batch_refs")
        assert (ref["status"], ref["attempts"]) == ("error", 1)
        assert "public address" in ref["error"]
        assert inside.got == []


def test_a_callback_whose_name_moves_to_loopback_is_not_sent(url: str, tmp_path: Path) -> None:
    """The delivery fails without a connection."""
    from tabellion.delivery.outbox import webhooks_queue
    from tabellion.pipelines.batches.queues import batch_queues
    from tests.pipelines.batches.material import FAST, serving_images
    from tests.workers import drain, make_worker

    with receiving() as inside, serving_images() as images:
        ports = frozenset({80, 443, int(inside.url.split(":")[2].split("/")[0])})
        rules = Rules(resolver=Rebinding(), ports=ports)
        target = inside.url.replace("127.0.0.1", "orchestrator.example")
        asyncio.run(UrlChecks(rules).check(target, "/x"))
        settings = settings_in(tmp_path)
        submit_new(url, settings, images.url, target, pis=1, refs=1)
        webhooks = webhooks_queue(rules)
        webhooks.waits, webhooks.max_attempts = (0.02,), 2
        drain(make_worker(url, *batch_queues(settings), webhooks, gates=FAST), within=60)
        [delivery] = rows(url, "SELECT status, error FROM tabellion_webhook_deliveries")
        assert delivery["status"] == "failed"
        assert inside.got == []


@pytest.mark.parametrize("place", ["http://10.0.0.1/x", "http://169.254.169.254/x", "file:///etc/passwd"])
def test_a_redirect_of_an_image_is_checked_like_its_url(place: str) -> None:
    """To a private address, a metadata server or another scheme: permanent, and nothing is read."""
    with receiving() as site:
        site.answers((302, {"location": place}, b""))
        with pytest.raises(Permanent):
            asyncio.run(download_image(site.url, LOOPBACK, variant="", limit=10_000))


def test_a_redirect_within_the_allowed_networks_is_followed() -> None:
    """The check of redirects does not refuse all of them."""
    with receiving() as site:
        site.answers((302, {"location": "/there"}, b""), (200, {}, picture()))
        image = asyncio.run(download_image(site.url, LOOPBACK, variant="", limit=1_000_000))
        assert image.type == "image/png"


def test_a_callback_follows_no_redirect(url: str, tmp_path: Path) -> None:
    """Anywhere else would be somewhere that nobody has checked."""
    from tests.pipelines.batches.material import serving_images

    with receiving() as outside, receiving() as inside, serving_images() as images:
        outside.answers((307, {"location": inside.url}, b""))
        settings = settings_in(tmp_path)
        submit_new(url, settings, images.url, outside.url, pis=1, refs=1)
        work(url, settings)
        assert len(outside.got) == 3
        assert inside.got == []


def test_a_host_without_an_address_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of many refs does not wait for a name server at each of them."""
    asked = []

    async def unreachable(url: str, _: Rules) -> None:
        asked.append(url)
        raise HostUnreachable("cdn.invalid", Message("net.no_such_host"))

    monkeypatch.setattr("tabellion.pipelines.batches.request.vet_url", unreachable)
    pis = [NewPi.model_validate(one) for one in chunk_of("https://cdn.invalid", HARMLESS, pis=5)["pis"]]
    asyncio.run(UrlChecks(Rules()).check_refs(pis))
    assert len(asked) == 1
