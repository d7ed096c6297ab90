"""Checks a run of many reviewers: the tables against the reviewers' journals, and the audit log against both.

It knows nothing of how review works: it has its own idea of who may do what when, and makes every hash itself.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tabellion import Store

TICK = 0.002  # seconds two readings of the same clock may seem out of order by rounding
SYSTEM = "tabellion"
COMMAND = "command line"
TAKEN = "taken_over"  # the first half of a takeover
BACK = "came_back"  # the first half of an action of somebody whose lease had run out
EDITS = ("corrected", "confirmed", "absent", "unlocked")
LEAVING = ("released", "expired", "postponed", "escalated", "reassigned", "approved", "rejected")
CLOSED = ("approved", "corrected", "rejected")

#: What must not happen, with the words a person reads.
VIOLATIONS = {
    "chain": "entries that are not as they were written",
    "two_holders": "items held by two at once",
    "not_holder": "actions of somebody who did not hold the item",
    "registers_differ": "claims that the register and the trail tell differently",
    "versions": "versions that skip, repeat or have two authors",
    "lost_edit": "edits that are not what came before the next, or not what is kept",
    "unrecorded": "accepted actions that are not in the trail",
    "invented": "entries of actions that nobody was told were accepted",
    "unfinished": "items that were left open",
    "wrong_end": "items that are kept otherwise than they ended",
    "idle": "kinds of actions that the run did not try",
}


@dataclass
class World:
    """Everything there is to see after a run."""

    entries: list[dict[str, Any]]  #: the trail in the order of its numbers
    head: tuple[int, str]
    attempts: list[dict[str, Any]]  #: the register
    items: dict[str, dict[str, Any]]
    values: dict[tuple[str, str], Any]  #: of fields, by item and name, as they are kept
    first: dict[tuple[str, str], Any]  #: and as they were read
    journal: list[dict[str, Any]]  #: what reviewers were told: accepted, refused; `sure` is false for those killed


@dataclass
class Report:
    """The violations that were found."""

    found: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    tried: Counter[str] = field(default_factory=Counter)

    def blame(self, what: str, about: str) -> None:
        """Note a violation."""
        assert what in VIOLATIONS
        self.found[what].append(about)

    @property
    def clean(self) -> bool:
        """Whether nothing was violated."""
        return not self.found

    def __str__(self) -> str:
        lines = [f"{len(some)} {VIOLATIONS[what]}: {'; '.join(some[:3])}" for what, some in self.found.items()]
        return "\n".join(lines) or "nothing violated"


async def read_world(store: Store, first: dict[tuple[str, str], Any], journal: list[dict[str, Any]]) -> World:
    """Read everything once, with plain SQL."""
    epoch = "extract(epoch FROM {})::float8" if store.dialect == "postgresql" else "{}"
    fetch = store.database.fetch
    items = {
        row["id"]: row for row in await fetch("SELECT id, document_id, status, version FROM tabellion_review_items")
    }
    by_document = {row["document_id"]: id for id, row in items.items()}  # noqa: A001
    fields = await fetch("SELECT document_id, name, value FROM tabellion_extracted_fields")
    attempts = await fetch(
        f"""SELECT key, n, worker, outcome, {epoch.format("claimed_at")} AS claimed_at,
  {epoch.format("settled_at")} AS settled_at FROM tabellion_attempts WHERE queue = 'review' ORDER BY key, n"""
    )
    [head] = await fetch("SELECT n, hash FROM tabellion_audit_head")
    return World(
        entries=await fetch("SELECT * FROM tabellion_audit_log "
        "ORDER BY n"), head=(head["n"], head["hash"]), attempts=attempts,
        items=items, first=first, journal=journal,
        values={
            (by_document[row["document_id"]], row["name"]): json.loads(row["value"])
            for row in fields if row["document_id"] in by_document
        },
    )  # fmt: skip


def judge(world: World, *, needed: Iterable[str] = ()) -> Report:
    """Return everything that is wrong with a run; `needed` are actions that it must have tried."""
    report = Report()
    _chain(world, report)
    bodies = [{**json.loads(entry["body"]), "n": entry["n"]} for entry in world.entries]
    by_item: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for body in bodies:
        if body.get("item_id"):
            by_item[body["item_id"]].append(body)
    _register(world, by_item, report)
    for id in world.items:  # noqa: A001
        life = _Life(id, world, report)
        for body in by_item.get(id, []):
            life.apply(body)
        life.end()
    _journal(world, bodies, report)
    report.tried.update(body["action"] for body in bodies)
    report.tried.update(f"refused {one['refused']}" for one in world.journal if one.get("refused"))
    for action in needed:
        if not report.tried[action]:
            report.blame("idle", action)
    return report


def _chain(world: World, report: Report) -> None:
    last = "0" * 64
    for place, entry in enumerate(world.entries, 1):
        text = f"{last}\n{entry['n']}\n{entry['at']}\n{entry['body']}"
        digest = hashlib.sha256(text.encode()).hexdigest()
        body = json.loads(entry["body"])
        same = all(body.get(name) == entry[name] for name in ("document_id", "item_id", "actor", "action"))
        if entry["n"] != place or entry["previous"] != last or entry["hash"] != digest or not same:
            report.blame("chain", f"entry {place}")
            return
        last = entry["hash"]
    if world.head != (len(world.entries), last):
        report.blame("chain", "the end")


def _register(world: World, by_item: dict[str, list[dict[str, Any]]], report: Report) -> None:
    """No two claims of an item at once, and the same claims by the same people as in the trail."""
    holders: dict[str, list[str]] = defaultdict(list)
    for key, group in groupby(world.attempts, lambda one: one["key"]):
        until = 0.0
        for place, attempt in enumerate(group, 1):
            holders[key].append(attempt["worker"])
            if attempt["n"] != place or until is None or attempt["claimed_at"] < until - TICK:
                report.blame("two_holders", f"{key}: claim {attempt['n']}")
            until = attempt["settled_at"]
        if until is None:
            report.blame("unfinished", f"{key}: a claim is left")
    for key in {*holders, *by_item}:
        claimants = [body["actor"] for body in by_item.get(key, []) if body["action"] == "claimed"]
        if claimants != holders.get(key, []):
            report.blame("registers_differ", f"{key}: {claimants} and {holders.get(key)}")


class _Life:
    """One item according to its entries: its holder, version and fields."""

    def __init__(self, item: str, world: World, report: Report) -> None:
        self.item, self.world, self.report = item, world, report
        self.holder: str | None = None
        self.version, self.status = 1, "pending"
        self.values = {name: value for (owner, name), value in world.first.items() if owner == item}
        self.acts: dict[int, tuple[str, str]] = {}

    def apply(self, body: dict[str, Any]) -> None:
        """Apply one entry."""
        action, actor = body["action"], body["actor"]
        where = f"{self.item}: entry {body['n']}, {action} by {actor}"
        self._hold(body, where)
        if action in EDITS:
            if self.values.get(body["field"]) != body["before"]:
                self.report.blame("lost_edit", f"{where}: {body['before']!r} is not {self.values.get(body['field'])!r}")
            self.values[body["field"]] = body["after"]
        if "version" in body:
            act = ("edit" if action in EDITS else action, actor)
            expected = body["version"] == self.version + 1 if body["version"] not in self.acts else (
                body["version"] == self.version and act[0] == "edit")  # fmt: skip
            if not expected or self.acts.setdefault(body["version"], act) != act:
                self.report.blame("versions", f"{where}: {self.version}, then {body['version']}")
            self.version = body["version"]
        if action in LEAVING and not (action == "reassigned" and self.holder and self.holder == body.get("after")):
            self.holder = None
            self.status = body["after"] if action in ("approved", "rejected") else "pending"
        if action == "reopened":
            if self.status not in CLOSED:
                self.report.blame("wrong_end", f"{where}: it was {self.status}")
            self.status = "pending"

    def _hold(self, body: dict[str, Any], where: str) -> None:
        action, actor = body["action"], body["actor"]
        if action == "claimed":
            if self.holder is not None or self.status != "pending":
                self.report.blame("two_holders", where)
            self.holder, self.status = actor, "in_review"
        elif action in EDITS or action in ("approved", "rejected", "postponed"):
            if self.holder != actor:
                self.report.blame("not_holder", f"{where}, held by {self.holder}")
        elif action in ("reassigned", "escalated"):
            ended = None if self.holder == body.get("after") else self.holder
            if body.get("holder") != ended:
                self.report.blame("not_holder", f"{where}, which ended the claim of {self.holder}")
        elif action in ("released", "expired") and self.holder != body.get("before", actor):
            self.report.blame("not_holder", f"{where}, held by {self.holder}")

    def end(self) -> None:
        """Check that what is stored is what the entries lead to."""
        kept = self.world.items[self.item]
        if (kept["status"], kept["version"]) != (self.status, self.version):
            self.report.blame(
                "wrong_end", f"{self.item}: {kept['status']} {kept['version']}, not {self.status} {self.version}"
            )
        if self.status not in CLOSED:
            self.report.blame("unfinished", f"{self.item}: {self.status}")
        for name, value in self.values.items():
            found = self.world.values.get((self.item, name))
            if found != value:
                self.report.blame("lost_edit", f"{self.item}: {name} is {found!r}, not {value!r}")


def _journal(world: World, bodies: list[dict[str, Any]], report: Report) -> None:
    """Check that the trail has every action a reviewer was told is done, and no other."""
    accepted: Counter[tuple[Any, ...]] = Counter()
    unsure: Counter[tuple[Any, ...]] = Counter()
    for one in world.journal:
        if one.get("refused"):
            continue
        (accepted if one["sure"] else unsure)[_act(one)] += 1
    kept: Counter[tuple[Any, ...]] = Counter()
    done = set()
    for body in bodies:
        if body["actor"] in (SYSTEM, COMMAND) or body.get("reason") in (TAKEN, BACK):
            continue  # nobody asked for it by itself
        action = "edit" if body["action"] in EDITS else body["action"]
        # An edit of several fields is one act.
        act = (action, body["item_id"], body["actor"], body.get("version") if action == "edit" else None)
        if action != "edit" or act not in done:
            kept[act] += 1
        done.add(act)
    for act, count in (accepted - kept).items():
        report.blame("unrecorded", f"{act} × {count}")
    for act, count in (kept - accepted).items():
        maybe = sum(n for other, n in unsure.items() if other[0] == act[0] and other[2] == act[2]
                    and other[1] in (None, act[1]))  # fmt: skip
        if maybe < count:
            report.blame("invented", f"{act} × {count}")
    recorded = {(body["item_id"], body.get("version"), body["field"], json.dumps(body["after"], sort_keys=True))
            for body in bodies if body["action"] == "corrected"}  # fmt: skip
    for one in world.journal:
        if one["action"] == "edit" and one["sure"] and not one.get("refused"):
            for name, value in one["corrected"].items():
                if (one["item"], one["version"], name, json.dumps(value, sort_keys=True)) not in recorded:
                    report.blame("lost_edit", f"{one['item']}: {name} = {value!r} of version {one['version']}")


def _act(one: dict[str, Any]) -> tuple[Any, ...]:
    return (one["action"], one["item"], one["actor"], one.get("version") if one["action"] == "edit" else None)
