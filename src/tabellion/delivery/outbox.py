"""The webhook outbox: deliveries written in the job's transaction, then signed and sent by a queue of their own."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast
from weakref import WeakKeyDictionary

from tabellion.delivery import deliveries, endpoints, signature
from tabellion.delivery.deliveries import DeliveryRow
from tabellion.delivery.endpoints import EVERYTHING, CurrentEndpoint, Endpoint
from tabellion.engine import controls
from tabellion.engine.job import Job, storable
from tabellion.engine.log import printable
from tabellion.engine.queue import Queue
from tabellion.engine.values import json_text
from tabellion.errors import Permanent, RateLimited, TabellionError
from tabellion.messages import Message
from tabellion.net.guard import Blocked, HostUnreachable, Rules
from tabellion.net.retry_after import parse_retry_after

if TYPE_CHECKING:
    import httpx2

#: Seconds before each retry, as Standard Webhooks recommends: enough for a restart, and for a weekend (75 hours).
WAITS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
ANSWER_SECONDS = 15.0  #: for connecting, sending and the whole answer together
KEPT = 500  #: bytes of a receiver's answer that are stored
AT_ONCE = 20  #: deliveries in one worker: receivers that hang must not take the slots of other jobs
QUEUE = "webhooks"  #: the name of the queue of deliveries
logger = logging.getLogger("tabellion.webhooks")
LARGEST = 65_536  #: characters of a body; a larger one has the short form of its data
PATIENCE = 7 * 86_400.0  #: seconds that "retry after" may postpone a delivery in total
GONE, TOO_MANY, UNAVAILABLE = 410, 429, 503


class DeliveryResult(TypedDict, total=False):
    """The columns of a delivery that its handler sets."""

    response_status: int
    response: str
    status: Literal["failed"]
    error: str


class Undelivered(TabellionError):  # noqa: N818 - what it is
    """The receiver did not take it."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A receiver's response, truncated."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)  #: names in lower case
    body: bytes = b""

    @property
    def text(self) -> str:
        """The beginning of the body as text."""
        return storable(self.body[:KEPT].decode("utf-8", "replace"))


def outbox(
    event: str, subject: str, data: Mapping[str, Any], *, short: Mapping[str, Any] | None = None,
    endpoint: str | None = None,
) -> tuple[str, dict[str, Any]]:  # fmt: skip
    """One statement that writes a delivery for every endpoint subscribed to this event, and for the named `endpoint`.

    It commits together with the result of the job: `statement, values = outbox(…); job.also(statement, **values)`.
    `subject` is the id of what the event is about. The body is fixed here: every attempt sends the same bytes under the
    same id. If it would be too large it has `short` instead of `data`, by default only the id.
    """
    text = body(event, data, {"id": subject} if short is None else short)
    subscribed = "e.disabled_at IS NULL AND (e.events LIKE :wanted OR e.events LIKE :everything OR e.id = :named)"
    values = {"wanted": f'%"{event}"%', "everything": f'%"{EVERYTHING}"%', "named": endpoint or ""}
    return deliveries.insert_for_endpoints(f"msg_{uuid.uuid4().hex}", event, subject, text, subscribed, values)


def direct(id: str, endpoint: str, event: str, subject: str, text: str) -> tuple[str, dict[str, Any]]:  # noqa: A002
    """One statement that writes a delivery of exactly this body to one endpoint; an id that exists is left alone.

    A disabled endpoint gets it too: it fails when its turn comes, and can be sent again later.
    """
    return deliveries.insert(id, endpoint, event, subject, storable(text))


def resend(id: str) -> list[tuple[str, dict[str, Any]]]:  # noqa: A002
    """The statements that send a delivery again because its receiver asks for it: now, with all of its attempts.

    One that is being sent at this moment is left alone.
    """
    return [deliveries.restart(id), controls.end_wait(QUEUE, id)]


def body(event: str, data: Mapping[str, Any], short: Mapping[str, Any]) -> str:
    """The body that is sent: event, time and data, or the short form of data that would be too large."""
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    text = storable(json_text({"type": event, "timestamp": at, "data": dict(data)}))
    if len(text) <= LARGEST:
        return text
    return storable(json_text({"type": event, "timestamp": at, "data": {**short, "shortened": True}}))


