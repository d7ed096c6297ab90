"""A small chaos run on each database; and broken engines and histories, which the checker must catch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.faults import chaos
from tests.faults.checker import VIOLATIONS, Attempt, Logs, Row, Terms, check
from tests.faults.mutants import MUTANTS
from tests.servers import Postgres

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking, on purpose


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Postgres | None:
    """The server of a PostgreSQL run."""
    if request.node.callspec.params["database"] == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("own_server")
    return server


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.timeout(300)
def test_chaos_breaks_no_promise(database: str, server: Postgres | None) -> None:
    """Kills at random and at failpoints, zombies and crash-restarts: every promise is kept."""
    for seed in (20, 21, 22, 23):
        report, tally = chaos.run(database, jobs=8_000, kills=16, seed=seed, server=server, slack=5.0)
        # On a busy machine no zombie may wake up in time to hand in a late result: such a run has tried nothing.
        if {kind for kind, count in report.violations.items() if count} != {"untested"}:
            break
    assert report.clean, "\n".join(report.lines())
    assert tally.kills >= 16
    assert tally.at_failpoints > 0
    assert tally.zombies >= 2
    assert tally.crashes >= (1 if database == "postgresql" else 0)
    assert report.answers["stale"] > 0
    assert report.outcomes["crashed"] > 0


#: What the checker must say of each wrong engine.
CAUGHT = {
    "settle-blind": {"doubled", "wrong_result", "unheard"},
    "settle-by-state": {"doubled", "superseded", "unheard"},
    "sweep-unexpired": {"swept_early"},
    "claim-running": {"overlaps", "live"},
    "claim-early": {"claimed_early"},
    "crash-uncharged": {"miscounted"},
    "row-forgotten": {"superseded", "lost"},
    "answer-forgotten": {"unheard"},
}


@pytest.mark.parametrize(
    ("mutant", "database"),
    [(mutant, "sqlite") for mutant in MUTANTS if mutant != "claim-running"]
    + [(mutant, "postgresql") for mutant in ("settle-blind", "claim-running")],
)
@pytest.mark.timeout(300)
def test_the_checker_catches_a_broken_engine(mutant: str, database: str, server: Postgres | None,
                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """An engine that breaks one promise on purpose is found."""
    monkeypatch.setattr(chaos, "STUCK", 5.0)
    found: set[str] = set()
    # A zombie may have been stopped with the file's lock in its hands and have used up the time, or, on a busy machine,
    # without one job that came back too late, or it asks for its leases before it hands results in: such a run has
    # tried nothing.
    for seed, limit in ((4, 5.0), *((seed, 30.0) for seed in range(4, 10))):
        report, _ = chaos.run(
            database, jobs=1200, kills=3, seed=seed, mutant=mutant, server=server, slack=60.0, limit=limit
        )
        found = {kind for kind, count in report.violations.items() if count}
        if found & CAUGHT[mutant]:
            break
    assert found & CAUGHT[mutant], f"found only {found}:\n" + "\n".join(report.lines())


def test_every_mutant_has_a_verdict() -> None:
    """Every broken engine has its violation, and every violation named exists."""
    assert CAUGHT.keys() == MUTANTS.keys()
    assert set().union(*CAUGHT.values()) <= VIOLATIONS.keys()


# -- wrong histories: the checker alone ----------------------------------------------------------------------------

FIRST = Attempt(7, 1, 1, "w1", 100.0, 102.0, 102.1, "crashed", None, "worker w1 was killed")
SECOND = Attempt(7, 2, 2, "w2", 102.2, 104.2, 102.3, "done", None, None)
ROW = Row("done", "7:2:w2", None)
LOGS: dict[tuple[int, int], str] = {(7, 2): "done"}


def found(*history: Attempt, row: Row | None = ROW, logs: Any = None, **terms: Any) -> set[str]:
    """Return the violations that the checker finds in a history of job 7."""
    written = Logs(accepted=dict(LOGS if logs is None else logs))
    for attempt in history:
        written.runs[attempt.key, attempt.n] += 1
    promised = Terms(**({"max_attempts": 4, "sweep": 0.3} | terms))
    return set(check(history, {} if row is None else {7: row}, written, promised).violations)


def test_a_correct_history_is_clean() -> None:
    """One crash, one accepted result: no violation."""
    assert found(FIRST, SECOND) == set()


@pytest.mark.parametrize(
    ("kind", "history", "more"),
    [
        ("lost", [FIRST], {"logs": {}}),
        ("lost", [FIRST, SECOND], {"row": Row("running", None, None)}),
        ("lost", [FIRST, SECOND], {"row": None}),
        ("doubled", [replace(FIRST, outcome="done"), SECOND], {}),
        ("wrong_result", [FIRST, SECOND], {"row": Row("done", "7:1:w1", None)}),
        ("wrong_result", [FIRST, SECOND], {"row": Row("failed", None, "no")}),
        ("unexplained", [FIRST, replace(SECOND, outcome="failed")], {"row": Row("failed", None, None), "logs": {}}),
        ("live", [FIRST, replace(SECOND, outcome=None, settled_at=None)], {"logs": {}}),
        ("gaps", [FIRST, replace(SECOND, n=3)], {"logs": {}, "row": Row("done", "7:3:w2", None)}),
        ("overlaps", [FIRST, replace(SECOND, claimed_at=101.0)], {}),
        ("swept_early", [replace(FIRST, settled_at=101.0), SECOND], {}),
        ("claimed_early", [replace(FIRST, outcome="retried", retry_at=103.0), SECOND], {}),
        ("miscounted", [FIRST, replace(SECOND, attempt=1)], {}),
        ("out_of_bounds", [FIRST, SECOND], {"max_attempts": 1}),
        ("superseded", [replace(FIRST, outcome="superseded"), replace(SECOND, attempt=1)], {}),
        ("unheard", [FIRST, SECOND], {"logs": {(7, 1): "done"}}),
        ("late", [replace(FIRST, settled_at=109.0), replace(SECOND, claimed_at=110.0)], {}),
        ("untested", [FIRST, SECOND], {"zombies": 3}),
    ],
)  # fmt: skip
def test_a_broken_history_is_caught(kind: str, history: list[Attempt], more: dict[str, Any]) -> None:
    """Each kind of broken promise has a history that shows it."""
    assert kind in found(*history, **more)


def test_a_result_without_a_run_is_caught() -> None:
    """So is an attempt that ran twice."""
    terms = Terms(max_attempts=4, sweep=0.3)
    assert "unexpected" in check([FIRST, SECOND], {7: ROW}, Logs(), terms).violations
    twice = Logs()
    twice.runs[7, 2] = 2
    assert "run_twice" in check([FIRST, SECOND], {7: ROW}, twice, terms).violations
    refused = Logs()
    refused.runs[7, 2] = refused.refused[7, 2] = 1
    assert "unheard" in check([FIRST, SECOND], {7: ROW}, refused, terms).violations


def test_an_outage_is_not_a_late_reclaim() -> None:
    """While the database is down nothing can be reclaimed; that time does not count."""
    late, after = replace(FIRST, settled_at=109.0), replace(SECOND, claimed_at=110.0)
    assert "late" in found(late, after)
    assert "late" not in found(late, after, outages=[(101.0, 108.9)])
