"""Adds a search of the register of rights for each name that a person chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabellion.engine import sql
from tabellion.errors import TabellionError
from tabellion.extractions.row_values import check_length, mark, new_key, new_stamps
from tabellion.messages import Message
from tabellion.pipelines.registries import lookup, tables
from tabellion.pipelines.registries.lookup import RightsSearch
from tabellion.pipelines.registries.states import RightsStatus, SessionStatus

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.registries.settings import RegistrySettings


class NotYetFound(TabellionError):  # noqa: N818 - a state of the session
    """The session has no names to choose from: its company has not been found."""


class UnknownCompanyName(TabellionError):  # noqa: N818 - what the caller sent
    """The company has no such name in the register."""

    def __init__(self, name: str) -> None:
        super().__init__(Message("registry.unknown_name", name=name))


async def choose_names(
    store: Store, settings: RegistrySettings, session: str, names: Sequence[str]
) -> list[RightsSearch]:
    """Adds a search for each name that has none yet, and returns all searches of the session.

    Raises KeyError for an unknown session, NotYetFound, UnknownName and TextTooLong.
    """
    found = await lookup.get_session(store, settings, session)
    if found is None:
        raise KeyError(session)
    if found["status"] != SessionStatus.PENDING_NAME_SELECTION:
        raise NotYetFound(Message("registry.not_yet_found", status=found["status"]))
    known = {entry["name"] for entry in found["names"]}
    for name in names:
        if name not in known:
            raise UnknownCompanyName(name)
    rights, sessions = (
        await tables.require_table(store, tables.RIGHTS),
        await tables.require_table(store, tables.SESSIONS),
    )
    column = rights.columns[settings.columns.require("name", rights.columns, tables.RIGHTS)]
    for name in names:
        check_length(column, name, "names")
    # Updating the session's row without changing it locks it: two people who choose at once take turns.
    is_session = f"id = {mark(1, sessions.columns['id'], store.dialect)}"
    lock = f"UPDATE {tables.SESSIONS} SET status = status WHERE {is_session} RETURNING 1 AS n"
    named = sql.column(column.name)
    steps: list[tuple[str, tuple[str, ...]]] = [(lock, (session,))]
    for name in dict.fromkeys(names):
        key, stamps = new_key(rights.columns["id"]), new_stamps(rights, store.dialect)
        value = mark(2, column, store.dialect)
        added = {**stamps, **{one: mark(3, rights.columns[one], store.dialect) for one in key}}
        filled = ", ".join(["search_session_id", named, "status", *added])
        values = ", ".join(["s.id", value, f"'{RightsStatus.PENDING.value}'", *added.values()])
        text = f"""INSERT INTO {tables.RIGHTS} ({filled}) SELECT {values}
FROM {tables.SESSIONS} AS s WHERE s.{is_session}
  AND NOT EXISTS (SELECT 1 FROM {tables.RIGHTS} AS r WHERE r.search_session_id = s.id AND r.{named} = {value})"""
        steps.append((text, (session, name, *key.values())))
    await store.database.transact(steps)
    await store.database.wake()
    return await lookup.list_rights(store, settings, session=session)
