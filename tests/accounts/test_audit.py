"""The audit log: one chain, built in the database, that reveals later changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.accounts.audit import AuditEntry
from tabellion.accounts.tables import GENESIS
from tabellion.errors import StoreError
from tabellion.pipelines.documents import tables
from tabellion.testing import Clock
from tests.table_owner import owning
from tests.workers import ask

OFF = {
    "sqlite": [
        f"DROP TRIGGER tabellion_audit_{one}"
        for one in ("log_unchanged", "log_undeleted", "log_headed", "head_unchanged", "head_undeleted")
    ],
    "postgresql": [
        "DROP TRIGGER tabellion_audit_log_kept ON tabellion_audit_log",
        "DROP TRIGGER tabellion_audit_head_kept ON tabellion_audit_head",
        "ALTER TABLE tabellion_audit_log DROP CONSTRAINT audit_log_counted",
    ],
}  # fmt: skip
FORGED = """INSERT INTO tabellion_audit_log (n, at, document_id, actor, action, body, previous, hash)
VALUES ({n}, '2020', 'd1', 'anna', 'approved', '{{"reason": "forged"}}', 'x', 'y')"""


async def appended(store: Store, *entries: AuditEntry) -> None:
    """Write entries, each in its own transaction."""
    await tables.SCHEMA.prepare(store)
    for entry in entries:
        await store.database.transact([audit.bind_entry(store.dialect, entry)])


def some(count: int) -> list[AuditEntry]:
    """Entries with everything an entry may have."""
    return [
        AuditEntry("corrected", "änna", f"d{n % 3}", f"i{n % 3}", "total", before=None,
              after=[{"a": f"{n}"}, "\u2028'\""],
              reason="says so\nthere", more={"n": n})
        for n in range(count)
    ]  # fmt: skip


def test_entries_are_chained(url: str) -> None:
    """Numbers without a gap, each with the hash of the one before, and a history per document and per item."""

    async def go(store: Store) -> Any:
        assert await empty(store)
        await appended(store, *some(7))
        return (
            await audit.verify(store), await audit.history(store, subject="d1"), await audit.history(store, item="i2")
        )  # fmt: skip

    async def empty(store: Store) -> bool:
        await tables.SCHEMA.prepare(store)
        return await audit.verify(store) == audit.ChainCheck(0, GENESIS)

    verdict, document, item = ask(url, go)
    assert (verdict.n, verdict.whole) == (7, True)
    assert [entry["n"] for entry in document] == [2, 5]
    assert [entry["n"] for entry in item] == [3, 6]
    first = document[0]
    assert first | {"at": "", "n": 0} == {
        "n": 0, "at": "", "document_id": "d1", "item_id": "i1", "actor": "änna", "action": "corrected",
        "field": "total", "before": None, "after": [{"a": "1"}, "\u2028'\""], "reason": "says so\nthere",
        "more": {"n": 1},
    }  # fmt: skip
    assert first["at"].endswith("Z")


def test_concurrent_writers_build_one_chain(url: str) -> None:
    """Four stores at once leave one chain with every entry in it."""

    async def go() -> audit.ChainCheck:
        stores = [Store(url, durable=False) for _ in range(4)]
        try:
            await tables.SCHEMA.prepare(stores[0])
            await asyncio.gather(*(appended(store, *some(15)) for store in stores))
            return await audit.verify(stores[0])
        finally:
            for store in stores:
                await store.close()

    verdict = asyncio.run(go())
    assert (verdict.n, verdict.whole, verdict.why) == (60, True, "")


def test_values_known_only_to_the_database_are_in_the_body(url: str) -> None:
    """Values of a row go into columns, body and hash; without a row nothing is written."""

    async def go(store: Store) -> Any:
        await tables.SCHEMA.prepare(store)
        source = "FROM (SELECT CAST(:name AS text) AS a, CAST(NULL AS text) AS b) AS r WHERE r.a = :wanted"
        entry = AuditEntry("assigned", "x", "d", reason='"@after@"')
        for wanted in ('say "hi"', "nobody"):
            values = {"name": 'say "hi"', "wanted": wanted}
            text, given = audit.statement(store.dialect, entry, source, values, item_id="r.a", after="r.b")
            await store.database.transact([audit.bind_statement(text, given)])
        return await audit.verify(store), await audit.history(store, subject="d")

    verdict, entries = ask(url, go)
    assert verdict.whole
    assert [(one["item_id"], one["after"], one["reason"]) for one in entries] == [('say "hi"', None, '"@after@"')]


def test_the_body_of_an_entry_is_as_in_existing_chains() -> None:
    """The subject is stored under the name it always had: the hashes of old and new entries are computed alike."""
    entry = AuditEntry("rejected", "anna", "d1", "i1", before="in_review", reason="other")
    assert audit.canonical(entry.body()) == (
        '{"action":"rejected","actor":"anna","before":"in_review","document_id":"d1","item_id":"i1","reason":"other"}'
    )


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("UPDATE tabellion_audit_log SET actor = 'ben' WHERE n = 4", 4),
        ("UPDATE tabellion_audit_log SET item_id = NULL WHERE n = 2", 2),
        ("UPDATE tabellion_audit_log SET body = replace(body, 'says', 'said') WHERE n = 3", 3),
        ("UPDATE tabellion_audit_log SET at = '2020-01-01T00:00:00.000Z' WHERE n = 5", 5),
        ("DELETE FROM tabellion_audit_log WHERE n = 6", 6),
        ("DELETE FROM tabellion_audit_log WHERE n = 1", 1),
        ("DELETE FROM tabellion_audit_log WHERE n = 9", 9),
        ("UPDATE tabellion_audit_log SET n = CASE n WHEN 2 THEN 103 ELSE 102 END WHERE n IN (2, 3)", 2),
        ("DELETE FROM tabellion_audit_head", 10),
        ("UPDATE tabellion_audit_head SET n = 8", 8),
        ("UPDATE tabellion_audit_head SET hash = previous", 9),
        (FORGED.format(n=-1), -1),
        (FORGED.format(n=0), 0),
        (FORGED.format(n=-(2**63)), -(2**63)),
        (FORGED.format(n=10), 10),
        (FORGED.format(n=11), 10),
    ],
)
def test_any_change_is_noticed(url: str, change: str, broken: int) -> None:
    """Changed, removed, truncated or reordered: the first entry that differs is named."""
    ask(url, lambda store: appended(store, *some(9)))
    with owning(url, create=False) as owner:
        for trigger in OFF[owner.dialect]:
            owner(trigger)
        owner(change)
        owner("UPDATE tabellion_audit_log SET n = n - 100 WHERE n > 100")
    verdict = ask(url, audit.verify)
    assert (verdict.whole, verdict.broken) == (False, broken), verdict
    assert verdict.why


def test_a_rebuilt_chain_is_noticed(url: str) -> None:
    """Someone with full access can recompute all hashes, but not one that was noted elsewhere."""

    async def go(store: Store) -> str:
        await appended(store, *some(5))
        return (await audit.verify(store)).head

    noted = ask(url, go)
    with owning(url, create=False) as owner:
        for trigger in OFF[owner.dialect]:
            owner(trigger)
        last = GENESIS
        for row in owner("SELECT n, at, body FROM tabellion_audit_log ORDER BY n"):
            body = audit.canonical(json.loads(row["body"]) | {"reason": "another"})
            mark = audit.digest(last, row["n"], row["at"], body)
            owner(
                "UPDATE tabellion_audit_log SET body = $1, previous = $2, hash = $3 WHERE n = $4",
                body,
                last,
                mark,
                row["n"],
            )
            last = mark
        owner("UPDATE tabellion_audit_head SET hash = $1", last)
    assert ask(url, audit.verify).whole
    verdict = ask(url, lambda store: audit.verify(store, known=noted))
    assert (verdict.whole, verdict.broken) == (False, 1)


@pytest.mark.parametrize("n", [-1, 0])
def test_an_entry_before_the_first_is_refused(url: str, n: int) -> None:
    """Nobody can write outside the chain; and an old entry of that kind is shown in no timeline."""
    ask(url, lambda store: appended(store, *some(2)))
    with pytest.raises(StoreError):
        ask(url, lambda store: store.database.fetch(FORGED.format(n=n)))
    with owning(url, create=False) as owner:
        for step in (*OFF[owner.dialect], FORGED.format(n=n)):
            owner(step)
    assert [one["n"] for one in ask(url, lambda store: audit.history(store, subject="d1"))] == [2]


def test_times_never_decrease(url: str) -> None:
    """A writer that waited for the end of the chain read the clock earlier: no entry precedes the one before it."""

    async def go() -> Any:
        clock = Clock()
        store = Store(url, clock=clock, durable=False)
        try:
            await appended(store, *some(1))
            clock.advance(-60)
            await appended(store, *some(1))
            clock.advance(120)
            await appended(store, *some(1))
            return await audit.history(store, subject="d0"), await audit.verify(store)
        finally:
            await store.close()

    entries, verdict = asyncio.run(go())
    first, second, third = (one["at"] for one in entries)
    assert first == second < third
    assert verdict.whole


def test_an_unknown_action_is_rejected() -> None:
    """Before anything is written."""
    with pytest.raises(ValueError, match="not an audit action"):
        AuditEntry("sneezed", "anna")
