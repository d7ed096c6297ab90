"""Traces of requests: what a request did to a row is a span of that row's trace."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.types import Scope

from tabellion.monitor.tracing.subject import Subject
from tabellion.monitor.tracing.traces import current_traces

STATE = "traced"  #: the key of the request's state


def trace_row(request: Request, table: str, key: str, *, created: bool = False) -> None:
    """Makes the request a span of this row's trace: its first one, if the request created the row."""
    if current_traces() is not None:
        subject = Subject(request.state.environment.name, table, key)
        request.scope["state"].setdefault(STATE, {})[subject] = created


def record_request(scope: Scope, status: int, seconds: float) -> None:
    """Records the spans of a request that has been answered; one that concerned no row has none."""
    traced: dict[Subject, bool] = scope.get("state", {}).get(STATE, {})
    traces = current_traces()
    if traces is None or not traced:
        return
    ended_at = time.time()
    method, path = scope["method"], getattr(scope.get("route"), "path", "")
    facts: dict[str, Any] = {
        "http.request.method": method, "http.route": path, "http.response.status_code": status,
        "tabellion.request_id": scope["state"].get("request_id", ""),
    }  # fmt: skip
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    sent = {name: value for name, value in headers.items() if name in ("traceparent", "tracestate")}
    for subject, created in traced.items():
        traces.record(
            subject, f"{method} {path}", ended_at - seconds, ended_at, kind="server", attributes=facts, links=sent,
            parent=None if created else subject.root_id, id=subject.root_id if created else None,
            is_error=status >= 500,
        )  # fmt: skip
