"""Checks a chaos run: one pass over the register, the rows and the workers' own logs.

Nothing lost, no second accepted result, attempts within bounds, claims that never overlap, reclaims in time. It knows
nothing of how the engine works: it compares what the database says with what the workers say. Histories are judged by
the function that `tabellion verify` uses.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from tabellion.monitor.histories import TICK, RecordedAttempt, judge_history

Attempt = RecordedAttempt  # one line of the register

#: What must not happen, with the words a person reads.
VIOLATIONS = {
    "lost": "rows that are neither done nor failed",
    "doubled": "second accepted results",
    "wrong_result": "rows whose result is not the accepted attempt's",
    "unexplained": "failures without evidence",
    "live": "claims left behind",
    "gaps": "claim numbers that skip or repeat",
    "overlaps": "claims that overlap",
    "swept_early": "claims swept before their lease ended",
    "claimed_early": "retries claimed before they were due",
    "miscounted": "attempts miscounted",
    "half_settled": "attempts with an outcome but no end, or an end but no outcome",
    "out_of_bounds": "attempts beyond the maximum",
    "superseded": "claims superseded without an owner's edit",
    "unexpected": "results of jobs that nobody ran",
    "run_twice": "attempts that ran twice",
    "unheard": "answers that the register does not confirm",
    "late": "reclaims later than lease + sweep + slack",
    "leftovers": "temp folders of dead workers",
    "leaked": "workers that waited for jobs they no longer had",
    "bad_exits": "workers that ended in disorder",
    "stuck": "runs that stopped moving",
    "verified": "findings of `tabellion verify`",
    "untested": "zombie runs without one refused answer",
}
ENDINGS = ("done", "failed", "quarantined")
SPENT = ("retried", "crashed")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the owner's table at the end."""

    status: str
    result: str | None
    error: str | None


@dataclass
class Terms:
    """What a run promised."""

    max_attempts: int
    sweep: float
    slack: float = 1.0
    permanent: int = 0  #: keys that are multiples of it are told to fail; 0: none are
    zombies: int = 0
    outages: Sequence[tuple[float, float]] = ()  #: when the database was away: reclaims cannot happen then


@dataclass
class Report:
    """What the checker found."""

    violations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  #: the first of each kind
    outcomes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)  #: what workers were told: ok, stale
    slowest_reclaim: float = 0.0

    def blame(self, kind: str, what: str, count: int = 1) -> None:
        """Note a violation."""
        self.violations[kind] += count
        self.examples.setdefault(kind, what)

    @property
    def clean(self) -> bool:
        """Whether every promise was kept."""
        return not sum(self.violations.values())

    def lines(self) -> Iterator[str]:
        """Return the verdict for people: a number for every promise."""
        for kind, words in VIOLATIONS.items():
            yield f"  {self.violations[kind]:>6}  {words}" + (
                f"   e.g. {self.examples[kind]}" if kind in self.examples else ""
            )


@dataclass
class Logs:
    """What the workers logged."""

    runs: Counter[tuple[int, int]] = field(default_factory=Counter)  #: (key, n) -> handler calls
    accepted: dict[tuple[int, int], str] = field(default_factory=dict)  #: (key, n) -> ending the worker was told
    refused: Counter[tuple[int, int]] = field(default_factory=Counter)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Logs:
        """Read every log; a line cut short by a kill is ignored."""
        logs = cls()
        for path in paths:
            with path.open() as file:
                for line in file:
                    if not line.endswith("}\n"):
                        continue
                    entry = json.loads(line)
                    place = (entry["key"], entry["n"])
                    if entry["op"] == "run":
                        logs.runs[place] += 1
                    elif entry["op"] == "ok":
                        logs.accepted[place] = entry["outcome"]
                    elif entry["op"] == "stale":
                        logs.refused[place] += 1
        return logs


