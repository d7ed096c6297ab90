"""`verify` finds nothing wrong with a sound database, and every violation that is planted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tabellion import Queue, Store
from tabellion.delivery import endpoints
from tabellion.engine.settlement import Settlement
from tabellion.monitor import verify as verification
from tabellion.monitor.verify import KINDS, NOTES, Violation, confirm, verify
from tabellion.monitor.view import QueueView
from tests.accounts.test_audit import OFF, appended, some
from tests.engine.made_tables import STATES, TASKS, tasks_queue

Plant = Callable[[Store, Queue], Awaitable[None]]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again after a moment."""
    monkeypatch.setattr(verification, "PAUSE", 0.01)


async def prepare(store: Store) -> Queue:
    """A table with rows that are ready, running, done, failed, waiting for a retry, and back at work."""
    await store.open()
    await store.database.fetch(TASKS)
    queue = tasks_queue(lease=600)
    await store.add_many(queue, [{"id": number} for number in range(1, 7)])
    jobs = await store.claim(queue, 5, "w1")
    await store.settle([Settlement(jobs[0], "done")])
    await store.settle([Settlement(jobs[1], "failed", error="no")])
    await store.settle([Settlement(jobs[2], "retried", error="no", after=600)])
    await store.settle([Settlement(jobs[3], "retried", error="no")])
    [again] = await store.claim(queue, 1, "w2")
    assert (again.key, again.attempt) == (4, 2)
    return queue


def look(url: str, *plants: Plant) -> list[Violation]:
    """Return what is found after these changes."""

    async def story() -> list[Violation]:
        async with Store(url) as store:
            queue = await prepare(store)
            for plant in plants:
                await plant(store, queue)
        async with Store(url, read_only=True) as store:
            return await verify(store, [QueueView(queue)])

    return asyncio.run(story())


def does(*statements: str) -> Plant:
    """Return a plant that runs these statements; AGO is an hour ago, TOKEN a token."""

    async def plant(store: Store, queue: Queue) -> None:
        ago = "clock_timestamp() - interval '1 hour'" if store.dialect == "postgresql" else "1000.0"
        token = "gen_random_uuid()" if store.dialect == "postgresql" else "'t'"
        for statement in statements:
            await store.database.fetch(statement.replace("AGO", ago).replace("TOKEN", token))

    return plant


INSERT = """INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
  claimed_at, lease_until, settled_at, outcome) VALUES ('tasks', {key}, TOKEN, 1, 0, 0, 'w9', AGO, AGO, AGO, {end})"""
DROP = "DROP INDEX tabellion_attempts_live"

PLANTED: dict[str, tuple[str, Plant]] = {
    "index": ("tabellion_attempts", does(DROP)),
    "two_claims": ("tasks/4", does(DROP, INSERT.format(key="'4', 3", end="NULL, NULL"))),
    "gaps": ("tasks/4", does("UPDATE tabellion_attempts SET n = 3 WHERE key = '4' AND n = 2")),
    "overlaps": ("tasks/4", does("UPDATE tabellion_attempts SET claimed_at = AGO WHERE key = '4' AND n = 2")),
    "claimed_early": ("tasks/4", does(
        "UPDATE tabellion_attempts SET retry_at = lease_until WHERE key = '4' AND n = 1",
        "UPDATE tabellion_attempts SET lease_until = claimed_at WHERE key = '4' AND n = 1")),
    "swept_early": ("tasks/3", does("UPDATE tabellion_attempts SET outcome = 'crashed' WHERE key = '3'")),
    "miscounted": ("tasks/4", does("UPDATE tabellion_attempts SET attempt = 3 WHERE key = '4' AND n = 2")),
    "half_settled": ("tasks/1", does("UPDATE tabellion_attempts SET outcome = NULL WHERE key = '1'")),
    "out_of_bounds": ("tasks/5", does("UPDATE tabellion_attempts SET attempt = 9, n = 2 WHERE key = '5'")),
    "unclaimed": ("tasks/1", does("UPDATE tasks SET status = 'working', worker = 'w1' WHERE id = 1")),
    "unswept": ("tasks/5", does("UPDATE tabellion_attempts SET lease_until = AGO WHERE key = '5'")),
    "outcome_differs": ("tasks/1", does("UPDATE tasks SET status = 'failed' WHERE id = 1")),
    "foreign": ("tasks/6", does("UPDATE tasks SET status = 'working', worker = 'psql' WHERE id = 6")),
}  # fmt: skip


def test_a_sound_database_is_clean(url: str) -> None:
    """Rows in every state, live claims included."""
    assert look(url) == []


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_violation_is_found(url: str, kind: str) -> None:
    """It names the row and what to do."""
    where, plant = PLANTED[kind]
    found = [one for one in look(url, plant) if one.kind == kind]
    assert [one.where for one in found] == [where]
    assert found[0].what
    assert found[0].fix
    assert found[0].level == ("note" if kind in NOTES else "violation")


def test_two_deliveries_with_one_id(url: str) -> None:
    """The table has lost its primary key."""

    async def plant(store: Store, queue: Queue) -> None:
        await endpoints.SCHEMA.prepare(store)
        names = "id, endpoint_id, document_id, event, body, status, attempts, created_at"
        await store.database.transact(
            [
                ("ALTER TABLE tabellion_webhook_deliveries RENAME TO former", ()),
                (f"CREATE TABLE tabellion_webhook_deliveries AS SELECT {names} FROM former", ()),
                *[
                    (
                        """INSERT INTO tabellion_webhook_deliveries (id, endpoint_id, document_id, event, body)
VALUES ('same', 'e', 'd', 'x', 'b')""",
                        (),
                    )
                ]
                * 2,
            ]
        )

    assert [(one.kind, one.where) for one in look(url, plant)] == [("delivery_twice", "webhooks/same")]


