"""The tables of accounts and the types of their rows."""

from __future__ import annotations

import pytest

from tabellion.accounts import tables
from tabellion.accounts.audit import AuditRow, HeadRow
from tabellion.accounts.keys import KeyRow
from tabellion.accounts.link_rows import LinkRow
from tabellion.accounts.session_rows import SessionRow
from tabellion.accounts.users import UserRow
from tabellion.engine.store import Store
from tabellion.web.idempotency import IdempotencyRow
from tabellion.web.throttle import TriesRow
from tests.workers import ask

ROWS = {
    "tabellion_users": UserRow,
    "tabellion_api_keys": KeyRow,
    "tabellion_sessions": SessionRow,
    "tabellion_sign_in_links": LinkRow,
    "tabellion_audit_log": AuditRow,
    "tabellion_idempotency_keys": IdempotencyRow,
    "tabellion_sign_in_tries": TriesRow,
}


@pytest.mark.parametrize("table", ROWS)
def test_a_row_type_has_the_columns_of_its_table(url: str, table: str) -> None:
    """A column that is added to one of them must be added to the other."""
    assert set(ROWS[table].__annotations__) == ask(url, lambda store: columns(store, table))


def test_the_end_of_the_chain_is_one_row(url: str) -> None:
    """Its row type has every column but the constant id."""
    assert {*HeadRow.__annotations__, "id"} == ask(url, lambda store: columns(store, "tabellion_audit_head"))


async def columns(store: Store, name: str) -> set[str]:
    await tables.SCHEMA.prepare(store)
    table = await store.database.table(name)
    assert table is not None
    return set(table.columns)
