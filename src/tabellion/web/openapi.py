"""The OpenAPI document: every response of every route, including problems."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, TypeAdapter

from tabellion.accounts.roles import Role
from tabellion.errors import ConfigurationError
from tabellion.messages import Message
from tabellion.web import problems, shapes
from tabellion.web.blueprint import Blueprint, Route
from tabellion.web.policy import Authentication
from tabellion.web.routing import JSON, Guarded

if TYPE_CHECKING:
    from fastapi import FastAPI

REFERENCE = "#/components/schemas/{model}"
PROBLEM = {problems.MEDIA: {"schema": {"$ref": "#/components/schemas/ProblemResponse"}}}
SAID = {
    400: "The body or form cannot be parsed.",
    401: "The API key is missing or not valid.",
    403: "The role is not sufficient.",
    404: "Not found.",
    405: "Method not allowed.",
    406: "Not available in an accepted content type.",
    408: "The request was not received in time.",
    409: "Conflict with the current state.",
    413: "Too large.",
    415: "Unsupported content type.",
    416: "The range is outside the file.",
    422: "A value is not valid.",
    428: "The header If-Match is required.",
    429: "Too many requests.",
    431: "The headers are too large.",
    500: "Unexpected error.",
    503: "The database cannot be reached.",
    507: "The disk is full.",
}
ALWAYS = (405, 406, 422, 431, 500, 503, 507)
WITH_KEY = (401, 403, 429)
WITH_BODY = (400, 408, 413, 415)
#: The properties of routes that a blueprint lists.
MARKS = ("repeatable", "versioned", "clashing", "resumable")
CHANGING = ("/api/users", "/api/me", "/api/queues")
IF_MATCH = {
    "name": "If-Match", "in": "header", "required": True, "schema": {"type": "string", "pattern": '^"[0-9]{1,9}"$'},
    "description": "The ETag of the item that you last read.",
}  # fmt: skip
SCHEME = {"key": {"type": "http", "scheme": "bearer", "description": "An API key from `tabellion keys create`."}}
ID = {"type": "string", "pattern": "^[0-9a-z_]{1,64}$"}
IDEMPOTENCY = {
    "name": "Idempotency-Key", "in": "header", "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": "The same key with the same body returns the first response again, for one day.",
}  # fmt: skip
LAST_EVENT = {
    "name": "Last-Event-ID", "in": "header", "required": False,
    "schema": {"type": "string", "pattern": "^[0-9]{1,12}([.][0-9]{1,9})?$"},
    "description": "Continues after this event.",
}  # fmt: skip


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """A model's schema; its parts are references to components."""
    schema = model.model_json_schema(ref_template=REFERENCE, by_alias=True)
    schema.pop("$defs", None)
    return schema


