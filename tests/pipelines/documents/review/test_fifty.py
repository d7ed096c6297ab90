"""Many reviewers at once: no item held by two, no edit lost, every action in the chain; and tests of the checker."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.monitor.verify import verify
from tabellion.monitor.view import QueueView
from tabellion.pipelines.documents.review import claims, editing, item_changes, queue
from tabellion.pipelines.documents.verification import verify_documents
from tests.pipelines.documents.papers import settings_in
from tests.pipelines.documents.review import checker, fifty
from tests.pipelines.documents.review.checker import World

#: What even a small run cannot avoid.
NEEDED = (
    "claimed",
    "released",
    "postponed",
    "corrected",
    "confirmed",
    "absent",
    "approved",
    "rejected",
    "refused ItemChanged",
)
PEOPLE, ITEMS, STORES = 9, 70, 3


@pytest.fixture(autouse=True)
def _usual_lease() -> Iterator[None]:
    kept = queue.LEASE
    yield
    queue.LEASE = kept


def crowded(url: str, folder: Path, *, people: int = PEOPLE, items: int = ITEMS, seed: int = 1) -> World:
    """Do a run in this process, over several stores."""
    names = [f"p{number}" for number in range(people)]

    async def go() -> World:
        async with Store(url, durable=False) as store:
            await fifty.fill(store, items, names)
        await fifty.crowd(url, folder, names, seed, stores=STORES)
        async with Store(url) as store:
            assert (await audit.verify(store)).whole
            view = QueueView(queue.review_queue(), people=True)
            # Nobody ends the claims of those who left.
            found = [*await verify(store, [view]), *await verify_documents(store, settings_in(folder))]
            assert [one for one in found if one.kind != "unswept"] == []
        return await fifty.look(url, folder)

    return asyncio.run(go())


@pytest.mark.timeout(120)
def test_many_reviewers_at_once(url: str, tmp_path: Path) -> None:
    """Nine on seventy items, who also leave, come back late, and work in two tabs."""
    report = checker.judge(crowded(url, tmp_path), needed=NEEDED)
    assert report.clean, str(report)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A small run without violations."""
    folder = tmp_path_factory.mktemp("crowd")
    kept = queue.LEASE
    try:
        finished = crowded(f"sqlite:///{folder}/work.db", folder, people=6, items=30)
    finally:
        queue.LEASE = kept
    assert checker.judge(finished).clean
    return finished


def _entry(world: World, action: str) -> dict[str, Any]:
    return next(entry for entry in world.entries[5:] if entry["action"] == action)


def rebuild_chain(world: World) -> None:
    """Recompute the whole chain, as someone with full access would."""
    last = "0" * 64
    for place, entry in enumerate(world.entries, 1):
        entry["n"], entry["previous"] = place, last
        last = entry["hash"] = audit.digest(last, place, entry["at"], entry["body"])
    world.head = (len(world.entries), last)


def _changed(world: World, entry: dict[str, Any], **facts: Any) -> None:
    entry["body"] = json.dumps(json.loads(entry["body"]) | facts)
    entry.update({name: value for name, value in facts.items() if name in entry})
    rebuild_chain(world)


def changed_row(world: World) -> None:
    """One entry has other content."""
    _entry(world, "corrected")["body"] = _entry(world, "corrected")["body"].replace("p", "q", 1)


def changed_column(world: World) -> None:
    """One entry names someone else."""
    _entry(world, "claimed")["actor"] = "nobody"


def deleted_row(world: World) -> None:
    """One entry is missing."""
    del world.entries[7]


def deleted_end(world: World) -> None:
    """The last entry is missing."""
    del world.entries[-1]


def swapped_rows(world: World) -> None:
    """Two entries are swapped."""
    one, other = world.entries[4], world.entries[5]
    for name in ("at", "body", "actor", "action", "document_id", "item_id"):
        one[name], other[name] = other[name], one[name]


def forgotten(world: World) -> None:
    """An approval is removed and the chain recomputed."""
    world.entries.remove(_entry(world, "approved"))
    rebuild_chain(world)


def forgotten_claim(world: World) -> None:
    """A claim is removed and the chain recomputed."""
    world.entries.remove(_entry(world, "claimed"))
    rebuild_chain(world)


def invented(world: World) -> None:
    """An action that never happened is added, and the chain recomputed."""
    body = {"document_id": None, "item_id": next(iter(world.items)), "actor": "p1", "action": "reassigned"}
    world.entries.append({"at": "2030-01-01T00:00:00.000Z", "body": json.dumps(body), **body})
    rebuild_chain(world)


