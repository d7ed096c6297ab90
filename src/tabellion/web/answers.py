"""Answers of the API, and what all event streams have in common."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tabellion.engine.values import json_text

EVENT_STREAM = "text/event-stream"
HEARTBEAT = 15.0  #: seconds without news after which a comment says that the line is alive
LOOK = 1.0  #: seconds after which a stream notices that the server is going down
STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}}


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON, written once."""
    return Response(json_text(value), status, headers, "application/json")
