"""/api/extractions, /api/search-sessions, /api/rdprm-searches: submit searches, choose names, download statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, Field
from starlette.responses import Response

from tabellion.answers import Answer
from tabellion.errors import Busy, Forbidden, StoreError, Unreachable
from tabellion.extractions.routes.extractions import row_refused, too_long
from tabellion.extractions.row_values import TextTooLong
from tabellion.messages import Message
from tabellion.pipelines.registries import lookup, submit
from tabellion.pipelines.registries.choosing import NotYetFound, UnknownCompanyName, choose_names
from tabellion.pipelines.registries.columns import NoSuchColumn
from tabellion.pipelines.registries.lookup import RightsSearch, SearchSession
from tabellion.pipelines.registries.served import ServedRegistries, served_registries
from tabellion.web import idempotency
from tabellion.web.answers import answer
from tabellion.web.openapi import body_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import STRANGE, disposition, file_answer, file_responses
from tabellion.web.validation import Strict, Whole, parse_body

router = APIRouter(route_class=Guarded, tags=["registries"])
REPLAYED = "Idempotency-Replayed"
FILE = file_responses("application/pdf")


def _strip(text: str) -> str:
    if not text.strip():
        raise ValueError(Message("expected.not_blank"))
    return " ".join(text.split())


Term = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_strip)]
Limit = Annotated[Whole, Query(ge=1, le=lookup.MOST, description="How many at most.")]


class NewExtraction(Strict):
    """A document of the land registry to fetch."""

    document_type: Literal["index", "actes", "plans_cadastraux"]
    circonscription: Term | None = Field(default=None, description="The registration division.")
    cadastre: Term | None = Field(default=None, description="The cadastre.")
    designation_secondaire: Term | None = Field(default=None, description="The secondary designation.")
    lot: Term | None = Field(default=None, description="The lot number, for an index or a plan.")
    document_number: Term | None = Field(default=None, description="The registration number, for a deed.")


class NewSession(Strict):
    """A company to look up."""

    company: Term = Field(description="Its name or its number (NEQ).")


class ChosenNames(Strict):
    """Names of a company to look up in the register of rights."""

    names: list[Term] = Field(min_length=1, max_length=100)


class SubmittedExtraction(Answer):
    """A document that will be fetched."""

    id: str
    status: Literal["EN_ATTENTE"]
    status_url: str


class SearchSessions(Answer):
    """A list of sessions, newest first."""

    search_sessions: list[SearchSession]


class RightsSearches(Answer):
    """A list of searches, newest first."""

    rdprm_searches: list[RightsSearch]


SHAPES = (NewExtraction, NewSession, ChosenNames)


@router.post(
    "/api/extractions", status_code=202, response_model=SubmittedExtraction, openapi_extra=body_of(NewExtraction),
    summary="Fetch a document from the land registry",
)  # fmt: skip
async def add_extraction(request: Request) -> Response:
    """Adds a document to the extraction queue; a worker fetches it, and another reads its text."""
    served = served_registries(request)
    body = await parse_body(request, NewExtraction, request.app.state.limits)
    inputs = body.model_dump()

    async def add() -> dict[str, Any]:
        try:
            with explain_refusal():
                id_ = await submit.add_extraction(served.store, served.settings, inputs)
        except submit.IncompleteSearch as error:
            raise Problem(422, "value_missing", str(error), field=f"/{error.field}",
                          expected=Message("expected.value")) from None  # fmt: skip
        return {"id": id_, "status": "EN_ATTENTE", "status_url": f"/api/extractions/{id_}"}

    return await _add_once(request, served, inputs, add)


@router.get("/api/search-sessions", response_model=SearchSessions, summary="List company searches")
async def list_sessions(request: Request, limit: Limit = 50) -> Response:
    """Company searches, newest first, without their searches of rights."""
    served = served_registries(request)
    with explain_refusal():
        return answer({"search_sessions": await lookup.list_sessions(served.store, served.settings, limit)})


@router.post(
    "/api/search-sessions", status_code=202, response_model=SearchSession, openapi_extra=body_of(NewSession),
    summary="Look up a company",
)  # fmt: skip
async def add_session(request: Request) -> Response:
    """Adds a company search; a worker finds the company and its names."""
    served = served_registries(request)
    body = await parse_body(request, NewSession, request.app.state.limits)

    async def add() -> dict[str, Any]:
        with explain_refusal():
            id_ = await submit.add_session(served.store, served.settings, body.company)
        return dict(await find_session(served, id_))

    return await _add_once(request, served, body.model_dump(), add)


@router.get("/api/search-sessions/{id}", response_model=SearchSession, summary="Get a company search")
async def get_session(request: Request, id: str) -> Response:  # noqa: A002
    """A company search with the company's data, its names and the searches of rights."""
    return answer(await find_session(served_registries(request), id))