def somebody_else(world: World) -> None:
    """An edit is attributed to someone else, and the chain recomputed."""
    _changed(world, _entry(world, "corrected"), actor="p99")


def lost_value(world: World) -> None:
    """The stored value is not the last one given."""
    item = json.loads(_entry(world, "corrected")["body"])["item_id"]
    world.values[(item, "vendor")] = "another"


def overwritten(world: World) -> None:
    """An edit was made on an outdated version."""
    _changed(world, _entry(world, "corrected"), before="something else")


def skipped_version(world: World) -> None:
    """A version is missing."""
    _changed(world, _entry(world, "approved"), version=77)


def two_at_once(world: World) -> None:
    """The register has a claim that starts before the previous one ended."""
    key = next(one["key"] for one in world.attempts if one["n"] == 2)
    first, second = (one for one in world.attempts if one["key"] == key and one["n"] in (1, 2))
    second["claimed_at"] = first["settled_at"] - 1


def never_ended(world: World) -> None:
    """The register has a claim that never ended."""
    world.attempts[-1]["settled_at"] = None


def left_open(world: World) -> None:
    """An item is pending, whatever the trail says."""
    next(iter(world.items.values()))["status"] = "pending"


def denied(world: World) -> None:
    """A reviewer was told that an edit is saved, and it is nowhere."""
    one = next(one for one in world.journal if one["action"] == "edit" and one.get("refused") == "ItemChanged")
    del one["refused"]
    one["version"] = one["base"] + 1


TAMPERINGS: dict[Callable[[World], None], set[str]] = {
    changed_row: {"chain"}, changed_column: {"chain"}, deleted_row: {"chain"}, deleted_end: {"chain"},
    swapped_rows: {"chain"}, forgotten: {"unrecorded"}, forgotten_claim: {"registers_differ"}, invented: {"invented"},
    somebody_else: {"not_holder"}, lost_value: {"lost_edit"}, overwritten: {"lost_edit"},
    skipped_version: {"versions"}, two_at_once: {"two_holders"}, never_ended: {"unfinished"},
    left_open: {"wrong_end"}, denied: {"unrecorded", "lost_edit"},
}  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_the_checker_notices(world: World, tamper: Callable[[World], None]) -> None:
    """Whatever is done afterwards to the trail, the register, the fields or the journals."""
    other = copy.deepcopy(world)
    tamper(other)
    assert TAMPERINGS[tamper] & set(checker.judge(other).found), str(checker.judge(other))


def _without_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits that do not check the version they were made on."""
    right = item_changes.raise_version

    def wrong(dialect: Any, item: Any, version: int) -> Any:
        text, values = right(dialect, item, version)
        return text.replace("AND version = $2", "AND $2 = $2"), values

    monkeypatch.setattr(item_changes, "raise_version", wrong)


def _without_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits by former holders of the item."""

    async def amend(self: Store, job: Any, statements: Any) -> Any:
        return await self.database.transact(statements, guarded=True)

    async def anyone(store: Store, id: str, person: Any, wanted: Any = None) -> Any:  # noqa: A002
        job = await store.find_claim(wanted or queue.review_queue(), id)
        if job is None:
            raise await claims.explain_not_held(store, id)
        return job

    monkeypatch.setattr(Store, "amend", amend)
    monkeypatch.setattr(editing, "require_claim", anyone)


def _without_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases that are not recorded."""
    right = audit.statement

    def wrong(dialect: Any, entry: Any, *args: Any, **found: Any) -> Any:
        if entry.action == "released":
            return "UPDATE tabellion_review_items SET version = version WHERE 1 = 0", {}
        return right(dialect, entry, *args, **found)

    monkeypatch.setattr(audit, "statement", wrong)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        (_without_versions, {"versions", "lost_edit"}), (_without_fence, {"not_holder"}),
        (_without_trail, {"unrecorded", "two_holders"}),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)  # fmt: skip
def test_broken_reviews_are_noticed(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any, seen: set[str]
) -> None:
    """Without the version, the fence or the trail the same run reports it, at the latest the fifth time.

    Whether a reviewer does exactly what the fence forbids depends on timing.
    """
    broken(monkeypatch)
    for seed in range(1, 6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found = checker.judge(crowded(f"{sqlite_url}-{seed}", folder, people=12, items=150, seed=seed)).found
        if seen & set(found):
            return
    pytest.fail(f"not noticed in five runs; the last one found {dict(found)}")
