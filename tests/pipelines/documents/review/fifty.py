"""Many reviewers at once: claims, edits from two tabs, leaving, taking over; then everything is checked.

python -m tests.pipelines.documents.review.fifty --reviewers 50 --items 2000 --processes 4
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tabellion import Store
from tabellion.accounts import audit
from tabellion.engine.ids import new_id
from tabellion.engine.sql import later
from tabellion.errors import Busy, Unreachable
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review import claims, editing, errors, finishing, item_changes, items, queue
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.review.people import Person
from tests.pipelines.documents.review import checker
from tests.pipelines.documents.review.checker import Report, World
from tests.pipelines.documents.review.items import VALUES, put_user, types

ROOT = Path(__file__).parents[2]
LEASE = 1.5  #: seconds: who walks away is soon forgotten
NEEDED = (
    "claimed", "released", "expired", "postponed", "escalated", "reassigned", "corrected", "confirmed", "absent",
    "unlocked", "approved", "rejected", "reopened", "refused ItemChanged", "refused NotHeld", "refused ItemHeld",
)  # fmt: skip


class Hands(Protocol):
    """How a reviewer acts: by the functions of review, or over HTTP. Refusals are raised as review's errors."""

    async def claim_next(self) -> str | None:
        """Claim the next item."""

    async def claim(self, item: str, takeover: bool) -> bool:
        """Claim this item; return whether it was not theirs before."""

    async def version(self, item: str) -> int:
        """Return the item's version."""

    async def edit(self, item: str, version: int, changes: dict[str, Change]) -> int:
        """Change fields; return the new version."""

    async def approve(self, item: str, version: int) -> None:
        """Approve the item."""

    async def verb(self, item: str, verb: str, **facts: Any) -> None:
        """release, postpone, escalate, assign, reject, reopen, renew."""


class Direct:
    """Acts by the functions of review."""

    def __init__(self, store: Store, person: Person) -> None:
        self.store, self.person = store, person

    async def claim_next(self) -> str | None:
        """Claim the next item."""
        return await claims.claim_next(self.store, self.person)

    async def claim(self, item: str, takeover: bool) -> bool:
        """Claim this item; return whether it was not theirs before."""
        return await claims.claim(self.store, item, self.person, takeover=takeover)

    async def version(self, item: str) -> int:
        """Return the item's version."""
        return int((await items.row(self.store, item))["version"])

    async def edit(self, item: str, version: int, changes: dict[str, Change]) -> int:
        """Change fields; return the new version."""
        return await editing.edit(self.store, types, item, self.person, version, changes)

    async def approve(self, item: str, version: int) -> None:
        """Approve the item."""
        await finishing.approve(self.store, types, item, self.person, version, effort={"seconds": 1.0, "keystrokes": 2})

    async def verb(self, item: str, verb: str, **facts: Any) -> None:
        """Perform any other action."""
        function: Callable[..., Awaitable[Any]] = getattr(finishing, verb, None) or getattr(claims, verb)
        await function(self.store, item, self.person, **facts)