def body_of(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The description of a JSON body."""
    return {"requestBody": {"required": required, "content": {JSON: {"schema": schema_of(model)}}}}


def document_of(app: FastAPI) -> dict[str, Any]:
    """The document, built once."""
    if app.openapi_schema:
        return app.openapi_schema
    from fastapi.openapi.utils import get_openapi

    document = get_openapi(title="tabellion", version=app.version, description=app.description, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    blueprints: list[Blueprint] = app.state.blueprints
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    answers: dict[Route, Any] = {
        (method, route.path): route.answer_type
        for route in app.routes
        if isinstance(route, Guarded) and route.answer_type is not None
        for method in route.methods or ()
    }
    additions = [(name, added) for part in blueprints for name, added in part.additions.items()]
    schemas |= _schemas(
        [shapes.ProblemResponse, *answers.values(), *(added for _, added in additions)],
        [shape for part in blueprints for shape in part.shapes],
    )
    for name, added in additions:
        schemas[name]["properties"] |= schemas.pop(added.__name__)["properties"]
    document["components"]["securitySchemes"] = SCHEME
    codes = (*problems.CODES, *(code for part in blueprints for code in part.problems))
    document["x-problem-codes"] = {code: Message(f"problem.{code}") for code in codes}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            route = (method.upper(), path)
            marks = {mark for mark in MARKS if any(route in getattr(part, mark) for part in blueprints)}
            if route in answers:
                response = next(found for status, found in operation["responses"].items() if status[0] == "2")
                response["content"] = {JSON: {"schema": {"$ref": REFERENCE.format(model=answers[route].__name__)}}}
            _complete(route, operation, app.state.policy[route], marks)
    app.openapi_schema = document
    return document


def _schemas(answers: Iterable[Any], bodies: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """The schemas of all types by name, including nested ones; raises if two of them share a name.

    Their schemas would have the names of modules, which no reference uses.
    """
    answer_modes: dict[Any, Literal["serialization", "validation"]] = dict.fromkeys(answers, "serialization")
    body_modes: dict[Any, Literal["serialization", "validation"]] = dict.fromkeys(bodies, "validation")
    types = [(kind.__name__, mode, TypeAdapter(kind)) for kind, mode in (answer_modes | body_modes).items()]
    _, combined = TypeAdapter.json_schemas(types, ref_template=REFERENCE)
    schemas: dict[str, Any] = dict(combined["$defs"])
    kinds = [kind for kind in (*answer_modes, *body_modes) if kind.__name__ not in schemas]
    shared = {f"{kind.__module__}.{kind.__name__}" for kind in kinds}
    shared |= {name.replace("__", ".") for name in schemas if _is_qualified(name)}
    if shared:
        raise ConfigurationError(f"types of the API share a name ({', '.join(sorted(shared))}): rename one of each")
    return schemas


def _is_qualified(name: str) -> bool:
    """Whether the name of a schema has the module of its type, as pydantic names types that share a name."""
    return re.search(r"\w__[A-Z]", name) is not None


def _complete(route: Route, operation: dict[str, Any], role: Role | Authentication | None, marks: set[str]) -> None:
    method, path = route
    statuses = {*ALWAYS}
    if role is not None:
        statuses |= {*WITH_KEY}
        is_role = isinstance(role, Role)
        operation["security"] = [{"key": []}] if is_role else [{"key": []}, {}]  # others do not need a key
        operation["x-role" if is_role else "x-callers"] = role.word
        who = f"{'Role' if is_role else 'Callers'}: {role.word}."
        operation["description"] = f"{operation.get('description', '')}\n\n{who}".strip()
    if "requestBody" in operation:
        statuses |= {*WITH_BODY}
    if "{" in path:
        statuses.add(404)
    if marks & {"clashing", "repeatable"} or (method != "GET" and path.startswith(CHANGING)):
        statuses.add(409)
    if "versioned" in marks:
        statuses.add(428)
    if path.endswith("/events"):
        statuses.add(429)
    _parameters(operation, marks)
    responses: dict[str, Any] = operation["responses"]
    for status in sorted(statuses):
        if status == 422 or "content" not in responses.get(str(status), {}):
            responses[str(status)] = {"description": SAID[status], "content": PROBLEM}
    for number, response in responses.items():
        if number[0] in "45" and "content" not in response:
            response["content"] = PROBLEM
        response.setdefault("headers", {})["X-Request-Id"] = {"schema": {"type": "string"}}
    operation["responses"] = dict(sorted(responses.items()))


def _parameters(operation: dict[str, Any], marks: set[str]) -> None:
    parameters = operation.get("parameters", [])
    for parameter in parameters:
        if parameter["in"] == "path" and parameter["name"] == "id":
            parameter["schema"] = dict(ID)
    if "repeatable" in marks:
        parameters = [*parameters, copy.deepcopy(IDEMPOTENCY)]
    if "versioned" in marks:
        parameters = [*parameters, copy.deepcopy(IF_MATCH)]
    if "resumable" in marks:
        parameters = [*parameters, copy.deepcopy(LAST_EVENT)]
    if parameters:
        operation["parameters"] = parameters
