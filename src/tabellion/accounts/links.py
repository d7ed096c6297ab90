"""Sign-in links: valid once, for fifteen minutes."""

from __future__ import annotations

from tabellion.accounts import audit, link_rows, sessions, tables, users
from tabellion.accounts.audit import COMMAND, AuditEntry
from tabellion.accounts.keys import NameTaken
from tabellion.accounts.link_rows import LinkRow
from tabellion.accounts.sessions import Ticket
from tabellion.accounts.users import User
from tabellion.engine.store import Store

SECONDS = 15 * 60.0


async def make(
    store: Store, environment: str, name: str, new_role: str | None = None, *, by: str = COMMAND
) -> Ticket | None:
    """Creates a link for a user; with `new_role`, its use creates the user. None if the user is unknown or disabled."""
    await tables.SCHEMA.prepare(store)
    user = await users.find_by_name(store, name)
    entry = AuditEntry("link_made", by, more={"user": users.plain_name(name)})
    if user.disabled_at is not None if user else new_role is None:
        return None
    ticket = sessions.new_ticket(environment)
    await store.database.transact(
        [
            link_rows.delete_expired(),
            link_rows.insert(store.dialect, ticket.hash, environment, users.plain_name(name), new_role, SECONDS),
            audit.bind_entry(store.dialect, entry),
        ]
    )
    return ticket


def address(url: str, ticket: Ticket) -> str:
    """The link's URL. Browsers do not send what follows the #, so no server log contains the secret."""
    return f"{url.replace('//0.0.0.0', '//127.0.0.1').replace('//[::]', '//[::1]')}/enter#{ticket}"


async def use(store: Store, ticket: Ticket) -> User | None:
    """Uses up the link and returns its user; None if it was used, has expired, or its user is disabled."""
    await tables.SCHEMA.prepare(store)
    text, values = link_rows.use(store.dialect, ticket.hash, ticket.environment)
    rows: list[LinkRow] = await store.database.fetch(text, *values)
    if not rows:
        return None
    name, role = rows[0]["user_name"], rows[0]["new_role"]
    user = await users.find_by_name(store, name)
    if user is None and role is not None:
        try:
            user = await users.add(store, name, role)
        except NameTaken:  # another link created the user a moment earlier
            user = await users.find_by_name(store, name)
    return user if user is not None and user.disabled_at is None else None