class Journal:
    """What one process's reviewers requested and got, on disk before and after, so that a kill loses nothing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._n = 0

    def write(self, **facts: Any) -> int:
        """Write one line, flushed."""
        self._n += 1
        self._file.write(json.dumps({"id": self._n, **facts}) + "\n")
        self._file.flush()
        return self._n

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def read(path: Path) -> list[dict[str, Any]]:
        """Return every action, with its outcome if it had one."""
        asked: dict[int, dict[str, Any]] = {}
        for line in path.read_text().splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue  # the line at which the process was killed
            if "of" in one:
                asked[one.pop("of")] |= one | {"sure": True}
            else:
                asked[one["id"]] = one | {"sure": False}
        return list(asked.values())


@dataclass
class Reviewer:
    """A reviewer with random behaviour."""

    name: str
    hands: Hands
    operates: bool
    journal: Journal
    dice: random.Random
    everything: list[str]  #: ids of all items
    colleagues: list[str]
    held: list[str]  #: ids of items that somebody held just now
    remembered: tuple[str, int] | None = None  #: an item they walked away from, and the version they saw
    left: set[str] = field(default_factory=set)  #: all of those
    count: int = 0

    async def act(self, action: str, item: str | None, doing: Awaitable[Any], **facts: Any) -> tuple[bool, Any]:
        """Perform an action, and record its outcome."""
        of = self.journal.write(action=action, item=item, actor=self.name, **facts)
        try:
            result = await doing
        except errors.ReviewError as refused:
            self.journal.write(of=of, refused=type(refused).__name__)
            return False, refused
        except (Busy, Unreachable) as away:
            return False, away  # whether it was written is not known
        if (action == "edit" and result == facts["base"]) or (item is None and result is None) or result is False:
            self.journal.write(of=of, refused="Nothing")  # it was so already, or nothing waits
        elif item is None:
            self.journal.write(of=of, item=result)
        else:
            self.journal.write(of=of, **({"version": result} if action == "edit" else {}))
        return True, result

    async def work(self, over: Callable[[], Awaitable[bool]]) -> None:
        """Continue until everything is finished."""
        while not await over():
            item = await self.take()
            if item is None:
                await asyncio.sleep(0.05)
                continue
            await self.review(item)

    async def take(self) -> str | None:
        """Get an item, one way or another."""
        luck = self.dice.random()
        if self.remembered is not None and luck < 0.3:
            await self.edit_after_losing_it(*self.remembered)
            self.remembered = None
        if self.held and luck < 0.06:
            await self.edit_without_claim(self.dice.choice(self.held))
        if self.operates and luck > 0.95:
            some = self.dice.choice(self.everything)
            await self.act("reopened", some, self.hands.verb(some, "reopen", reason="again"))
        if self.operates and 0.75 > luck > 0.65:
            some, to = self.dice.choice(self.held or self.everything), self.dice.choice(self.colleagues or [self.name])
            await self.act("reassigned", some, self.hands.verb(some, "assign", to=to, reason="you"))
        if luck > 0.75:
            some = self.dice.choice(self.held if self.held and luck > 0.8 else self.everything)
            if some in self.left:
                return None  # it may still be theirs
            force = self.operates and luck > 0.85
            done, _ = await self.act("claimed", some, self.hands.claim(some, force), takeover=force)
            return some if done else None
        _, found = await self.act("claimed", None, self.hands.claim_next())
        return found if isinstance(found, str) else None

    async def edit_without_claim(self, item: str) -> None:
        """Change an item that another reviewer holds, with its current version."""
        if item not in self.left:
            try:
                await self.edit(item, await self.hands.version(item))
            except errors.ReviewError:
                return

    async def edit_after_losing_it(self, item: str, version: int) -> None:
        """Return to an item that another reviewer has taken since, with the version seen then."""
        await self.edit(item, version)
        await self.act("released", item, self.hands.verb(item, "release"))

    async def edit(self, item: str, version: int) -> int | None:
        """Change some fields; return the new version if it was accepted."""
        self.count += 1
        mark = f"{self.name} {self.count} {self.dice.randrange(1_000_000_000)}"  # nobody ever says the same twice
        choices = {
            "vendor": Change("correct", mark), "currency": Change("correct", self.dice.choice(["EUR", "USD", "CHF"])),
            "date": self.dice.choice([Change("absent"), Change("unlock"), Change("confirm")]),
            "kind": self.dice.choice([Change("correct", "goods"), Change("correct", "services"), Change("absent")]),
            "lines": Change("correct", [{"description": mark, "amount": "1.00"}]),
        }  # fmt: skip
        names = self.dice.sample(sorted(choices), self.dice.randint(1, 3))
        changes = {name: choices[name] for name in names}
        sure = {name: one.value for name, one in changes.items() if name in ("vendor", "lines")}
        done, result = await self.act(
            "edit", item, self.hands.edit(item, version, changes), base=version, corrected=sure
        )
        return result if done else None

    async def review(self, item: str) -> None:
        """Review an item, perhaps in two tabs, and end it in some way."""
        try:
            version = await self.hands.version(item)
        except errors.ReviewError:
            return
        for _ in range(self.dice.randint(0, 3)):
            luck = self.dice.random()
            if luck < 0.15:
                await self.edit(item, max(1, version - 1))
            elif luck < 0.3:
                both = await asyncio.gather(self.edit(item, version), self.edit(item, version))
                version = max([version, *(one for one in both if one is not None)])
            else:
                version = await self.edit(item, version) or version
        await self.end(item, version)

    async def end(self, item: str, version: int) -> None:
        """Finish the item, or leave it."""
        luck, hands = self.dice.random(), self.hands
        if luck < 0.6:
            done, _ = await self.act("approved", item, hands.approve(item, version))
            if not done:
                await self.act("released", item, hands.verb(item, "release"))
        elif luck < 0.68:
            await self.act("rejected", item, hands.verb(item, "reject", code="duplicate", reason="seen"))
        elif luck < 0.78:
            await self.act("released", item, hands.verb(item, "release"))
        elif luck < 0.86:
            seconds = 1 if self.dice.random() < 0.1 else 0.1
            await self.act("postponed", item, hands.verb(item, "postpone", seconds=seconds))
        elif luck < 0.9:
            await self.act("escalated", item, hands.verb(item, "escalate", reason="odd"))
        else:
            self.remembered = (item, version)  # walks away
            self.left.add(item)


async def fill(store: Store, count: int, names: list[str]) -> list[str]:
    """Add waiting items, half of them assigned; return their ids."""
    await tables.SCHEMA.prepare(store)
    for name in names:
        await put_user(store, name)
    now = await store.now()
    moment: Any = now
    if store.dialect == "postgresql":
        moment = datetime.fromtimestamp(now, UTC)
    documents = [new_id() for _ in range(count)]
    ids = [new_id() for _ in range(count)]
    add = store.database.add_many
    columns = ["id", "status", "found_type", "type_key", "sha256", "bytes", "name", "media", "blob", "key", "pages"]
    await add(
        "tabellion_documents", [*columns, "created_at"],
        [[id, "completed", "bill", "k", "s", 1, "b.pdf", "application/pdf", "b", id, 1, moment] for id in documents],  # noqa: A001
    )  # fmt: skip
    await add(
        "tabellion_extracted_fields", ["document_id", "name", "place", "value", "confidence", "source", "reasons"],
        [
            [id, name, place, json.dumps(value), 0.9, "text", "[]"]
            for id in documents for place, (name, value) in enumerate(VALUES.items())  # noqa: A001
        ],
    )  # fmt: skip
    columns = ["id", "document_id", "priority", "confidence", "complexity", "value", "reasons", "created_at", "due_at"]
    rows = [[ids[n], documents[n], 0.5, (n % 10) / 10, 0.1, 0.1, "[]", moment, moment] for n in range(count)]
    await add("tabellion_review_items", columns, rows)
    # In an hour, so that assignments count.
    await store.database.fetch(f"UPDATE tabellion_review_items SET due_at = {later('3600', store.dialect)}")
    for document in documents[: count // 2]:
        statements = [audit.bind_statement(*one) for one in item_changes.record_creation(store.dialect, document)]
        await store.database.transact(statements)
    return ids


HandsOf = Callable[[int, str, bool], tuple[str, Hands]]


async def crowd(
    url: str, folder: Path, names: list[str], seed: int, *, stores: int = 1, tag: str = "0",
    hands_of: HandsOf | None = None,
) -> None:  # fmt: skip
    """Run some of the reviewers in this process until everything is finished; `hands_of` gives each name its hands."""
    queue.LEASE = LEASE
    opened = [Store(url, durable=False) for _ in range(stores)]
    journal = Journal(folder / f"{tag}.jsonl")
    try:
        everything = [
            row["id"] for row in await opened[0].database.fetch("SELECT id FROM tabellion_review_items ORDER BY id")
        ]
        colleagues = [
            row["name"] for row in await opened[0].database.fetch("SELECT name FROM tabellion_users ORDER BY name")
        ]
        reviewers: list[Reviewer] = []
        held: list[str] = []
        for place, name in enumerate(names):
            operates = int(name[1:]) % 5 == 0
            hands: Hands = Direct(opened[place % stores], Person(name, 3 if operates else 2))
            known_as = name
            if hands_of is not None:
                known_as, hands = hands_of(place, name, operates)
            dice = random.Random(f"{seed} {name}")
            reviewers.append(Reviewer(known_as, hands, operates, journal, dice, everything, colleagues, held))
        over = finished(opened[0], held)
        await asyncio.gather(*(one.work(over) for one in reviewers))
    finally:
        journal.close()
        for store in opened:
            await store.close()


def finished(store: Store, held: list[str]) -> Callable[[], Awaitable[bool]]:
    """Return whether nothing is open or held any more; queries the database a few times a second."""
    known = {"at": 0.0, "over": False}

    async def over() -> bool:
        # That all is over is not believed for long: somebody may just have reopened an item.
        if known["over"] or time.monotonic() - known["at"] > 0.2:
            known["at"] = time.monotonic()
            rows = await store.database.fetch(
                "SELECT id, status FROM tabellion_review_items WHERE status IN ('pending', 'in_review')"
            )
            held[:] = [row["id"] for row in rows if row["status"] == "in_review"]
            known["over"] = not rows
        return bool(known["over"])

    return over


async def look(url: str, folder: Path) -> World:
    """Read everything there is to see after a run."""
    journal = [one for path in sorted(folder.glob("*.jsonl")) for one in Journal.read(path)]
    async with Store(url) as store:
        first = {(row["id"], name): value for row in await store.database.fetch("SELECT id FROM tabellion_review_items")
                 for name, value in VALUES.items()}  # fmt: skip
        return await checker.read_world(store, first, journal)


def run(url: str, folder: Path, *, reviewers: int, count: int, processes: int, kills: int, seed: int) -> World:
    """Do a whole run: fill, start processes of which some are killed and restarted, and read the result."""
    names = [f"p{number}" for number in range(reviewers)]

    async def filling() -> None:
        async with Store(url, durable=False) as store:
            await fill(store, count, names)

    asyncio.run(filling())
    running: dict[int, subprocess.Popen[bytes]] = {}
    dice = random.Random(seed)
    started = 0

    def start(part: int) -> None:
        nonlocal started
        started += 1
        command = [sys.executable, "-m", "tests.pipelines.documents.review.fifty", "--child", url, str(folder),
                   f"{part}-{started}", ",".join(names[part::processes]), str(seed + started)]  # fmt: skip
        running[part] = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"})

    for part in range(processes):
        start(part)
    next_kill = time.monotonic() + 3
    while any(process.poll() is None for process in running.values()):
        time.sleep(0.1)
        if kills and time.monotonic() > next_kill:
            part = dice.choice([part for part, process in running.items() if process.poll() is None] or [0])
            if running[part].poll() is None:
                running[part].send_signal(signal.SIGKILL)
                running[part].wait()
                start(part)
                kills -= 1
            next_kill = time.monotonic() + 2 + 3 * dice.random()
    bad = [process.returncode for process in running.values() if process.returncode]
    if bad:
        raise RuntimeError(f"reviewers ended with {bad}")
    return asyncio.run(look(url, folder))


def main() -> int:
    """Run as a command line program."""
    if sys.argv[1:2] == ["--child"]:
        url, place, tag, names, dice = sys.argv[2:]
        asyncio.run(crowd(url, Path(place), names.split(","), int(dice), tag=tag))
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m tests.pipelines.documents.review.fifty", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--reviewers", type=int, default=50)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None, help="printed, so that a run can be repeated")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    from tests.servers import postgres

    clean = True
    for database in ["postgresql", "sqlite"] if given.database == "both" else [given.database]:
        with tempfile.TemporaryDirectory(prefix="tabellion-fifty-") as name:
            folder = Path(name)
            options = {"reviewers": given.reviewers, "count": given.items, "processes": given.processes,
                       "kills": given.kills, "seed": seed}  # fmt: skip
            began = time.monotonic()
            if database == "postgresql":
                with postgres() as server:
                    world = run(server.create_database("fifty"), folder, **options)
            else:
                world = run(f"sqlite:///{folder}/work.db", folder, **options)
            report = checker.judge(world, needed=NEEDED)
            print_result(database, world, report, seed, time.monotonic() - began)
            clean = clean and report.clean
    return 0 if clean else 1


def print_result(database: str, world: World, report: Report, seed: int, seconds: float) -> None:
    """Print what was found."""
    tried = ", ".join(f"{count:,} {action}" for action, count in sorted(report.tried.items()))
    entries, kept = len(world.entries), len(world.items)
    print(f"{database}: {kept:,} items, {entries:,} entries, {seconds:.0f} s, seed {seed}\n  {tried}\n  {report}")


if __name__ == "__main__":
    sys.exit(main())
