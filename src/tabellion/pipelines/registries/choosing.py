"""Choosing names: a person picks names of a company, and each becomes a search of the register of rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tabellion.engine import sql
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.registries import lookup, tables
from tabellion.pipelines.registries.lookup import RightsSearch
from tabellion.pipelines.registries.states import RightsStatus, SessionStatus
from tabellion.pipelines.registries.submit import columns_of, new_key

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.registries.settings import RegistrySettings


class NotYetFound(TabellionError):  # noqa: N818 - a state of the session
    """The session does not wait for names: its company has not been found."""


class UnknownName(TabellionError):  # noqa: N818 - what the caller sent
    """A name that the register does not have for this company."""

    def __init__(self, name: str) -> None:
        super().__init__(Message("registry.unknown_name", name=name))


async def choose_names(
    store: Store, settings: RegistrySettings, session: str, names: Sequence[str]
) -> list[RightsSearch]:
    """Makes a search of each name, once however often it is chosen; all searches of the session.

    Raises KeyError for a session that there is not, NotYetFound and UnknownName.
    """
    found = await lookup.get_session(store, settings, session)
    if found is None:
        raise KeyError(session)
    if found["status"] != SessionStatus.PENDING_NAME_SELECTION:
        raise NotYetFound(Message("registry.not_yet_found", status=found["status"]))
    known = {one["name"] for one in found["names"]}
    for name in names:
        if name not in known:
            raise UnknownName(name)
    column = sql.column(settings.columns.require("name", await columns_of(store, tables.RIGHTS), tables.RIGHTS))
    # Writing the session's row, with the value that it has, makes two people who choose at once take turns.
    lock = f"UPDATE {tables.SESSIONS} SET status = status WHERE CAST(id AS text) = $1 RETURNING 1 AS n"
    chosen = [(name, await new_key(store, tables.RIGHTS)) for name in dict.fromkeys(names)]
    steps = [(lock, (session,)), *(_add(column, session, name, key) for name, key in chosen)]
    await store.database.transact(steps)
    await store.database.wake()
    return await lookup.list_rights(store, settings, session=session)


def _add(column: str, session: str, name: str, key: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The statement that adds a search of this name, unless the session has one."""
    named, marks = ("id, ", "$3, ") if key else ("", "")
    text = f"""INSERT INTO {tables.RIGHTS} ({named}search_session_id, {column}, status)
SELECT {marks}s.id, $2, '{RightsStatus.PENDING.value}' FROM {tables.SESSIONS} AS s WHERE CAST(s.id AS text) = $1
  AND NOT EXISTS (SELECT 1 FROM {tables.RIGHTS} AS r WHERE r.search_session_id = s.id AND r.{column} = $2)"""
    return text, (session, name, *key.values())
