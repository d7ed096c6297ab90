"""Signs deliveries and verifies received ones, according to Standard Webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, MutableSet
from datetime import UTC, datetime
from typing import Any

from tabellion.errors import TabellionError


class BadSignature(TabellionError):  # noqa: N818 - what it is
    """Not from us, changed on its way, too old, or received before."""


def headers(id: str, body: str, secrets: Iterable[str], at: float) -> dict[str, str]:  # noqa: A002 - webhook-id
    """The three headers of one delivery: a signature for each secret, over exactly these bytes and this second."""
    from standardwebhooks import Webhook

    moment = datetime.fromtimestamp(int(at), UTC)
    signed = [Webhook(secret).sign(id, moment, body) for secret in secrets]
    return {"webhook-id": id, "webhook-timestamp": str(int(at)), "webhook-signature": " ".join(signed)}


def verify(
    headers: Mapping[str, str], body: bytes | str, secret: str, *, seen: MutableSet[str] | None = None
) -> dict[str, Any]:
    """The body as JSON if the signature is valid and at most five minutes old, else raises BadSignature.

    `body` is the request body byte for byte; the signature of a body that a framework parsed and wrote again does not
    match. A delivery may arrive twice with the same `webhook-id`: pass a set as `seen`, and the second is rejected.

    >>> event = verify(request.headers, request.body, "whsec_…")
    """
    from standardwebhooks import Webhook

    received = {name.lower(): value for name, value in headers.items()}
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        Webhook(secret).verify(text, received, json_parse=False)
        event = json.loads(text)
        if not isinstance(event, dict):
            raise TypeError("the body is not a JSON object")
    except Exception as error:  # the library's errors, or any that a forged header causes
        raise BadSignature(f"the delivery was rejected: {error}") from None
    if seen is not None:
        if received["webhook-id"] in seen:
            raise BadSignature(f"the delivery {received['webhook-id']} was already received")
        seen.add(received["webhook-id"])
    return event
