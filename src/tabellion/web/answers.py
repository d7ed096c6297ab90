"""JSON answers, and constants of all event streams."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tabellion.engine.values import json_text

EVENT_STREAM = "text/event-stream"
HEARTBEAT = 15.0  #: seconds without an event after which a comment keeps the connection alive
LOOK = 1.0  #: seconds after which a stream checks whether the server is stopping
STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}}


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(json_text(value), status, headers, "application/json")
