"""Problems (RFC 9457): what went wrong with a request, with a stable code, the field, and what to do."""

from __future__ import annotations

import http
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from tabellion import messages
from tabellion.engine.values import json_text
from tabellion.messages import Message, translatable
from tabellion.web import shapes

MEDIA = "application/problem+json"
TITLES = {
    413: "Content Too Large",
    422: "Unprocessable Content",
}  #: from RFC 9110; older Python versions have older ones
#: The codes of every installation; blueprints add theirs. The meaning of each is `problem.<code>` in a catalogue. They
#: are stable: people script against them.
CODES = (
    "auth_missing", "auth_invalid", "session_ended", "csrf_failed", "https_needed", "sign_in_failed",
    "too_many_tries", "session_needed", "password_wrong", "password_weak", "name_taken", "last_admin",
    "user_disabled", "link_invalid", "role_required", "not_found", "method_not_allowed", "not_acceptable",
    "request_timeout", "request_invalid", "headers_too_large", "too_many_connections", "request_incomplete",
    "too_large", "too_many_parts", "media_unsupported", "json_invalid", "json_too_deep", "text_nul",
    "form_invalid", "value_invalid", "value_missing", "value_unknown", "value_repeated", "cursor_invalid",
    "empty_file", "type_unsupported", "type_mismatch", "url_blocked", "url_failed", "idempotency_mismatch",
    "idempotency_pending", "document_unreadable", "page_missing", "file_gone", "range_unsatisfiable",
    "too_many_requests", "too_many_streams", "queue_unusable", "database_unreachable",
    "storage_unreachable", "no_space",
    "server_stopping", "unexpected",
)  # fmt: skip

#: JSON's kinds of values; a boolean is an integer in Python.
_KINDS = (
    (bool, "got.boolean"), (int, "got.integer"), (float, "got.number"), (list, "got.list"), (dict, "got.object"),
)  # fmt: skip


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """Raised to end a request with this problem."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        *,
        field: str | None = None,
        fix: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        if not messages.is_known(f"problem.{code}"):
            raise ValueError(f"{code!r} is not a problem code: no catalogue has problem.{code}")
        self.status = status
        self.code = code
        self.detail = detail or Message(f"problem.{code}")
        self.field = field
        self.fix = fix
        self.headers = dict(headers or {})
        self.more = more
        super().__init__(f"{status} {code}: {self.detail}")

    def as_dict(self, request_id: str) -> dict[str, Any]:
        """The problem as JSON."""
        required: shapes.ProblemResponse = {
            "type": f"/docs#{self.code}", "title": TITLES.get(self.status) or http.HTTPStatus(self.status).phrase,
            "status": self.status, "code": self.code, "detail": self.detail,
            "request_id": request_id,
        }  # fmt: skip
        texts = {
            "detail": self.detail,
            "fix": self.fix,
            "expected": self.more.get("expected"),
            "got": self.more.get("got"),
        }
        optional = {"field": self.field, "fix": self.fix, **translatable(**texts), **self.more}
        return {**required, **{name: value for name, value in optional.items() if value is not None}}

    def response(self, request_id: str) -> Response:
        """The HTTP response."""
        return Response(json_text(self.as_dict(request_id)), self.status, self.headers, MEDIA)


def kind(value: Any) -> str:
    """The kind of a received value, without the value itself: it may be a secret, or ten megabytes."""
    if value is None:
        return Message("got.null")
    if isinstance(value, str):
        return Message("got.text", n=len(value)) if value else Message("got.empty")
    for types, code in _KINDS:
        if isinstance(value, types):
            return Message(code)
    return type(value).__name__


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901) to a place in a body."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
