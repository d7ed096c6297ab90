"""Who holds which item, and how they get it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.engine import controls
from tabellion.engine.sql import NOW
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review import claims, editing, errors, items, priority, queue
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.review.queue import review_queue
from tabellion.testing import Clock
from tests.pipelines.documents.review.items import ANNA, BEN, CLEO, put, put_user, trail, types
from tests.workers import ask


def timed(url: str, story: Any) -> Any:
    """Run a story with a clock that only it moves."""

    async def go() -> Any:
        clock = Clock()
        store = Store(url, clock=clock, durable=False)
        try:
            await tables.SCHEMA.prepare(store)
            return await story(store, clock)
        finally:
            await store.close()

    return asyncio.run(go())


def test_the_most_urgent_item_is_claimed_first(url: str) -> None:
    """In order of priority, each by one person, until nothing is left."""

    async def go(store: Store) -> Any:
        added = [await put(store, confidence=1 - number / 10, complexity=0.0) for number in range(4)]
        await priority.refresh(store, at_once=True)
        taken = [await claims.claim_next(store, person) for person in (ANNA, BEN, ANNA, BEN, CLEO)]
        return added, taken, [await trail(store, item) for item in added], (await audit.verify(store)).whole

    added, taken, trails, whole = ask(url, go)
    assert taken == [*reversed(added), None]
    assert trails == [[("claimed", "ben")], [("claimed", "anna")]] * 2
    assert whole


def test_which_items_are_offered(url: str) -> None:
    """None that is held, escalated, being read, of another type, or postponed."""

    async def go(store: Store) -> Any:
        await put_user_named(store, "ben", "cleo")
        theirs = await put(store, assigned_to="ben")
        await store.database.fetch(f"UPDATE tabellion_review_items SET assigned_at = {NOW}")
        gone = await put(store, assigned_to="nobody")
        up = await put(store)
        await claims.escalate(store, up, ANNA, "odd")
        reading = await put(store, status_of="processing")
        other = await put(store, type="deed")
        mine = await put(store, assigned_to="anna", priority=0.1)
        typed = await claims.claim_next(store, ANNA, "deed")
        first = {await claims.claim_next(store, ANNA) for _ in range(4)}
        rest = {await claims.claim_next(store, CLEO) for _ in range(3)}
        with pytest.raises(errors.Assigned) as assigned:
            await claims.claim(store, theirs, ANNA)
        with pytest.raises(errors.ReprocessingUnderway):
            await claims.claim(store, reading, ANNA)
        return (typed, other), (first, {gone, mine, None}), (rest, {up, None}), assigned.value.to

    typed, first, rest, to = ask(url, go)
    assert typed[0] == typed[1]
    assert first[0] == first[1]
    assert rest[0] == rest[1]
    assert to == "ben"


async def put_user_named(store: Store, *names: str) -> None:
    """Add people who review."""
    await tables.SCHEMA.prepare(store)
    for name in names:
        await put_user(store, name)


def test_an_assignment_reserves_the_item_for_an_hour(url: str) -> None:
    """Then, or when it is overdue, anyone may claim it; at once if its assignee is away."""

    async def story(store: Store, clock: Clock) -> list[Any]:
        await put_user_named(store, "ben")
        item = await put(store)
        await claims.assign(store, item, CLEO, "ben", "knows it")
        found = [await claims.claim_next(store, ANNA)]
        clock.advance(queue.HOLD + 1)
        found.append(await claims.claim_next(store, ANNA))
        await claims.release(store, item, ANNA)
        await claims.assign(store, item, CLEO, "ben", "still")
        await store.database.fetch("UPDATE tabellion_users SET available = FALSE")
        found.append(await claims.claim_next(store, ANNA))
        return [one == item for one in found]

    assert timed(url, story) == [False, True, True]


def test_an_item_has_one_holder(url: str) -> None:
    """The second caller is told who holds it and until when; the holder may claim again."""

    async def story(store: Store, clock: Clock) -> None:
        item = await put(store)
        assert await claims.claim(store, item, ANNA)
        with pytest.raises(errors.ItemHeld) as held:
            await claims.claim(store, item, BEN)
        assert held.value.holder == "anna"
        assert held.value.until == pytest.approx(clock() + 300)
        clock.advance(200)
        assert not await claims.claim(store, item, ANNA)
        assert await claims.renew(store, item, ANNA) == pytest.approx(clock() + 300)
        assert await trail(store, item) == [("claimed", "anna")]
        with pytest.raises(errors.NotHeld) as not_held:
            await claims.renew(store, item, BEN)
        assert not_held.value.holder == "anna"

    timed(url, story)


def test_an_expired_lease_releases_the_item(url: str) -> None:
    """However often, without blame; the trail records it. A holder away too long has lost it."""

    async def story(store: Store, clock: Clock) -> None:
        item = await put(store)
        for _ in range(4):
            assert await claims.claim_next(store, ANNA) == item
            clock.advance(301)
        assert await claims.claim_next(store, BEN) == item
        with pytest.raises(errors.NotHeld):
            await claims.renew(store, item, ANNA)
        row = await items.row(store, item)
        assert (row["status"], row["holder"], row["reviewer"]) == ("in_review", "ben", "ben")
        expired = [("claimed", "anna"), ("expired", "tabellion")] * 4
        assert await trail(store, item) == [*expired, ("claimed", "ben")]

    timed(url, story)


def test_release_and_postpone(url: str) -> None:
    """A released item is offered again at once, a postponed one when its time has come, or on request."""

    async def story(store: Store, clock: Clock) -> None:
        item = await put(store)
        assert await claims.claim_next(store, ANNA) == item
        await claims.release(store, item, ANNA)
        assert await claims.claim_next(store, BEN) == item
        await claims.postpone(store, item, BEN, 60, "asks the vendor")
        row: Any = await items.row(store, item)
        assert (row["status"], row["postponed_until"]) == ("pending", pytest.approx(clock() + 60))
        assert await claims.claim_next(store, ANNA) is None
        await claims.claim(store, item, ANNA)
        await claims.postpone(store, item, ANNA, 60)
        clock.advance(61)
        assert await claims.claim_next(store, ANNA) == item
        with pytest.raises(errors.NotHeld):
            await claims.release(store, item, BEN)
        assert [action for action, _ in await trail(store, item)] == [
            "claimed", "released", "claimed", "postponed", "claimed", "postponed", "claimed",
        ]  # fmt: skip
        assert (await audit.history(store, item=item))[3]["reason"] == "asks the vendor"

    timed(url, story)


def test_escalated_items_are_for_operators(url: str) -> None:
    """The holder's claim ends; reviewers are not offered it and cannot claim it; an operator decides."""

    async def go(store: Store) -> None:
        await put_user_named(store, "anna")
        item = await put(store)
        await claims.claim(store, item, ANNA)
        with pytest.raises(errors.ItemHeld):
            await claims.escalate(store, item, BEN, "me too")
        await claims.escalate(store, item, ANNA, "looks forged")
        with pytest.raises(errors.Escalated):
            await claims.claim(store, item, BEN)
        assert await claims.claim_next(store, BEN) is None
        row = await items.row(store, item)
        assert (row["escalated_by"], row["escalation"], row["holder"]) == ("anna", "looks forged", None)
        assert await claims.claim_next(store, CLEO) == item
        await claims.assign(store, item, CLEO, "anna", "it is sound")
        assert (await items.row(store, item))["escalated_at"] is None
        assert await claims.claim_next(store, BEN) is None
        assert await claims.claim_next(store, ANNA) == item
        assert [action for action, _ in await trail(store, item)] == [
            "claimed", "escalated", "claimed", "reassigned", "claimed",
        ]  # fmt: skip

    ask(url, go)


