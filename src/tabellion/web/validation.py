"""Validation errors as problems: the field, what was expected and the kind of value received, never the value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
_QUOTED = re.compile("'([^']*)'")
#: What was expected instead, by the type of pydantic's error: a code, and what in the error's context is its parameter.
_EXPECTED: Mapping[str, tuple[str, str | None]] = {
    "string_type": ("expected.text", None),
    "string_too_short": ("expected.min_length", "min_length"),
    "string_too_long": ("expected.max_length", "max_length"),
    "string_pattern_mismatch": ("expected.pattern", "pattern"),
    "bool_type": ("expected.boolean", None),
    "bool_parsing": ("expected.boolean", None),
    "int_type": ("expected.integer", None),
    "int_parsing": ("expected.integer", None),
    "int_parsing_size": ("expected.integer", None),
    "int_from_float": ("expected.integer", None),
    "float_type": ("expected.number", None),
    "float_parsing": ("expected.number", None),
    "finite_number": ("expected.number", None),
    "greater_than": ("expected.more_than", "gt"),
    "greater_than_equal": ("expected.at_least", "ge"),
    "less_than": ("expected.less_than", "lt"),
    "less_than_equal": ("expected.at_most", "le"),
    "list_type": ("expected.list", None),
    "too_short": ("expected.min_items", "min_length"),
    "too_long": ("expected.max_items", "max_length"),
    "dict_type": ("expected.object", None),
    "model_type": ("expected.object", None),
    "model_attributes_type": ("expected.object", None),
    "datetime_type": ("expected.moment", None),
    "datetime_parsing": ("expected.moment", None),
    "datetime_object_invalid": ("expected.moment", None),
    "datetime_from_date_parsing": ("expected.moment", None),
    "missing": ("expected.value", None),
    "extra_forbidden": ("expected.no_field", None),
}


class Strict(BaseModel):
    """A request body: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _whole(text: Any) -> Any:
    if isinstance(text, str) and not _WHOLE.fullmatch(text):
        raise ValueError(Message("expected.digits"))
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
    described = {"field": field, "expected": _expectation(error), "got": kind(error.get("input"))}
    if error["type"] == "missing":
        return described | {
            "code": "value_missing",
            "detail": Message("problem.value_missing"),
            "got": Message("got.nothing"),
        }
    if error["type"] == "extra_forbidden":
        return described | {"code": "value_unknown", "detail": Message("problem.no_such_field")}
    part = Message(f"request_part.{source}")
    return described | {"code": "value_invalid", "detail": Message("problem.value_in", text=part)}


def _expectation(error: Any) -> str:
    """What was expected instead: a validator says it with its ValueError, else the type of the error does."""
    context = error.get("ctx") or {}
    reasons = getattr(context.get("error"), "args", ())
    if reasons and isinstance(reasons[0], str):
        return reasons[0]
    if error["type"] in ("literal_error", "enum"):
        return Message("expected.one_of", names=[quote_value(one) for one in _QUOTED.findall(context["expected"])])
    code, name = _EXPECTED.get(error["type"], ("expected.valid", None))
    if name is None:
        return Message(code)
    return Message(code, **{"pattern" if name == "pattern" else "n": context[name]})


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
        raise build_problem(error.errors(include_url=False), model.model_fields) from None