def webhooks_queue(rules: Rules | None = None) -> Queue:
    """The deliveries as a queue. After the last attempt a delivery is failed: `tabellion retry webhooks --all`."""
    queue = Queue(
        "tabellion_webhook_deliveries",
        name=QUEUE, ready="pending", running="sending", done="delivered", failed="failed",
        worker="worker", error="error", attempts="attempts", finished_at="finished_at", lease=60.0,
        timeout=ANSWER_SECONDS * 3, waits=WAITS, max_attempts=len(WAITS) + 1, deadline=PATIENCE, concurrency=AT_ONCE,
    )  # fmt: skip
    sender = WebhookSender(rules)

    @queue.handler
    async def deliver(job: Job) -> DeliveryResult:
        delivery = cast("DeliveryRow", job.values)
        endpoint = await _endpoint(job, delivery)
        text = delivery["body"]
        signed = signature.headers(job.text_key, text, endpoint.secrets, time.time())
        return _evaluate_response(job, endpoint, await sender.post(job, endpoint.url, signed, text.encode("utf-8")))

    return queue


class WebhookSender:
    """Sends to addresses that the guard allows, follows no redirects, and reads only what it stores of a response."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()

    async def post(self, job: Job, url: str, signed: Mapping[str, str], content: bytes) -> WebhookResponse:
        """Sends one delivery; errors do not reveal what listens at the address."""
        import httpx2

        headers = {"content-type": "application/json", "user-agent": "tabellion-webhooks", **signed}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                async with self._client(job).stream("POST", url, headers=headers, content=content) as response:
                    return WebhookResponse(response.status_code, dict(response.headers), await _beginning(response))
        except TimeoutError:
            raise Undelivered(Message("delivery.too_slow", n=ANSWER_SECONDS)) from None
        except Blocked as error:
            raise Undelivered(Message("delivery.url_blocked", detail=error.reason)) from None
        except HostUnreachable as error:
            raise Undelivered(Message("delivery.unreachable", error=error.reason)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise Undelivered(Message("delivery.unreachable", error=type(error).__name__)) from None

    def _client(self, job: Job) -> httpx2.AsyncClient:
        from tabellion.net import fetching

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = fetching.client(self._rules, timeout=ANSWER_SECONDS)
        if job.context is not None:
            job.context.users.add(self)
        return self._clients[loop]

    async def close(self) -> None:
        """Closes this loop's connections."""
        http = self._clients.pop(asyncio.get_running_loop(), None)
        if http is not None:
            await http.aclose()


async def _beginning(response: httpx2.Response) -> bytes:
    """The part of a response that is stored; the rest is not read."""
    data = b""
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) >= KEPT:
            break
    return data[:KEPT]


async def _endpoint(job: Job, delivery: DeliveryRow) -> Endpoint:
    """The endpoint's current state: a corrected URL or a replaced secret applies to pending deliveries too."""
    assert job.context is not None  # noqa: S101 - every worker gives its jobs one
    rows: list[CurrentEndpoint] = await job.context.fetch(
        endpoints.lookup(job.context.dialect), delivery["endpoint_id"]
    )
    if not rows:
        raise Permanent(Message("delivery.endpoint_removed"))
    endpoint = endpoints.of_row(rows[0])
    if endpoint.disabled_why is not None:
        raise Permanent(Message("delivery.endpoint_disabled", id=endpoint.id, reason=endpoint.disabled_why))
    return endpoint


def _evaluate_response(job: Job, endpoint: Endpoint, answer: WebhookResponse) -> DeliveryResult:
    """The result of a delivery that was accepted, or whose endpoint is gone and is now disabled; else raises."""
    result: DeliveryResult = {"response_status": answer.status, "response": answer.text}
    if 200 <= answer.status < 300:
        return result
    # The error does not contain the URL, which often contains a secret of the receiver, nor the response, which may be
    # meant for administrators: everyone who may look at queues sees this error.
    error = Message("delivery.answered", status=str(answer.status))
    logger.info("webhook endpoint %s answered %s: %s", endpoint.id, answer.status, printable(answer.text))
    if answer.status == GONE:
        assert job.context is not None  # noqa: S101
        text, values = endpoints.disable_once(endpoint.id, "the receiver returned HTTP 410", job.context.dialect)
        job.also(text, **values)
        return {**result, "status": "failed", "error": Message("delivery.gone", detail=error)}
    after = parse_retry_after(answer.headers.get("retry-after", ""), time.time())
    if answer.status in (TOO_MANY, UNAVAILABLE) and after is not None:
        raise RateLimited(after, Message("delivery.asked_to_wait", detail=error, n=after))
    if 300 <= answer.status < 400:
        raise Undelivered(Message("delivery.redirected", detail=error))
    raise Undelivered(error)
