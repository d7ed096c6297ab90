"""A circuit breaker over a few plain numbers: stops calling what is down, and finds out when it is back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from tabellion.messages import restore_text, translatable

THRESHOLD = 5
RECOVERY = 60.0
LONGEST_RECOVERY = 900.0  # seconds between two probes of an upstream that refuses our key
WARY, AMONG = 2, 4  # failures in a row, or within a second and among this many answers each; one alone is nothing
HOLD, SETTLE = 0.1, 0.15  # seconds for calls under way to be heard of: after a first failure, and when wary
UNHEARD_WARY, UNHEARD = 10.0, 150.0  # seconds after which a call that nobody hears of, or a probe, is given to another

State = Literal["closed", "open", "probing"]


@dataclass
class Breaker:
    """Closed: calls go. Open: none does, for a while. Probing: one call in the whole fleet finds out.

    When failures are more than a few among many answers it is *wary*: calls go only as far as the threshold would still
    allow if all of them failed, so that an outage costs the threshold and not whatever happened to be waiting. Only a
    call let through since then can prove that all is well: answers to older ones come from before the trouble.
    """

    state: State = "closed"
    row: int = 0  #: failures in a row
    recent: list[float] = field(default_factory=list)  #: when failures of the last second were heard of
    since: int = 0  #: answers heard of since the first of those
    wary: bool = False  #: whether every single call has to be asked for
    held_at: float = 0.0  #: when it last let nothing through for a moment
    opened_at: float = 0.0
    recovery: float = RECOVERY  #: seconds it stays open this time
    reason: str = ""
    asked: list[float] = field(default_factory=list)  #: when unproven calls were let through
    epoch: int = 0  #: counts its changes; what was let through in an earlier one proves nothing now

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Breaker:
        """The breaker as it was saved."""
        known = {one.name for one in fields(cls)}
        made = cls(**{name: value for name, value in saved.items() if name in known})
        made.reason = restore_text({"translatable": None, **saved}, "reason") if "reason" in saved else ""
        return made

    def as_dict(self) -> dict[str, Any]:
        """Its memory."""
        return {**asdict(self), **translatable(reason=self.reason)}

    @property
    def failures(self) -> int:
        """Failures that count against the threshold."""
        return max(self.row, len(self.recent)) if self.wary else self.row

    def allows(self, now: float, threshold: int) -> int | None:
        """How many calls may go now; None for any number."""
        patience = UNHEARD_WARY if self.state == "closed" else UNHEARD
        self.asked = [at for at in self.asked if now - at < patience]
        if self.state == "closed":
            if now - self.held_at < (SETTLE if self.wary else HOLD):
                return 0
            return max(0, threshold - self.failures - len(self.asked)) if self.wary else None
        if self.asked:
            return 0
        return 1 if now >= self.opened_at + self.recovery else 0

    def let_through(self, now: float, count: int) -> None:
        """So many calls were let through."""
        if not self.wary or not count:
            return
        self.asked += [now] * count
        if self.state == "open":
            self.state = "probing"

    def until(self, now: float) -> float:
        """When to ask again, of a breaker that allows nothing."""
        if self.state == "closed":
            return now + 0.05  # an answer of those that were let through decides
        return max(now + 0.5, self.opened_at + self.recovery)

    def record_success(self, at: float, count: int, proven: bool) -> None:
        """Calls were answered, the last at this time; `proven`: one was let through since the last change."""
        if self.wary and proven:
            self.reset()
        elif not self.wary and (not self.recent or at > self.recent[-1]):
            self.row, self.since = 0, self.since + count

    def record_failure(self, now: float, count: int, why: str, threshold: int, recovery: float) -> None:
        """Calls found the upstream in trouble."""
        for _ in range(count):
            if self.state == "open":
                return  # they went before it opened
            before = [at for at in self.recent if now - at < 1.0]
            self.row, self.recent, self.since = self.row + 1, [*before, now], self.since if before else 0
            self.asked = self.asked[1:]
            many = len(self.recent) >= WARY and self.since <= AMONG * len(self.recent)
            if not self.wary and (self.row >= WARY or many):
                self.wary, self.held_at, self.epoch = True, now, self.epoch + 1
            elif not before:
                # Perhaps it is the first of many: everyone waits a moment to hear of the next.
                self.held_at, self.epoch = now, self.epoch + 1
            if self.state == "probing" or self.failures >= threshold:
                self._open(now, why, recovery)

    def record_abandoned(self, count: int) -> None:
        """Calls of which nobody heard the end: others may ask in their place."""
        self.asked = self.asked[count:]
        if self.state == "probing" and not self.asked:
            self.state = "open"

    def record_refusal(self, now: float, why: str) -> None:
        """The upstream does not accept our key: every call would be refused, so none is made but a rare probe."""
        longer = min(self.recovery * 2, LONGEST_RECOVERY) if self.state == "probing" else RECOVERY
        if self.state != "open":
            self._open(now, why, longer)

    def reset(self) -> None:
        """All is well, as a call has proved or a person says."""
        self.state, self.row, self.recent, self.asked, self.wary = "closed", 0, [], [], False
        self.recovery, self.reason, self.held_at, self.epoch = RECOVERY, "", 0.0, self.epoch + 1

    def _open(self, now: float, why: str, recovery: float) -> None:
        self.state, self.opened_at, self.reason, self.recovery = (
            "open",
            now,
            why if len(why) <= 500 else why[:500],
            recovery,
        )
        self.row, self.recent, self.asked, self.wary, self.epoch = 0, [], [], True, self.epoch + 1
