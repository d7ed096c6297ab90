"""Adds a search of the register of rights for each name that a person chooses."""

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
    """The session has no names to choose from: its company has not been found."""


class UnknownName(TabellionError):  # noqa: N818 - what the caller sent
    """The company has no such name in the register."""

    def __init__(self, name: str) -> None:
        super().__init__(Message("registry.unknown_name", name=name))


async def choose_names(
    store: Store, settings: RegistrySettings, session: str, names: Sequence[str]
) -> list[RightsSearch]:
    """Adds a search for each name that has none yet, and returns all searches of the session.

    Raises KeyError for an unknown session, NotYetFound and UnknownName.
    """
    found = await lookup.get_session(store, settings, session)
    if found is None:
        raise KeyError(session)
    if found["status"] != SessionStatus.PENDING_NAME_SELECTION:
        raise NotYetFound(Message("registry.not_yet_found", status=found["status"]))
    known = {entry["name"] for entry in found["names"]}
    for name in names:
        if name not in known:
            raise UnknownName(name)
    column = sql.column(settings.columns.require("name", await columns_of(store, tables.RIGHTS), tables.RIGHTS))
    # Updating the session's row without changing it locks it: two people who choose at once take turns.
    lock = f"UPDATE {tables.SESSIONS} SET status = status WHERE CAST(id AS text) = $1 RETURNING 1 AS n"
    chosen = [(name, await new_key(store, tables.RIGHTS)) for name in dict.fromkeys(names)]
    steps = [(lock, (session,)), *(_add(column, session, name, key) for name, key in chosen)]
    await store.database.transact(steps)
    await store.database.wake()
    return await lookup.list_rights(store, settings, session=session)


def _add(column: str, session: str, name: str, key: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The statement that adds a search for this name unless the session has one."""
    named, marks = ("id, ", "$3, ") if key else ("", "")
    text = f"""INSERT INTO {tables.RIGHTS} ({named}search_session_id, {column}, status)
SELECT {marks}s.id, $2, '{RightsStatus.PENDING.value}' FROM {tables.SESSIONS} AS s WHERE CAST(s.id AS text) = $1
  AND NOT EXISTS (SELECT 1 FROM {tables.RIGHTS} AS r WHERE r.search_session_id = s.id AND r.{column} = $2)"""
    return text, (session, name, *key.values())
