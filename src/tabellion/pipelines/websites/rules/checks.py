"""Checks: each is a finding with a level, and together they make a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabellion.messages import Message
from tabellion.pipelines.websites.analysis_type import Level
from tabellion.pipelines.websites.result import ResultItem, Source

#: The share of a check's weight that each level earns; `info` neither earns nor costs anything.
EARNED: dict[Level, float] = {"good": 1.0, "warning": 0.4, "bad": 0.0}
ORDER: tuple[Level, ...] = ("bad", "warning", "info", "good")


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check."""

    level: Level
    title: Message
    detail: str = ""
    fix: str = ""
    sources: tuple[Source, ...] = ()
    weight: float = 1.0

    def item(self) -> ResultItem:
        """The check as a finding."""
        return ResultItem(self.title, self.sources, self.level, self.detail, self.fix)


def findings_of(checks: Sequence[Check]) -> tuple[ResultItem, ...]:
    """The checks as findings, the worst first, within a level the weightiest first."""
    return tuple(check.item() for check in sorted(checks, key=lambda one: (ORDER.index(one.level), -one.weight)))


def score_of(checks: Sequence[Check]) -> int:
    """From 0 to 100: what was earned of the weights of all checks."""
    counted = [check for check in checks if check.level in EARNED]
    total = sum(check.weight for check in counted)
    return round(100 * sum(EARNED[check.level] * check.weight for check in counted) / total) if total else 0


def summary_of(checks: Sequence[Check], score: int, with_faults: str, without: str) -> ResultItem:
    """One sentence: the score, and how much there is to do; the codes of its two forms."""
    bad = [check for check in sorted(checks, key=lambda one: -one.weight) if check.level == "bad"]
    warnings = sum(check.level == "warning" for check in checks)
    if bad:
        return ResultItem(Message(with_faults, score=score, n=len(bad), detail=bad[0].title))
    return ResultItem(Message(without, score=score, n=warnings))
