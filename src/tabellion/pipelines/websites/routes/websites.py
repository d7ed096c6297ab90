"""/api/websites: submit websites, list and get jobs, their reports and images; retry, cancel and compare."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.errors import ConfigurationError
from tabellion.messages import LANGUAGES, Message
from tabellion.net.guard import Blocked, HostUnreachable, vet_url
from tabellion.pipelines.websites import changes, health, lookup
from tabellion.pipelines.websites.analysis_type import KINDS, AnalysisType
from tabellion.pipelines.websites.health import WebsitesHealth
from tabellion.pipelines.websites.lookup import Website, WebsiteDetail
from tabellion.pipelines.websites.served import ServedWebsites, served_websites
from tabellion.pipelines.websites.settings import UnknownName
from tabellion.pipelines.websites.submit import AlreadyOpen, BacklogFull, submit
from tabellion.pipelines.websites.tables import JOBS
from tabellion.pipelines.websites.urls import complete_url, normalize_url
from tabellion.web import cursors, idempotency
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.problems import Problem
from tabellion.web.request_traces import trace_row
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, Whole, parse_body

router = APIRouter(route_class=Guarded, tags=["websites"])
StatusName = Literal["not-started", "prompt-forming", "model-analysis", "completed", "failed"]
LanguageName = Literal["en", "fr"]
Name = Annotated[str, Field(min_length=1, max_length=100)]
REPLAYED = "Idempotency-Replayed"
assert set(LANGUAGES) == {"en", "fr"}  # noqa: S101 - a new language is added to `LanguageName` too


class NewWebsite(Strict):
    """A website to be analysed."""

    url: str = Field(min_length=1, max_length=2048, description="Its URL; without a scheme, https is meant.")
    type: Name | None = Field(default=None, description="The analysis type. [default: the configured one]")
    models: list[Name] = Field(default=[], max_length=8, description="The models to ask, side by side.")
    language: LanguageName = Field(default="en", description="The language of what models write.")


class RetryWebsite(Strict):
    """How a failed job is retried."""

    from_start: bool = Field(default=False, description="Whether the website is visited again.")


SHAPES = (NewWebsite, RetryWebsite)


class Websites(Answer):
    """One page of a list, newest first."""

    websites: list[Website]
    next: Annotated[str | None, Doc("The cursor of the next page; null: this is the last page.")]


class AnalysisTypeFacts(Answer):
    """An analysis type."""

    name: str
    version: str
    title: dict[str, str]
    description: dict[str, str]
    needs_model: Annotated[bool, Doc("Whether it has no rules that answer in place of a model.")]
    models: Annotated[list[str], Doc("The models that it asks if a job names none.")]
    fields: Annotated[list[dict[str, Any]], Doc("The fields of its answer: name, type and titles.")]


class AnalysisTypes(Answer):
    """The analysis types, and the models that can be asked."""

    types: list[AnalysisTypeFacts]
    models: list[str]
    kinds: Annotated[dict[str, str], Doc("What a field can hold.")]


@router.get("/api/websites", response_model=Websites, summary="List websites")
async def list_websites(
    request: Request,
    status: Annotated[StatusName | None, Query(description="Only those with this status.")] = None,
    type: Annotated[Name | None, Query(description="Only those of this analysis type.")] = None,  # noqa: A002
    url: Annotated[str | None, Query(max_length=2048, description="Only jobs of this website.")] = None,
    cursor: Annotated[str | None, Query(description="The `next` value of the previous page.")] = None,
    limit: Annotated[Whole, Query(ge=1, le=200, description="Jobs per page.")] = 50,
) -> Response:
    """Jobs with the digests of their results, newest first."""
    served = served_websites(request)
    filters = {name: value for name, value in (("status", status), ("type", type)) if value is not None}
    if url is not None:
        filters["normalized_url"] = _normalize(url, "url")
    key = await cursors.signing_key(request)
    after = cursors.place(key, served.name, filters, cursor) if cursor is not None else None
    found, following = await lookup.list_jobs(served.store, filters, after, limit)
    onward = cursors.make_cursor(key, served.name, filters, following) if following else None
    return answer(Websites(websites=found, next=onward))


@router.post(
    "/api/websites", status_code=202, response_model=WebsiteDetail, openapi_extra=body_of(NewWebsite),
    summary="Submit a website",
)  # fmt: skip
async def add_website(request: Request) -> Response:
    """Adds a job. A website has one open job of a type: a second one is refused, and the answer has the first."""
    served = served_websites(request)
    body = await parse_body(request, NewWebsite, request.app.state.limits)
    await _vet(request, body.url)
    key = idempotency.key_of(request.headers.get(idempotency.HEADER))
    print_ = idempotency.fingerprint([f"POST {request.url.path}", body.model_dump()])
    async with idempotency.reserve_key(served.store, request.state.holder.id, key, print_) as reservation:
        if reservation.answer is not None:
            return answer(reservation.answer, 202, {REPLAYED: "true"})
        id_ = await _submit(request, served, body)
        trace_row(request, JOBS, id_, created=True)
        reservation.given = dict(await find_website(served, id_))
    return answer(reservation.given, 202, {"Location": reservation.given["status_url"]})


async def _submit(request: Request, served: ServedWebsites, body: NewWebsite) -> str:
    try:
        return await submit(
            served.store, served.settings, body.url, type=body.type, models=body.models, language=body.language,
            by=request.state.holder.name,
        )  # fmt: skip
    except UnknownName as error:
        raise Problem(
            422,
            "value_invalid",
            str(error),
            field=f"/{error.field}",
            expected=Message("expected.one_of", names=list(error.known)),
        ) from None
    except AlreadyOpen as error:
        existing = await lookup.get(served.store, error.job.id)
        raise Problem(
            409, "website_open", str(error), field="/url", reason=error.job.reason, existing=existing,
            fix=Message("website.fix_existing"),
        ) from None  # fmt: skip
    except BacklogFull as error:
        raise Problem(
            429, "backlog_full", str(error), headers={"Retry-After": str(error.retry_after)}, limit=error.limit,
            fix=Message("website.fix_backlog"),
        ) from None  # fmt: skip
    except ConfigurationError as error:
        raise Problem(
            409,
            "analysis_type_broken",
            Message("website.type_broken", text=str(error)),
            field="/type",
            fix=Message("website.fix_type_file"),
        ) from None


@router.get("/api/websites/health", response_model=WebsitesHealth, summary="Get the health of the phases")
async def get_health(request: Request) -> Response:
    """Queue sizes, slots, processing times, success rates and retries of each phase."""
    served = served_websites(request)
    return answer(await health.measure(served.store, served.settings))


@router.get("/api/websites/types", response_model=AnalysisTypes, summary="List analysis types")
async def list_types(request: Request) -> Response:
    """What can be asked about a website, and which models can be asked."""
    settings = served_websites(request).settings
    models = ["local", *(name for name in settings.models if name != "local")]
    types = [_describe_type(kind) for kind in settings.all_types()]
    return answer(AnalysisTypes(types=types, models=models, kinds={str(name): text for name, text in KINDS.items()}))


@router.get("/api/websites/{id}", response_model=WebsiteDetail, summary="Get a website")
async def get_website(request: Request, id: str) -> Response:  # noqa: A002
    """A job with what its visit found and what models said."""
    return answer(await find_website(served_websites(request), id))


@router.post(
    "/api/websites/{id}/retry", status_code=202, response_model=WebsiteDetail,
    openapi_extra=body_of(RetryWebsite, required=False), summary="Retry a website",
)  # fmt: skip
async def retry_website(request: Request, id: str) -> Response:  # noqa: A002
    """Puts a failed job back into the phase that failed, or into the first."""
    served = served_websites(request)
    await find_website(served, id)
    body = await parse_body(request, RetryWebsite, request.app.state.limits, empty=True)
    try:
        await changes.retry(served.store, served.settings, id, from_start=body.from_start)
    except changes.WrongState as error:
        raise Problem(
            409, "website_not_failed", str(error), field="id", fix=Message("website.fix_submit_again")
        ) from None
    except AlreadyOpen as error:
        existing = await lookup.get(served.store, error.job.id)
        raise Problem(409, "website_open", str(error), field="id", reason=error.job.reason, existing=existing) from None
    return answer(await find_website(served, id), 202)


@router.post("/api/websites/{id}/cancel", response_model=WebsiteDetail, summary="Cancel a website")
async def cancel_website(request: Request, id: str) -> Response:  # noqa: A002
    """Stops a job in whichever phase it is; it fails with this as its reason."""
    served = served_websites(request)
    await find_website(served, id)
    try:
        await changes.cancel(served.store, served.settings, id, request.state.holder.name)
    except changes.WrongState as error:
        raise Problem(409, "website_ended", str(error), field="id") from None
    return answer(await find_website(served, id))


async def find_website(served: ServedWebsites, id: str) -> WebsiteDetail:  # noqa: A002
    """A job of this environment; raises a 404 problem if there is none."""
    found = await lookup.get(served.store, id)
    if found is None:
        raise Problem(404, "not_found", Message("website.not_found"), field="id")
    return found


def _normalize(url: str, field: str) -> str:
    try:
        return normalize_url(url)
    except Blocked as error:
        raise _build_blocked_problem(error, field) from None


async def _vet(request: Request, url: str) -> None:
    try:
        await vet_url(complete_url(url), request.app.state.rules)
    except Blocked as error:
        raise _build_blocked_problem(error, "/url") from None
    except HostUnreachable as error:
        raise Problem(422, "url_failed", str(error), field="/url", fix=Message("fix.check_host")) from None


def _build_blocked_problem(error: Blocked, field: str) -> Problem:
    return Problem(422, "url_blocked", str(error), field=field, reason=error.reason, fix=Message("fix.public_url"))


def _describe_type(kind: AnalysisType) -> AnalysisTypeFacts:
    fields = [{"name": spec.name, "type": spec.kind, "title": dict(spec.titles)} for spec in kind.fields]
    return AnalysisTypeFacts(
        name=kind.name, version=kind.version, title=dict(kind.titles), description=dict(kind.descriptions),
        needs_model=kind.rules is None, models=list(kind.models), fields=fields,
    )  # fmt: skip
