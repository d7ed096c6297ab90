"""/api/users and /api/me: who may sign in, and who does just now."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.web import csrf, shapes
from tabellion.web.api.documents import answer
from tabellion.web.keys import Holder
from tabellion.web.pages.page import language_of
from tabellion.web.routing import Guarded
from tabellion.web.sessions import Ticket

router = APIRouter(route_class=Guarded, tags=["people"])


@router.get("/api/me", response_model=shapes.Me, summary="Who asks?")
async def me(request: Request) -> Response:
    """The holder of the key or the session, and what their pages send with every change."""
    holder: Holder = request.state.holder
    ticket: Ticket | None = request.app.state.door.ticket(request)
    return answer(
        {
            "name": holder.name, "role": holder.role.word, "environment": holder.environment,
            "language": language_of(request), "csrf": csrf.token(ticket.secret) if ticket else None,
        }
    )  # fmt: skip