def test_a_changed_audit_log(url: str) -> None:
    """Whoever changed it."""

    async def plant(store: Store, queue: Queue) -> None:
        await appended(store, *some(3))
        for statement in (*OFF[store.dialect], "UPDATE tabellion_audit_log SET actor = 'nobody' WHERE n = 2"):
            await store.database.fetch(statement)

    assert [(one.kind, one.where) for one in look(url, plant)] == [("audit", "tabellion_audit_log/2")]


def test_files_that_nobody_removes(url: str) -> None:
    """Since yesterday: no worker of that pipeline runs."""
    long_ago = "INSERT INTO tabellion_leftovers VALUES ('1', 'documents', '{}', EVER)"

    async def plant(store: Store, queue: Queue) -> None:
        ever = "to_timestamp(0)" if store.dialect == "postgresql" else "0.0"
        await store.database.fetch(long_ago.replace("EVER", ever))

    assert [(one.kind, one.level) for one in look(url, plant)] == [("leftovers", "note")]


def test_every_kind_is_tried() -> None:
    """No check without a violation that shows that it can fail."""
    assert set(PLANTED) | {"delivery_twice", "audit", "leftovers"} == set(KINDS)


def test_what_has_passed_is_not_reported() -> None:
    """A suspect that is sound at the second or third look is none."""
    seen: list[Any] = []

    def answers(*given: list[str]) -> Any:
        left = list(given)

        async def look(places: Any) -> list[Violation]:
            seen.append(places)
            return [Violation("gaps", place, "", "") for place in left.pop(0)]

        return look

    assert asyncio.run(confirm(answers(["a", "b", "c"], ["a", "b"], ["b", "x"]))) == [Violation("gaps", "b", "", "")]
    assert seen == [None, ["a", "b", "c"], ["a", "b"]]
    assert asyncio.run(confirm(answers([]))) == []


def test_histories_are_read_in_pages(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history that is cut by a page is judged as a whole, and only once."""
    monkeypatch.setattr(verification, "PAGE", 1)
    where, plant = PLANTED["miscounted"]
    assert [(one.kind, one.where) for one in look(url, plant)] == [("miscounted", where)]


def test_queues_without_a_table_are_left_out(url: str) -> None:
    """Their attempts are judged all the same."""

    async def story() -> list[Violation]:
        async with Store(url) as store:
            await prepare(store)
            await store.database.fetch("UPDATE tabellion_attempts SET attempt = 3 WHERE key = '4' AND n = 2")
            return await verify(store, [QueueView(Queue("nowhere", name="tasks", **STATES))])

    assert [one.kind for one in asyncio.run(story())] == ["miscounted"]


def test_notes_hide_no_violation(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows that were edited by hand, or that another program holds, leave room for what is really wrong."""
    monkeypatch.setattr(verification, "MOST", 2)
    plants = [
        does(
            "UPDATE tasks SET status = 'failed' WHERE id = 1",
            "UPDATE tasks SET status = 'done' WHERE id = 2",
            INSERT.format(key="'7', 2", end="AGO, 'done'"),
            "INSERT INTO tasks (id, status) VALUES (7, 'failed')",
        ),
        does("UPDATE tasks SET status = 'working', worker = 'psql' WHERE id = 6"),
        does("INSERT INTO tasks (id, status) VALUES (-1, 'working'), (-2, 'working')"),
        PLANTED["miscounted"][1],
        does("UPDATE tasks SET status = 'working', worker = 'w1' WHERE id = 3"),
    ]
    found = [(one.kind, one.where) for one in look(url, *plants)]
    assert ("miscounted", "tasks/4") in found
    assert ("unclaimed", "tasks/3") in found
    assert [kind for kind, _ in found].count("outcome_differs") == 2


def test_a_key_that_the_table_cannot_have(url: str) -> None:
    """The type of its column has changed: the claims of the former keys are judged, too."""
    former = does(
        INSERT.format(key="'a-7', 1", end="NULL, NULL"), "UPDATE tabellion_attempts SET attempt = 9 WHERE key = 'a-7'"
    )
    found = {(one.kind, one.where) for one in look(url, former)}
    assert found == {(kind, "tasks/a-7") for kind in ("miscounted", "out_of_bounds", "unswept")}


def test_beside_running_workers(url: str) -> None:
    """Rows that are claimed, retried and finished all the time: no false alarm."""

    async def story() -> list[Violation]:
        found: list[Violation] = []
        async with Store(url) as store, Store(url, read_only=True) as reader:
            await store.database.fetch(TASKS)
            queue = tasks_queue()
            await store.add_many(queue, [{"id": number} for number in range(1, 201)])
            working = True

            async def work(name: str) -> None:
                while working:
                    jobs = await store.claim(queue, 20, name)
                    again = [job for job in jobs[: len(jobs) // 2] if job.attempt < 4]  # as many as a worker tries
                    await store.settle([Settlement(job, "retried", error="no") for job in again])
                    await store.settle([Settlement(job, "done") for job in jobs if job not in again])
                    await store.database.fetch("UPDATE tasks SET status = 'new' WHERE status = 'done'")

            workers = [asyncio.create_task(work(f"w{number}")) for number in range(3)]
            for _ in range(5):
                found += await verify(reader, [QueueView(queue)])
            working = False
            await asyncio.gather(*workers)
        return found

    assert asyncio.run(story()) == []
