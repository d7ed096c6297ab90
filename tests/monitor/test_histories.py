"""Histories of one row: which are sound, and what is wrong with the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tabellion.monitor.histories import RecordedAttempt, judge_history

FIRST = RecordedAttempt("7", 1, 1, "w1", 100.0, 102.0, 102.1, "crashed", None, "worker w1 was killed")
SECOND = RecordedAttempt("7", 2, 2, "w2", 102.2, 104.2, 102.3, "done", None, None)
LIVE = replace(SECOND, outcome=None, settled_at=None)


def kinds(*history: RecordedAttempt, **how: Any) -> set[str]:
    """Return the kinds of faults in a history."""
    return {kind for kind, _ in judge_history(history, **how)}


def test_sound_histories() -> None:
    """A crash and a result; a live claim; a history whose beginning was removed; a cancelled row."""
    assert kinds(FIRST, SECOND, whole=True) == set()
    assert kinds(FIRST, LIVE) == set()
    assert kinds(replace(FIRST, n=5), replace(SECOND, n=6)) == set()
    assert kinds() == set()
    cancelled = replace(SECOND, attempt=0, outcome="cancelled")
    assert kinds(FIRST, cancelled, replace(SECOND, n=3, attempt=1, claimed_at=103.0, settled_at=103.5)) == set()


@pytest.mark.parametrize(
    ("kind", "history", "how"),
    [
        ("gaps", [FIRST, replace(SECOND, n=3)], {}),
        ("gaps", [replace(FIRST, n=2)], {"whole": True}),
        ("two_claims", [replace(FIRST, outcome=None, settled_at=None), LIVE], {}),
        ("overlaps", [FIRST, replace(SECOND, claimed_at=101.0)], {}),
        ("overlaps", [replace(FIRST, outcome=None, settled_at=None), SECOND], {}),
        ("claimed_early", [replace(FIRST, outcome="retried", retry_at=103.0), SECOND], {}),
        ("swept_early", [replace(FIRST, settled_at=101.0), SECOND], {}),
        ("miscounted", [FIRST, replace(SECOND, attempt=3)], {}),
        ("miscounted", [FIRST, replace(SECOND, attempt=1)], {"charging": ("retried", "crashed")}),
        ("miscounted", [replace(FIRST, outcome="done"), SECOND], {}),
        ("miscounted", [replace(FIRST, attempt=4)], {}),
        ("half_settled", [FIRST, replace(SECOND, outcome=None)], {}),
        ("half_settled", [FIRST, replace(SECOND, settled_at=None)], {}),
    ],
)
def test_faults(kind: str, history: list[RecordedAttempt], how: dict[str, Any]) -> None:
    """Each kind of fault has a history that shows it."""
    assert kind in kinds(*history, **how)


def test_one_fault_is_reported_once() -> None:
    """What the attempt after one without an outcome should be numbered is unknown, not wrong."""
    assert kinds(replace(FIRST, outcome=None, settled_at=None), SECOND) == {"overlaps"}
    [(_, what)] = judge_history([replace(SECOND, n=5, settled_at=None)])
    assert what == "claim 5 has the outcome done, but no settled_at"


def test_people_may_claim_before_it_is_due() -> None:
    """So `early` allows it."""
    assert kinds(replace(FIRST, outcome="retried", retry_at=103.0), SECOND, early=True) == set()


def test_a_crash_may_be_free() -> None:
    """Unless it is known that it uses up an attempt."""
    assert kinds(FIRST, replace(SECOND, attempt=1)) == set()
    assert kinds(FIRST, replace(SECOND, attempt=1), charging=("retried",)) == set()
