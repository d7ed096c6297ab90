"""Review over HTTP: the caller, the version of a change, and errors as problems."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel

from tabellion.accounts.keys import Holder
from tabellion.accounts.roles import Role
from tabellion.engine.ids import is_id
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.messages import Message, translatable
from tabellion.monitor.tracing.traces import current_traces
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review import errors, items
from tabellion.pipelines.documents.review.fields import Types
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.served import ServedDocuments, served_documents
from tabellion.pipelines.documents.states import TABLE
from tabellion.web.problems import Problem, pointer
from tabellion.web.request_traces import trace_row
from tabellion.web.validation import parse_body

Body = TypeVar("Body", bound=BaseModel)
TAKEOVER = '{"takeover": true}'
_VERSION = re.compile(r'(?:W/)?"([0-9]{1,9})"')


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """The caller and their environment."""

    served: ServedDocuments
    person: Person

    @property
    def store(self) -> Store:
        """The environment's database."""
        return self.served.store

    @property
    def types(self) -> Types:
        """The environment's document types."""
        return self.served.settings.types.get


async def review_context(request: Request) -> ReviewContext:
    """The caller's context; makes sure that the tables exist."""
    served = served_documents(request)
    await tables.SCHEMA.prepare(served.store)
    holder: Holder = request.state.holder
    return ReviewContext(served, Person(holder.actor, int(holder.role)))


async def item_context(request: Request, id: str) -> ReviewContext:  # noqa: A002
    """The caller's context, if the item exists: checked before the body is read."""
    context = await review_context(request)
    with translate_errors():
        if not is_id(id):
            raise errors.NoSuchItem
        item = await items.row(context.store, id)
    if request.method != "GET":
        trace_row(request, TABLE, item["document_id"])
    return context


@asynccontextmanager
async def item_change(
    request: Request, id: str, model: type[Body], *, empty: bool = False  # noqa: A002
) -> AsyncIterator[tuple[ReviewContext, Body]]:  # fmt: skip
    """The caller's context of an existing item and the body, for a block whose errors of review become problems."""
    context = await item_context(request, id)
    body = await parse_body(request, model, request.app.state.limits, empty=empty)
    with translate_errors():
        yield context, body


async def trace_claim(request: Request, context: ReviewContext, id: str) -> None:  # noqa: A002
    """Makes the request a part of the trace of an item's document, if the process sends traces."""
    if current_traces() is not None:
        trace_row(request, TABLE, (await items.row(context.store, id))["document_id"])


def tag(version: int) -> dict[str, str]:
    """The header with the version of a response."""
    return {"ETag": f'"{version}"'}


def version_of(request: Request) -> int:
    """The version that a change is based on."""
    header = request.headers.get("if-match")
    if header is None:
        raise Problem(428, "version_missing", field="If-Match", fix=Message("item.fix_if_match"))
    match = _VERSION.fullmatch(header.strip())
    if match is None:
        raise Problem(422, "value_invalid", Message("item.if_match_invalid"), field="If-Match",
                      expected=Message("item.expected_etag"), fix=Message("item.fix_etag"))  # fmt: skip
    return int(match[1])


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translates errors of review into problems."""
    try:
        yield
    except errors.NoSuchItem:
        raise Problem(404, "not_found", Message("item.not_found"), field="id") from None
    except errors.ReviewError as error:
        raise _problem(error) from error


def _problem(error: errors.ReviewError) -> Exception:
    if isinstance(error, errors.ReprocessingUnderway):
        return Problem(409, "document_running", fix=Message("documents_api.fix_wait"))
    if isinstance(error, errors.TypeBroken):
        return Problem(409, "type_broken", str(error), file=error.file, line=error.line,
                       fix=Message("item.fix_type_file"))  # fmt: skip
    if isinstance(error, errors.ItemChanged):
        current = {"version": error.version, "fields": error.fields}
        return Problem(409, "version_conflict", str(error), current=current, headers=tag(error.version),
                       fix=Message("item.fix_version"))  # fmt: skip
    if isinstance(error, errors.NotApprovable):
        return Problem(422, "review_gated", str(error), missing=error.missing, failing=error.failing,
                       fix=Message("item.fix_missing"))  # fmt: skip
    if isinstance(error, errors.NoDocumentType):
        return Problem(422, "type_missing", fix=Message("item.fix_type"))
    if isinstance(error, errors.FieldsUnreviewed):
        return Problem(409, "fields_unseen", str(error), fields=error.fields,
                       fix=Message("item.fix_unseen", unseen='{"unseen": true}'))  # fmt: skip
    if isinstance(error, errors.NotAllowed):
        needed = Message("item.role_too_low", role=Role.OPERATOR.word, detail=error)
        return Problem(403, "role_required", needed, role=Role.OPERATOR.word, fix=Message("item.fix_operator"))
    if isinstance(error, errors.InvalidValues):
        return build_value_problem(error.problems, beside=error.beside, fix=error.fix)
    return _claim_problem(error)


def _claim_problem(error: errors.ReviewError) -> Exception:
    """The problems about the holder or assignee of an item."""
    if isinstance(error, errors.ItemHeld):
        fix = (
            Message("item.fix_release_or_takeover", takeover=TAKEOVER)
            if error.takeover
            else Message("item.fix_release")
        )
        return Problem(409, "item_held", str(error), holder=error.holder, until=iso(error.until),
                       fix=fix)  # fmt: skip
    if isinstance(error, errors.NotHeld):
        return Problem(
            409, "not_held", str(error), holder=error.holder, until=iso(error.until), fix=Message("item.fix_claim")
        )
    if isinstance(error, errors.Closed):
        return Problem(409, "item_closed", str(error), item_status=error.status, reviewer=error.reviewer,
                       fix=Message("item.fix_reopen"))  # fmt: skip
    if isinstance(error, errors.Open):
        return Problem(409, "item_open", fix=Message("item.fix_claim"))
    if isinstance(error, errors.Assigned):
        take_over = Message("item.fix_takeover", takeover=TAKEOVER)
        fix = take_over if error.takeover else Message("item.fix_another")
        return Problem(409, "item_assigned", str(error), assigned_to=error.to,
                       fix=fix)  # fmt: skip
    if isinstance(error, errors.Escalated):
        return Problem(409, "item_escalated", fix=Message("item.fix_another"))
    if isinstance(error, errors.ReviewPaused):
        return Problem(409, "queue_paused", str(error), reason=error.reason, fix=Message("item.fix_resumed"))
    if isinstance(error, errors.TooMany):
        return Problem(409, "too_many_held", str(error), items=error.held, fix=Message("item.fix_finish_some"))
    return error


def build_value_problem(problems: dict[str, str], *, beside: bool = False, fix: str = "") -> Problem:
    """The problem of invalid values: the first at the top, all of them in a list."""
    prefix = () if beside else ("fields",)
    details = [
        {"field": pointer(*prefix, name), "detail": text, **translatable(detail=text)}
        for name, text in problems.items()
    ]
    first, text = next(iter(problems.items()))
    return Problem(
        422, "value_invalid", text, field=pointer(*prefix, first), fix=fix or Message("item.fix_value"),
        errors=details if len(details) > 1 else None,
    )  # fmt: skip
