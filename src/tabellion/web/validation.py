"""Validation errors as problems: the field, what was expected and the kind of value received, never the value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from tabellion.messages import Message, quote_value
from tabellion.web import limits as bounds
from tabellion.web import strict_json
from tabellion.web.problems import Problem, kind, pointer

Model = TypeVar("Model", bound=BaseModel)
MOST = 10  #: errors listed at once
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")


class Strict(BaseModel):
    """A request body: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _whole(text: Any) -> Any:
    if isinstance(text, str) and not _WHOLE.fullmatch(text):
        raise ValueError("must be a whole number in decimal digits")
    return text


#: A whole number in a query, without blanks, points or underscores, which parsers understand differently.
Whole = Annotated[int, BeforeValidator(_whole)]


def build_problem(errors: Sequence[Any], known: Iterable[str] = ()) -> Problem:
    """The problem of validation errors: the first one at the top level, all of them in a list.

    `known` are the fields that a body may have.
    """
    described = [_describe_error(error) for error in errors[:MOST]]
    first = described[0]
    code, status = first.pop("code"), 422
    more: dict[str, Any] = {"errors": [{**error} for error in described]} if len(described) > 1 else {}
    for listed in more.get("errors", []):
        listed.pop("code", None)
    fix = Message("fix.expected", text=first["expected"])
    if code == "value_unknown":
        known_fields = ", ".join(known) if first["field"].count("/") == 1 else ""
        fix = Message("fix.known_fields", names=known_fields) if known_fields else Message("fix.remove")
    return Problem(
        status, code, first["detail"], field=first["field"], fix=fix,
        expected=first["expected"], got=first.get("got"), **more,
    )  # fmt: skip


def _describe_error(error: Any) -> dict[str, Any]:
    location = list(error["loc"])
    source = location.pop(0) if location and location[0] in ("query", "path", "header", "body") else "body"
    field = pointer(*location) if source == "body" else ".".join(map(str, location))
    message = str(error["msg"]).removeprefix("Value error, ")
    expected = message[0].lower() + message[1:]
    if error["type"] == "missing":
        return {"code": "value_missing", "field": field, "detail": Message("problem.value_missing"),
                "expected": "a value", "got": "nothing"}  # fmt: skip
    if error["type"] == "extra_forbidden":
        return {"code": "value_unknown", "field": field, "detail": Message("problem.no_such_field"),
                "expected": "no such field", "got": kind(error.get("input"))}  # fmt: skip
    return {"code": "value_invalid", "field": field, "detail": Message("problem.value_in", text=source),
            "expected": expected, "got": kind(error.get("input"))}  # fmt: skip


def media_of(request: Request) -> str:
    """The content type of a body, in lower case, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def build_media_problem(media: str, allowed: str) -> Problem:
    """The problem of a body of another type."""
    detail = Message("problem.body_type", value=quote_value(media[:100])) if media else Message("problem.body_untyped")
    return Problem(415, "media_unsupported", detail, fix=Message("fix.send_type", types=allowed))


async def parse_body(
    request: Request, model: type[Model], limits: bounds.RequestLimits, *, empty: bool = False
) -> Model:
    """The body as a model; with `empty`, a missing body is an empty object."""
    media = media_of(request)
    if media and media != "application/json":
        raise build_media_problem(media, "application/json")
    body = await bounds.body(request, limits)
    if not body and empty:
        return model()
    if not media:
        raise build_media_problem(media, "application/json")
    try:
        return model.model_validate(strict_json.loads(body))
    except ValidationError as error:
        raise build_problem(error.errors(include_url=False, include_context=False), model.model_fields) from None
