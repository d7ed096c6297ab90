"""/api/review/items/{id}: its fields, and how it ends."""

from __future__ import annotations

import contextlib

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.pipelines.documents.review import claims, editing, errors, finishing, item_view, items
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.review.item_view import Checked, Item, ItemDetail
from tabellion.pipelines.documents.routes.documents import Restarted, reprocess_document
from tabellion.pipelines.documents.routes.review import render_item
from tabellion.pipelines.documents.routes.review_bodies import (
    Approval,
    ApprovalEffort,
    Draft,
    FieldChanges,
    FieldCheck,
    ReasonBody,
    RejectionBody,
    TypeChoice,
)
from tabellion.pipelines.documents.routes.review_request import (
    ReviewContext,
    item_change,
    item_context,
    tag,
    translate_errors,
    version_of,
)
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.routing import Guarded
from tabellion.web.validation import parse_body

router = APIRouter(route_class=Guarded, tags=["review"])


class Ended(Answer):
    """A finished item, and the next one if requested and available."""

    item: Item
    next: ItemDetail | None


@router.patch(
    "/api/review/items/{id}/fields", response_model=ItemDetail, openapi_extra=body_of(FieldChanges),
    summary="Correct fields",
)  # fmt: skip
async def edit(request: Request, id: str) -> Response:  # noqa: A002
    """Corrects, confirms, marks as absent or unlocks fields: all changes or none. You must hold the item and send
    its version. A correction is locked: reading the document again does not overwrite it."""
    context = await item_context(request, id)
    version = version_of(request)
    body = await parse_body(request, FieldChanges, request.app.state.limits)
    changes = {
        name: Change(change.action, change.value, change.page, change.box, change.quote)
        for name, change in body.fields.items()
    }
    with translate_errors():
        await editing.edit(context.store, context.types, id, context.person, version, changes)
    return await render_item(context, id)


@router.post(
    "/api/review/items/{id}/check", response_model=Checked, openapi_extra=body_of(FieldCheck),
    summary="Validate values",
)  # fmt: skip
async def check(request: Request, id: str) -> Response:  # noqa: A002
    """The issues that these values would have. Saves nothing; null means that a field is absent."""
    async with item_change(request, id, FieldCheck) as (context, body):
        return answer(await item_view.check(context.store, context.types, id, body.fields))


@router.put(
    "/api/review/items/{id}/draft", status_code=204, openapi_extra=body_of(Draft), summary="Save a draft"
)  # fmt: skip
async def draft(request: Request, id: str) -> Response:  # noqa: A002
    """Saves your unsaved input; only you can read it."""
    async with item_change(request, id, Draft) as (context, body):
        await editing.draft(context.store, id, context.person, body.model_dump())
    return Response(status_code=204)


@router.post(
    "/api/review/items/{id}/approve", response_model=Ended,
    openapi_extra=body_of(Approval, required=False), summary="Approve a review item",
)  # fmt: skip
async def approve(request: Request, id: str) -> Response:  # noqa: A002
    """Finishes the item: `corrected` if a field was corrected, else `approved`. Refused while a required field is
    neither given nor marked as absent, while a rule fails whose fields have not been confirmed or corrected, and
    for a document without a type. If fields with low confidence have not been reviewed, the response is
    409 `fields_unseen`; send `unseen` to approve them anyway."""
    context = await item_context(request, id)
    version = version_of(request)
    body = await parse_body(request, Approval, request.app.state.limits, empty=True)
    with translate_errors():
        await finishing.approve(
            context.store, context.types, id, context.person, version, effort=body.effort(), unseen=body.unseen
        )
    return await _answer_with_next(context, id, body)


@router.post(
    "/api/review/items/{id}/type", status_code=202, response_model=Restarted, openapi_extra=body_of(TypeChoice),
    summary="Change the document type",
)  # fmt: skip
async def choose_type(request: Request, id: str) -> Response:  # noqa: A002
    """Reads the document of an item that you hold again as this type; you keep the claim."""
    async with item_change(request, id, TypeChoice) as (context, body):
        await claims.require_claim(context.store, id, context.person)
        item = await items.row(context.store, id)
    return await reprocess_document(context.served, item["document_id"], context.person.name, type=body.type)


@router.post(
    "/api/review/items/{id}/reject", response_model=Ended, openapi_extra=body_of(RejectionBody),
    summary="Reject a review item",
)  # fmt: skip
async def reject(request: Request, id: str) -> Response:  # noqa: A002
    """Rejects the document for one of the reasons that the item lists."""
    async with item_change(request, id, RejectionBody) as (context, body):
        await finishing.reject(context.store, id, context.person, body.code, body.reason, body.effort())
    return await _answer_with_next(context, id, body)


async def _answer_with_next(context: ReviewContext, id: str, spent: ApprovalEffort) -> Response:  # noqa: A002
    with translate_errors():
        item = item_view.serialize_item(await items.row(context.store, id))
        next_id = None
        if spent.next:
            # The item is finished, even if no other can be claimed.
            with contextlib.suppress(errors.ReviewPaused, errors.TooMany):
                next_id = await claims.claim_next(context.store, context.person)
        next_item = await item_view.get(context.store, context.types, next_id, context.person) if next_id else None
    return answer(Ended(item=item, next=next_item), headers=tag(item["version"]))


@router.post(
    "/api/review/items/{id}/reopen", response_model=ItemDetail, openapi_extra=body_of(ReasonBody),
    summary="Reopen a review item",
)  # fmt: skip
async def reopen(request: Request, id: str) -> Response:  # noqa: A002
    """Puts a finished item back in the queue; corrections are kept."""
    async with item_change(request, id, ReasonBody) as (context, body):
        await finishing.reopen(context.store, id, context.person, body.reason)
    return await render_item(context, id)