def test_assignment_ends_the_claim_of_another(url: str) -> None:
    """By an operator or by the holder, to an existing user."""

    async def go(store: Store) -> None:
        await put_user_named(store, "anna", "ben")
        item = await put(store)
        with pytest.raises(errors.NotAllowed):
            await claims.assign(store, item, ANNA, "ben", "x")
        with pytest.raises(errors.InvalidValues, match="no available reviewer"):
            await claims.assign(store, item, CLEO, "zoe", "x")
        await claims.assign(store, item, CLEO, "anna", "x")
        await claims.claim(store, item, ANNA)
        await claims.assign(store, item, CLEO, "ben", "anna is ill")
        row = await items.row(store, item)
        assert (row["assigned_to"], row["holder"], row["status"]) == ("ben", None, "pending")
        await claims.claim(store, item, BEN)
        await claims.assign(store, item, BEN, None)
        assert (await items.row(store, item))["assigned_to"] is None
        entries = [one for one in await audit.history(store, item=item) if one["action"] == "reassigned"]
        assert [(one["actor"], one["before"], one["after"], one["reason"], one["more"]) for one in entries] == [
            ("cleo", None, "anna", "x", {}), ("cleo", "anna", "ben", "anna is ill", {"holder": "anna"}),
            ("ben", "ben", None, None, {"holder": "ben"}),
        ]  # fmt: skip

    ask(url, go)