def check(attempts: Iterable[Attempt], rows: Mapping[int, Row], logs: Logs, terms: Terms) -> Report:
    """Compare the register (ordered by key and n), the rows and the logs."""
    report = Report()
    report.answers = Counter(ok=len(logs.accepted), stale=sum(logs.refused.values()))
    seen = set()
    for key, group in groupby(attempts, key=lambda attempt: attempt.key):
        history = list(group)
        seen.add(key)
        _check_order(history, report, terms)
        _check_ending(key, history, rows.get(key), report, terms)
        _check_answers(history, logs, report)
    for key in rows.keys() - seen:
        report.blame("lost", f"{key} was never claimed, its status is {rows[key].status}")
    for place, times in logs.runs.items():
        if times > 1:
            report.blame("run_twice", f"{place} ran {times} times")
    if terms.zombies and not report.answers["stale"]:
        report.blame("untested", f"{terms.zombies} zombies")
    return report


def _check_order(history: Sequence[Attempt], report: Report, terms: Terms) -> None:
    """Check that claims follow each other without gap or overlap, count correctly, and end in time."""
    for kind, what in judge_history(history, charging=SPENT, whole=True):
        report.blame("overlaps" if kind == "two_claims" else kind, f"{history[0].key}: {what}")
    for attempt in history:
        where = f"{attempt.key}/{attempt.n} ({attempt.worker})"
        report.outcomes[attempt.outcome or "live"] += 1
        if attempt.settled_at is None:
            report.blame("live", where)
        if attempt.outcome == "superseded":
            report.blame("superseded", where)
        if attempt.attempt > terms.max_attempts:
            report.blame("out_of_bounds", f"{where} is attempt {attempt.attempt}")
        if crashed(attempt):
            _check_reclaim(attempt, where, report, terms)


def crashed(attempt: Attempt) -> bool:
    """Return whether the attempt ended because its lease expired."""
    text = attempt.error or ""
    return attempt.outcome in ("crashed", "quarantined") or (attempt.outcome == "failed" and "crashed on" in text)


def _check_reclaim(attempt: Attempt, where: str, report: Report, terms: Terms) -> None:
    if attempt.settled_at is None:
        return
    if attempt.outcome == "failed" and attempt.settled_at < attempt.lease_until - TICK:
        report.blame("swept_early", f"{where}: {attempt.lease_until - attempt.settled_at:.3f} s")
    away = sum(max(0.0, min(attempt.settled_at, end) - max(attempt.lease_until, begin)) for begin, end in terms.outages)
    took = attempt.settled_at - attempt.lease_until - away
    report.slowest_reclaim = max(report.slowest_reclaim, took)
    if took > terms.sweep + terms.slack:
        report.blame("late", f"{where}: {took:.2f} s after its lease")


def _check_ending(key: int, history: Sequence[Attempt], row: Row | None, report: Report, terms: Terms) -> None:
    """Check that the row ended like its last attempt, with that attempt's result."""
    done = [attempt for attempt in history if attempt.outcome == "done"]
    last = history[-1]
    if len(done) > 1 or any(attempt.outcome in ENDINGS for attempt in history[:-1]):
        report.blame("doubled", f"{key}: {[(attempt.n, attempt.worker, attempt.outcome) for attempt in history]}")
    if row is None or row.status not in ("done", "failed") or last.outcome not in ENDINGS:
        report.blame("lost", f"{key}: {row}, last {last}")
        return
    if (row.status == "done") is not (last.outcome == "done"):
        report.blame("wrong_result", f"{key} is {row.status}, its last attempt {last.outcome}")
    told_to_fail = bool(terms.permanent) and key % terms.permanent == 0
    if row.status == "done":
        if told_to_fail or row.result != f"{key}:{last.n}:{last.worker}":
            report.blame("wrong_result", f"{key} carries {row.result}, accepted was {last}")
    elif not row.error or not last.error or not (told_to_fail or crashed(last)):
        report.blame("unexplained", f"{key}: {row}, {last}")


def _check_answers(history: Sequence[Attempt], logs: Logs, report: Report) -> None:
    """Check that what a worker was told is what the register says."""
    for attempt in history:
        place = (attempt.key, attempt.n)
        if attempt.outcome == "done" and place not in logs.runs:
            report.blame("unexpected", f"{place}")
        accepted = logs.accepted.get(place)
        if accepted is not None and accepted != attempt.outcome:
            report.blame("unheard", f"{place}: told {accepted}, the register says {attempt.outcome}")
        if place in logs.refused and accepted is None and attempt.outcome == "done":
            report.blame("unheard", f"{place}: refused, but the register says done")
