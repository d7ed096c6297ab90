"""/api/review: the queue, an item, and its claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tabellion.accounts import audit
from tabellion.answers import Answer, Doc
from tabellion.engine.timestamps import iso
from tabellion.pipelines.documents.review import claims, item_view, items, priority
from tabellion.pipelines.documents.review.item_view import Item, ItemDetail
from tabellion.pipelines.documents.review.items import Counts, Filters
from tabellion.pipelines.documents.review.rejection import complete_history
from tabellion.pipelines.documents.routes.documents import REPLAYED, find_document
from tabellion.pipelines.documents.routes.review_bodies import (
    Assignment,
    ClaimNext,
    ClaimOptions,
    Name,
    Postponement,
    ReasonBody,
)
from tabellion.pipelines.documents.routes.review_request import (
    ReviewContext,
    item_change,
    item_context,
    review_context,
    tag,
    trace_claim,
    translate_errors,
)
from tabellion.web import cursors, idempotency
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.routing import Guarded
from tabellion.web.validation import Whole, parse_body

router = APIRouter(route_class=Guarded, tags=["review"])
NOBODY, ME = "none", "me"
Asked = Literal["open", "done", "pending", "in_review", "approved", "corrected", "rejected"]
EMPTY: dict[int | str, dict[str, Any]] = {204: {"description": "Nothing to claim."}}


class Items(Answer):
    """One page of a list: open items in the order in which they are claimed, finished items latest first."""

    items: list[Item]
    next: Annotated[str | None, Doc("The cursor of the next page; null: this is the last page.")]
    counts: Counts


class Renewed(Answer):
    """When the claim expires."""

    until: str


class Entry(audit.HistoryEntry):
    """An action."""


class History(Answer):
    """Actions, oldest first."""

    entries: list[Entry]


async def render_item(context: ReviewContext, id: str, headers: Mapping[str, str] | None = None) -> Response:  # noqa: A002
    """The response with a complete item, and its version as the ETag."""
    with translate_errors():
        item = await item_view.get(context.store, context.types, id, context.person)
    return answer(item, headers={**tag(item["version"]), **(headers or {})})


@router.get("/api/review/items", response_model=Items, summary="List review items")
async def list_items(
    request: Request,
    status: Annotated[
        Asked, Query(description="Only items with this status; open: not finished; done: finished.")
    ] = "open",
    assigned: Annotated[Name | None, Query(description="Only items of `me`, of `none`, or of this user.")] = None,
    type: Annotated[Name | None, Query(description="Only documents of this type.")] = None,  # noqa: A002
    reason: Annotated[Name | None, Query(description="Only items with a reason of this code.")] = None,
    q: Annotated[str | None, Query(min_length=1, max_length=200, description="Only names with this text.")] = None,
    overdue: Annotated[bool, Query(description="Only overdue items.")] = False,
    escalated: Annotated[bool, Query(description="Only escalated items.")] = False,
    cursor: Annotated[str | None, Query(description="The `next` value of the previous page.")] = None,
    limit: Annotated[Whole, Query(ge=1, le=items.MOST, description="Items per page.")] = 50,
) -> Response:
    """Open items, most urgent first; or finished items, latest first."""
    context = await review_context(request)
    await claims.sweep(context.store)
    await priority.refresh(context.store)
    named = {NOBODY: "", ME: context.person.name}.get(assigned or "", assigned)
    filters = Filters(status, named if assigned else None, type, reason, q, overdue, escalated)
    question = {
        "review": status, "assigned": named, "type": type, "reason": reason, "q": q, "overdue": overdue or None,
        "escalated": escalated or None,
    }  # fmt: skip
    key = await cursors.signing_key(request)
    start = cursors.place(key, context.served.name, question, cursor) if cursor is not None else None
    rows, following = await items.list_items(context.store, filters, start, limit)
    onward = cursors.make_cursor(key, context.served.name, question, following) if following else None
    counts = await items.counts(context.store, context.person)
    return answer(Items(items=[item_view.serialize_item(row) for row in rows], next=onward, counts=counts))


@router.post(
    "/api/review/claim", response_model=ItemDetail, responses=EMPTY,
    openapi_extra=body_of(ClaimNext, required=False), summary="Claim the next review item",
)  # fmt: skip
async def claim_next(request: Request) -> Response:
    """Claims the most urgent item that is assigned to you or to nobody. 204: nothing to claim.

    To be able to repeat the request, send an Idempotency-Key: a repeated request returns the same item.
    """
    context = await review_context(request)
    key = idempotency.key_of(request.headers.get(idempotency.HEADER))
    body = await parse_body(request, ClaimNext, request.app.state.limits, empty=True)
    print_ = idempotency.fingerprint(["POST /api/review/claim", body.type, body.after])
    async with idempotency.reserve_key(context.store, request.state.holder.id, key, print_) as reservation:
        if reservation.answer is not None:
            return await render_item(context, reservation.answer["id"], headers={REPLAYED: "true"})
        with translate_errors():
            id = await claims.claim_next(context.store, context.person, body.type, body.after)  # noqa: A001
        reservation.given = None if id is None else {"id": id}
    if id is None:
        return Response(status_code=204)
    await trace_claim(request, context, id)
    return await render_item(context, id)


@router.get("/api/review/items/{id}", response_model=ItemDetail, summary="Get a review item")
async def show(request: Request, id: str) -> Response:  # noqa: A002
    """An item with its document, fields, issues and holder. Does not claim it."""
    return await render_item(await item_context(request, id), id)


@router.post(
    "/api/review/items/{id}/claim", response_model=ItemDetail,
    openapi_extra=body_of(ClaimOptions, required=False), summary="Claim a review item",
)  # fmt: skip
async def claim(request: Request, id: str) -> Response:  # noqa: A002
    """Claims this item; a claim expires five minutes after it was last renewed or used."""
    async with item_change(request, id, ClaimOptions, empty=True) as (context, body):
        await claims.claim(context.store, id, context.person, takeover=body.takeover)
    return await render_item(context, id)


@router.post("/api/review/items/{id}/renew", response_model=Renewed, summary="Renew a claim")
async def renew(request: Request, id: str) -> Response:  # noqa: A002
    """Renews your claim of the item."""
    context = await item_context(request, id)
    with translate_errors():
        until = await claims.renew(context.store, id, context.person)
    return answer(Renewed(until=iso(until)))


@router.post("/api/review/items/{id}/release", status_code=204, summary="Release a review item")
async def release(request: Request, id: str) -> Response:  # noqa: A002
    """Releases the item; saved changes are kept."""
    context = await item_context(request, id)
    with translate_errors():
        await claims.release(context.store, id, context.person)
    return Response(status_code=204)


@router.post(
    "/api/review/items/{id}/postpone",
    status_code=204,
    openapi_extra=body_of(Postponement),
    summary="Postpone a review item",
)
async def postpone(request: Request, id: str) -> Response:  # noqa: A002
    """Releases the item until later; it cannot be claimed with `claim` before then."""
    async with item_change(request, id, Postponement) as (context, body):
        await claims.postpone(context.store, id, context.person, body.seconds, body.reason)
    return Response(status_code=204)


@router.post(
    "/api/review/items/{id}/escalate",
    status_code=204,
    openapi_extra=body_of(ReasonBody),
    summary="Escalate a review item",
)
async def escalate(request: Request, id: str) -> Response:  # noqa: A002
    """Escalates the item to the operators."""
    async with item_change(request, id, ReasonBody) as (context, body):
        await claims.escalate(context.store, id, context.person, body.reason)
    return Response(status_code=204)


@router.post(
    "/api/review/items/{id}/assign", status_code=204, openapi_extra=body_of(Assignment), summary="Assign a review item"
)
async def assign(request: Request, id: str) -> Response:  # noqa: A002
    """Assigns the item to another user. For operators, the assignee and the holder."""
    async with item_change(request, id, Assignment) as (context, body):
        await claims.assign(context.store, id, context.person, body.to, body.reason)
    return Response(status_code=204)


@router.get("/api/review/items/{id}/history", response_model=History, summary="Show the history of a review item")
async def item_history(request: Request, id: str) -> Response:  # noqa: A002
    """Every action on the item, by whom and when, with the values before and after."""
    context = await item_context(request, id)
    return answer(History(entries=complete_history(await audit.history(context.store, item=id))))


@router.get("/api/documents/{id}/history", response_model=History, summary="Show the history of a document")
async def document_history(request: Request, id: str) -> Response:  # noqa: A002
    """Every action on the document and its review, by whom and when, with the values before and after."""
    context = await review_context(request)
    entries = await audit.history(context.store, subject=id)
    if not entries:  # a deleted document still has some
        await find_document(context.served, id)
    return answer(History(entries=complete_history(entries)))