def test_an_assignment_is_not_a_takeover(url: str) -> None:
    """Only an operator ends another's claim, whoever the item is assigned to."""

    async def story(store: Store, clock: Clock) -> None:
        await put_user_named(store, "anna", "ben")
        item = await put(store)
        await claims.assign(store, item, CLEO, "anna")
        clock.advance(queue.HOLD + 1)
        await claims.claim(store, item, BEN)
        for to in ("anna", "ben", None):
            if to != "ben":
                with pytest.raises(errors.ItemHeld) as held:
                    await claims.assign(store, item, ANNA, to)
                assert held.value.holder == "ben"
        await claims.renew(store, item, BEN)
        await claims.assign(store, item, CLEO, "anna")
        with pytest.raises(errors.NotHeld):
            await claims.renew(store, item, BEN)

    timed(url, story)


def test_assigning_an_item_to_its_holder_keeps_the_claim(url: str) -> None:
    """The assignment changes, the claim stays, and the trail records no end."""

    async def go(store: Store) -> None:
        await put_user_named(store, "anna", "ben")
        item = await put(store)
        await claims.claim(store, item, ANNA)
        await claims.assign(store, item, CLEO, "anna", "hers")
        row = await items.row(store, item)
        assert (row["assigned_to"], row["holder"], row["status"]) == ("anna", "anna", "in_review")
        await claims.assign(store, item, ANNA, "anna")
        await claims.renew(store, item, ANNA)
        last = (await audit.history(store, item=item))[-1]
        assert (last["action"], last["before"], last["after"], last["more"]) == ("reassigned", "anna", "anna", {})

    ask(url, go)


def test_concurrent_assignments_record_the_previous_assignee(url: str) -> None:
    """Each entry starts where the one before it ended, however many assign an item at once."""

    async def go() -> list[Any]:
        names = ["anna", "ben", "dan", "eve"]
        stores = [Store(url, durable=False) for _ in range(3)]
        try:
            await put_user_named(stores[0], *names)
            item = await put(stores[0])
            await asyncio.gather(
                *(claims.assign(stores[place % 3], item, CLEO, name) for place, name in enumerate(names))
            )
            await claims.escalate(stores[0], item, CLEO, "odd")
            return await audit.history(stores[0], item=item)
        finally:
            for store in stores:
                await store.close()

    entries = asyncio.run(go())
    assert [one["action"] for one in entries] == ["reassigned"] * 4 + ["escalated"]
    assert [one["before"] for one in entries] == [None, *(one["after"] for one in entries[:-1])]


