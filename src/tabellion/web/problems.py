"""What went wrong with a request, as RFC 9457 says it: one shape, stable codes, the field, and what to do."""

from __future__ import annotations

import http
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from tabellion.engine.values import json_text

MEDIA = "application/problem+json"
TITLES = {
    413: "Content Too Large",
    422: "Unprocessable Content",
}  #: as RFC 9110 has them; older Pythons have older ones
#: Every code and what it means; codes are stable, people script against them.
CODES: dict[str, str] = {
    "auth_missing": "the request names no API key and comes with no session",
    "auth_invalid": "the API key is unknown, revoked, expired or of another environment",
    "session_ended": "the session has ended or was signed out",
    "csrf_failed": "the request was not sent by a page of this application",
    "https_needed": "passwords and links are not taken over plain http from elsewhere",
    "sign_in_failed": "the name or the password is wrong",
    "too_many_tries": "too many tries to sign in; the next one must wait",
    "session_needed": "only people who are signed in have this, keys do not",
    "password_wrong": "this is not the password there is",
    "password_weak": "the password is too easy to guess",
    "name_taken": "there is a user of this name already",
    "last_admin": "nobody else could let people in",
    "user_disabled": "the user may not sign in",
    "link_invalid": "the sign-in link was used, has expired, or never was one",
    "role_required": "the role of the API key or the user is too low",
    "not_found": "there is nothing of that name here",
    "method_not_allowed": "this address does not take this method",
    "not_acceptable": "the answer exists only in another form than those accepted",
    "request_timeout": "the request stopped arriving",
    "request_invalid": "this is no HTTP request that can be understood",
    "headers_too_large": "the headers and the address of the request are larger than allowed",
    "too_many_connections": "too many clients are connected",
    "request_incomplete": "the connection ended before the body did",
    "too_large": "the body, a file or a field is larger than allowed",
    "too_many_parts": "the form has more parts or files than allowed",
    "media_unsupported": "a body of this content type is not read here",
    "json_invalid": "the body is no JSON as RFC 8259 has it, or says a key twice",
    "json_too_deep": "lists and objects are nested too deep",
    "text_nul": "a text has a NUL character, which no database keeps",
    "form_invalid": "the form cannot be taken apart",
    "value_invalid": "a value does not fit what is expected there",
    "value_missing": "a value that is needed is not there",
    "value_unknown": "a field or parameter that does not exist",
    "value_repeated": "a value that may be given once is given twice",
    "cursor_invalid": "the cursor is not one of ours, or belongs to another question",
    "empty_file": "the file has no bytes",
    "type_unsupported": "the file is of a kind that is not read",
    "type_mismatch": "the file is something else than its name or content type says",
    "type_broken": "the document type cannot be used: its file has a mistake",
    "url_blocked": "the URL leads where documents are not fetched from",
    "url_failed": "the URL gave no document",
    "idempotency_mismatch": "the Idempotency-Key was used for another request",
    "idempotency_pending": "the first request with this Idempotency-Key is still being worked on",
    "duplicate_rejected": "the same file is there already and its type says to refuse it",
    "document_running": "the document is being processed",
    "document_unreadable": "the page cannot be drawn",
    "page_missing": "the document has no such page",
    "item_held": "somebody else has claimed the review item",
    "item_assigned": "the review item is assigned to somebody else",
    "item_escalated": "the review item waits for an operator",
    "item_closed": "the review item is finished",
    "item_open": "the review item is not finished",
    "queue_paused": "the review queue is paused",
    "too_many_held": "one person holds as many review items as one can",
    "not_held": "the review item must be claimed first, and this claim is not there, or over",
    "version_missing": "the request does not say which version of the review item it was made on",
    "version_conflict": "the review item was changed meanwhile",
    "fields_unseen": "nobody has looked at fields that the reading is not sure of",
    "type_missing": "the document has no type, and so no fields",
    "review_gated": "the review item cannot be approved as it is",
    "file_gone": "the document's file is not kept any more",
    "range_unsatisfiable": "the file has no such bytes",
    "too_many_requests": "one key or person asks more often than it may",
    "too_many_streams": "too many event streams are open",
    "queue_unusable": "the table of a queue is not as the queue is declared",
    "database_unreachable": "the database does not answer",
    "no_space": "the disk is full, or refuses to be written to",
    "server_stopping": "the server is going down",
    "unexpected": "something went wrong here that should not",
}  # fmt: skip


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """Ends a request with this answer."""

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
        if code not in CODES:
            raise ValueError(f"{code!r} is no code of a problem")
        self.status = status
        self.code = code
        self.detail = detail or CODES[code]
        self.field = field
        self.fix = fix
        self.headers = dict(headers or {})
        self.more = more
        super().__init__(f"{status} {code}: {self.detail}")

    def told(self, request_id: str) -> dict[str, Any]:
        """As JSON tells it."""
        told = {
            "type": f"/docs#{self.code}", "title": TITLES.get(self.status) or http.HTTPStatus(self.status).phrase,
            "status": self.status, "code": self.code, "detail": self.detail,
        }  # fmt: skip
        named = {"field": self.field, "fix": self.fix, **self.more}
        return told | {name: value for name, value in named.items() if value is not None} | {"request_id": request_id}

    def response(self, request_id: str) -> Response:
        """The answer."""
        return Response(json_text(self.told(request_id)), self.status, self.headers, MEDIA)


def kind(value: Any) -> str:
    """What kind of value was got, without the value: it may be a secret, or ten megabytes."""
    if value is None:
        return "null"
    for types, name in ((bool, "a boolean"), (int, "an integer"), (float, "a number"), (list, "a list")):
        if isinstance(value, types):
            return name
    if isinstance(value, str):
        return f"a text of {len(value):,} characters" if value else "an empty text"
    return "an object" if isinstance(value, dict) else type(value).__name__


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901) to a place in a body."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