@router.post(
    "/api/search-sessions/{id}/names", status_code=202, response_model=RightsSearches,
    openapi_extra=body_of(ChosenNames), summary="Choose names",
)  # fmt: skip
async def choose(request: Request, id: str) -> Response:  # noqa: A002
    """Adds a search of the register of rights for each name. A name that was chosen before is not searched again."""
    served = served_registries(request)
    await find_session(served, id)
    body = await parse_body(request, ChosenNames, request.app.state.limits)
    try:
        with explain_refusal():
            searches = await choose_names(served.store, served.settings, id, body.names)
    except UnknownCompanyName as error:
        raise Problem(422, "value_invalid", str(error), field="/names",
                      expected=Message("registry.expected_names")) from None  # fmt: skip
    except NotYetFound as error:
        raise Problem(409, "names_pending", str(error), field="id", fix=Message("registry.fix_wait")) from None
    return answer({"rdprm_searches": searches}, 202)


@router.get("/api/rdprm-searches", response_model=RightsSearches, summary="List searches of rights")
async def list_rights(request: Request, limit: Limit = 50) -> Response:
    """Searches of the register of rights, newest first."""
    served = served_registries(request)
    with explain_refusal():
        return answer({"rdprm_searches": await lookup.list_rights(served.store, served.settings, limit=limit)})


@router.get("/api/rdprm-searches/{id}", response_model=RightsSearch, summary="Get a search of rights")
async def get_rights(request: Request, id: str) -> Response:  # noqa: A002
    """A search of the register of rights, with the registrations under the name."""
    return answer(await _find_rights(served_registries(request), id))


@router.get("/api/rdprm-searches/{id}/file", responses=FILE, response_class=Response, summary="Download a statement")
async def get_statement(request: Request, id: str) -> Response:  # noqa: A002
    """The certified statement as a PDF."""
    served = served_registries(request)
    found = await _find_rights(served, id)
    address = await lookup.statement_address(served.store, found["id"])
    if not address:
        raise Problem(404, "file_gone", Message("registry.no_statement"), field="id")
    path, tag = await served.open_file(address, "")
    headers = STRANGE | {"Content-Disposition": disposition(f"{found['name'] or found['id']}.pdf")}
    return file_answer(request, path, f'"{tag}"', "application/pdf", headers)


@contextmanager
def explain_refusal() -> Iterator[None]:
    """Turns what is wrong with a table into a 409 problem, and a text that is too long for it into a 422 problem."""
    try:
        yield
    except TextTooLong as error:
        raise too_long(error, f"/{error.field}") from None
    except NoSuchColumn as error:
        raise Problem(409, "queue_unusable", error.args[0], fix=Message("registry.fix_columns")) from None
    except (Unreachable, Forbidden, Busy):
        raise  # not about the table: the application answers them for all routes
    except StoreError as error:
        raise row_refused(error) from None


async def find_session(served: ServedRegistries, id: str) -> SearchSession:  # noqa: A002
    """A session of this environment; raises a 404 problem if there is none."""
    with explain_refusal():
        found = await lookup.get_session(served.store, served.settings, id)
    if found is None:
        raise Problem(404, "not_found", Message("registry.no_session"), field="id")
    return found


async def _find_rights(served: ServedRegistries, id: str) -> RightsSearch:  # noqa: A002
    with explain_refusal():
        found = await lookup.list_rights(served.store, served.settings, id_=id, limit=1)
    if not found:
        raise Problem(404, "not_found", Message("registry.no_search"), field="id")
    return found[0]


async def _add_once(request: Request, served: ServedRegistries, body: Any, add: Any) -> Response:
    """The answer of `add`; for an Idempotency-Key that was used before, the earlier answer."""
    key = idempotency.key_of(request.headers.get(idempotency.HEADER))
    print_ = idempotency.fingerprint([f"POST {request.url.path}", body])
    holder = request.state.holder.id
    async with idempotency.reserve_key(served.store, holder, key, print_) as reservation:
        if reservation.answer is not None:
            return answer(reservation.answer, 202, {REPLAYED: "true"})
        reservation.given = await add()
    address = f"{request.url.path}/{reservation.given['id']}"
    return answer(reservation.given, 202, {"Location": address})