def test_only_an_operator_takes_over(url: str) -> None:
    """It ends the other's claim, and the trail names both."""

    async def go(store: Store) -> None:
        item = await put(store)
        await claims.claim(store, item, ANNA)
        with pytest.raises(errors.NotAllowed):
            await claims.claim(store, item, BEN, takeover=True)
        with pytest.raises(errors.ItemHeld):
            await claims.claim(store, item, CLEO)
        assert await claims.claim(store, item, CLEO, takeover=True)
        with pytest.raises(errors.NotHeld) as lost:
            await claims.release(store, item, ANNA)
        assert lost.value.holder == "cleo"
        assert await trail(store, item) == [("claimed", "anna"), ("released", "cleo"), ("claimed", "cleo")]
        assert (await audit.history(store, item=item))[1]["more"] == {"holder": "anna"}
        await claims.release(store, item, CLEO)
        await put_user(store, "anna")
        await claims.assign(store, item, CLEO, "anna", "hers")
        await claims.escalate(store, item, CLEO, "odd")
        assert await claims.claim(store, item, CLEO, takeover=True)
        await claims.release(store, item, CLEO)
        await store.database.fetch("UPDATE tabellion_documents SET status = 'queued'")
        with pytest.raises(errors.ReprocessingUnderway):
            await claims.claim(store, item, CLEO, takeover=True)
        await store.database.fetch("UPDATE tabellion_review_items SET status = 'approved'")
        with pytest.raises(errors.Closed):
            await claims.claim(store, item, CLEO, takeover=True)

    ask(url, go)


def test_claiming_continues_behind_the_last_item(url: str) -> None:
    """After releasing one, the next in line is offered, and the first again at the end."""

    async def go(store: Store) -> Any:
        added = [await put(store, priority=0.9 - number / 10, confidence=0.0) for number in range(3)]
        priority._next[store] = 1e18  # the priorities stay as they were put
        seen = []
        at: str | None = None
        for _ in range(4):
            at = await claims.claim_next(store, ANNA, after=at)
            assert at is not None
            await claims.release(store, at, ANNA)
            seen.append(added.index(at))
        return seen

    assert ask(url, go) == [0, 1, 2, 0]


def test_a_missing_item(url: str) -> None:
    """Every action says so."""

    async def go(store: Store) -> None:
        await tables.SCHEMA.prepare(store)
        for verb in (
            claims.claim(store, "x", ANNA), claims.renew(store, "x", ANNA), claims.release(store, "x", ANNA),
            claims.escalate(store, "x", ANNA, "y"), claims.assign(store, "x", CLEO, None),
        ):  # fmt: skip
            with pytest.raises(errors.NoSuchItem):
                await verb

    ask(url, go)


def test_a_document_deleted_under_its_holder(url: str) -> None:
    """The claim is over, and the next sweep closes it in the register."""

    async def story(store: Store, clock: Clock) -> None:
        item = await put(store)
        await claims.claim(store, item, ANNA)
        await store.database.fetch("DELETE FROM tabellion_review_items")
        with pytest.raises(errors.NoSuchItem):
            await claims.renew(store, item, ANNA)
        clock.advance(301)
        assert await claims.claim_next(store, ANNA) is None
        assert await store.find_claim(review_queue(), item) is None

    timed(url, story)


def test_a_paused_queue_gives_nothing(url: str) -> None:
    """Claims are refused, holders continue, and nothing is lost."""

    async def go(store: Store) -> None:
        held, free = await put(store), await put(store)
        await claims.claim(store, held, ANNA)
        await controls.pause(store, review_queue(), "audit")
        for verb in (
            claims.claim_next(store, ANNA), claims.claim(store, free, BEN),
            claims.claim(store, held, CLEO, takeover=True),
        ):  # fmt: skip
            with pytest.raises(errors.ReviewPaused, match="the review queue is paused: audit") as paused:
                await verb
            assert paused.value.reason == "audit"
        with pytest.raises(errors.ItemHeld):
            await claims.claim(store, held, BEN)
        assert not await claims.claim(store, held, ANNA)
        await controls.resume(store, review_queue())
        assert await claims.claim_next(store, ANNA) == free
        assert await claims.claim_next(store, ANNA) is None

    ask(url, go)


