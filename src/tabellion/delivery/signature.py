"""Signs what is delivered and checks what was received, as Standard Webhooks writes it."""

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
    """What a receiver does first: the body as JSON if it is ours and at most five minutes old, else BadSignature.

    `body` is what came over the wire, byte for byte; a framework that parsed and wrote it again has broken the
    signature. A delivery may come twice, with the same `webhook-id`: give a set as `seen` and the second is refused.

    >>> event = verify(request.headers, request.body, "whsec_…")
    """
    from standardwebhooks import Webhook

    given = {name.lower(): value for name, value in headers.items()}
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        Webhook(secret).verify(text, given, json_parse=False)
        told = json.loads(text)
    except Exception as error:  # of the library's own, or what a forged header made of it
        raise BadSignature(f"the delivery was rejected: {error}") from None
    if seen is not None:
        if given["webhook-id"] in seen:
            raise BadSignature(f"the delivery {given['webhook-id']} was already received")
        seen.add(given["webhook-id"])
    return dict(told)
