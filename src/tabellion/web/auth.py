"""Who asks: from the Authorization header to an environment and a role. Cookies are never looked at."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from starlette.requests import Request

from tabellion.web import keys
from tabellion.web.keys import Holder
from tabellion.web.office import Office
from tabellion.web.policy import Role
from tabellion.web.problems import Problem

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tabellion"'}
FIX = "send the header Authorization: Bearer KEY; `tabellion keys create` makes one"


@dataclass(slots=True)
class Door:
    """Lets requests in that carry a key, each into the environment of its key."""

    offices: dict[str, Office]
    _noted: dict[str, float] = field(default_factory=dict)

    async def enter(self, request: Request, needed: Role) -> tuple[Office, Holder]:
        """The environment and the holder of the request's key; a Problem when there is none or its role is too low."""
        header = request.headers.get("authorization", "")
        if not header:
            raise Problem(401, "auth_missing", fix=FIX, headers=CHALLENGE)
        scheme, _, text = header.partition(" ")
        key = keys.parse(text.strip()) if scheme.lower() == "bearer" else None
        office = self.offices.get(key.environment) if key else None
        holder = await keys.holder(office.store, key) if key and office else None
        if office is None or holder is None:
            raise Problem(401, "auth_invalid", fix=FIX, headers=CHALLENGE)
        await self._note(office, holder)
        if holder.role < needed:
            raise Problem(
                403, "role_required", f"role_required: {needed.word}; this key is a {holder.role.word}'s",
                fix=f"use a key with the role {needed.word}", role=needed.word,
            )  # fmt: skip
        return office, holder

    async def _note(self, office: Office, holder: Holder) -> None:
        now = time.monotonic()
        if now - self._noted.get(holder.id, -keys.NOTED) >= keys.NOTED:
            self._noted[holder.id] = now
            await keys.note(office.store, holder.id)