def test_the_number_of_held_items_is_limited(url: str) -> None:
    """The error lists the held items; finishing one makes room, and others are offered the rest."""

    async def go(store: Store) -> None:
        for _ in range(claims.HELD + 2):
            await put(store)
        taken = [await claims.claim_next(store, CLEO) for _ in range(claims.HELD)]
        [other, last] = [row["id"] for row in await store.database.fetch(
            "SELECT id FROM tabellion_review_items WHERE status = 'pending' ORDER BY id")]  # fmt: skip
        await claims.claim(store, other, ANNA)
        for verb in (
            claims.claim_next(store, CLEO), claims.claim(store, last, CLEO),
            claims.claim(store, other, CLEO, takeover=True),
        ):  # fmt: skip
            with pytest.raises(errors.TooMany) as many:
                await verb
            assert many.value.held == sorted(str(one) for one in taken)
        await claims.renew(store, other, ANNA)
        assert not await claims.claim(store, str(taken[0]), CLEO)
        await claims.release(store, str(taken[0]), CLEO)
        assert await claims.claim(store, last, CLEO)
        assert await claims.claim_next(store, BEN) == taken[0]

    ask(url, go)


def test_a_returning_holder_continues(url: str) -> None:
    """Even after their lease expired; not once something else happened to the item."""

    async def story(store: Store, clock: Clock) -> None:
        item = await put(store)

        async def away() -> None:
            clock.advance(301)
            await claims.sweep(store)
            assert (await items.row(store, item))["holder"] is None

        await claims.claim(store, item, ANNA)
        await away()
        with pytest.raises(errors.NotHeld):
            await claims.renew(store, item, BEN)
        assert await claims.renew(store, item, ANNA) == pytest.approx(clock() + 300)
        await away()
        assert await editing.edit(store, types, item, ANNA, 1, {"vendor": Change("confirm")}) == 2
        assert await trail(store, item) == [
            *[("claimed", "anna"), ("expired", "tabellion")] * 2, ("claimed", "anna"), ("confirmed", "anna"),
        ]  # fmt: skip
        assert (await audit.history(store, item=item))[2]["reason"] == claims.BACK
        await claims.release(store, item, ANNA)
        with pytest.raises(errors.NotHeld):
            await claims.renew(store, item, ANNA)
        await claims.claim(store, item, ANNA)
        await away()
        await claims.escalate(store, item, CLEO, "odd")
        with pytest.raises(errors.NotHeld):
            await claims.renew(store, item, ANNA)

    timed(url, story)


def test_one_of_many_concurrent_claims_succeeds(url: str) -> None:
    """Of twelve concurrent callers over three stores, exactly one gets it."""

    async def go() -> list[str | None]:
        stores = [Store(url, durable=False) for _ in range(3)]
        try:
            item = await put(stores[0])
            people = [Person(f"p{number}", 2) for number in range(12)]
            taken = await asyncio.gather(
                *(claims.claim_next(stores[place % 3], person) for place, person in enumerate(people))
            )
            assert (await trail(stores[0], item)).count(("claimed", f"p{taken.index(item)}")) == 1
            return taken
        finally:
            for store in stores:
                await store.close()

    assert sorted(one is None for one in asyncio.run(go())) == [False, *[True] * 11]


def test_a_row_that_stays_locked_has_no_holder_to_name(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a claim or an assignment that loses every race says so in any language, without a name."""
    monkeypatch.setattr(claims, "RACES", 0)

    async def go(store: Store) -> list[errors.ItemHeld]:
        item = await put(store)

        async def claim_nothing(*_: object, **__: object) -> list[Any]:
            return []

        monkeypatch.setattr(store, "claim", claim_nothing)
        with pytest.raises(errors.ItemHeld) as claimed:
            await claims.claim(store, item, ANNA)
        with pytest.raises(errors.ItemHeld) as assigned:
            await claims.assign(store, item, CLEO, None)
        return [claimed.value, assigned.value]

    for error in ask(sqlite_url, go):
        assert (error.holder, error.until) == (None, None)
        message = error.args[0]
        assert (message.code, message.params) == ("problem.item_held", {})
