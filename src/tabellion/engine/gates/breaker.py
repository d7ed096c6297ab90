"""A circuit breaker over a few plain numbers: stops calls to an upstream that is down, and tests whether it is back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypedDict, cast

from tabellion.messages import Translatable, restore_text, translatable

THRESHOLD = 5
RECOVERY = 60.0
LONGEST_RECOVERY = 900.0  # seconds between two probes of an upstream that refuses our key
WARY, AMONG = 2, 4  # failures in a row, or within a second and among this many answers each; one alone is ignored
HOLD, SETTLE = 0.1, 0.15  # seconds to wait for the outcomes of calls under way: after a first failure, and when wary
UNHEARD_WARY, UNHEARD = 10.0, 150.0  # seconds after which a call without an outcome, or a probe, no longer counts

BreakerState = Literal["closed", "open", "probing"]


class SavedBreaker(TypedDict, total=False):
    """What a breaker saves."""

    state: BreakerState
    row: int
    recent: list[float]
    since: int
    wary: bool
    held_at: float
    opened_at: float
    recovery: float
    reason: str
    asked: list[float]
    epoch: int
    translatable: Translatable  #: the reason


@dataclass
class Breaker:
    """Closed: calls are allowed. Open: none is, for a while. Probing: one call in the whole fleet is, as a test.

    When failures are more than a few among many answers it is *wary*: it allows only as many calls as could all fail
    without passing the threshold, so that an outage costs no more calls than the threshold. Only a call allowed since
    then can prove that the upstream works: answers to older ones are from before the failures.
    """

    state: BreakerState = "closed"
    row: int = 0  #: failures in a row
    recent: list[float] = field(default_factory=list)  #: times at which failures of the last second were recorded
    since: int = 0  #: answers recorded since the first of those
    wary: bool = False  #: whether every single call needs permission
    held_at: float = 0.0  #: when it last stopped all calls for a moment
    opened_at: float = 0.0
    recovery: float = RECOVERY  #: seconds it stays open this time
    reason: str = ""
    asked: list[float] = field(default_factory=list)  #: when calls without an outcome yet were allowed
    epoch: int = 0  #: counts its changes; calls allowed in an earlier epoch prove nothing

    @classmethod
    def load(cls, saved: SavedBreaker) -> Breaker:
        """The breaker from its saved fields."""
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {name: value for name, value in saved.items() if name in known}
        breaker = cls(**given)
        breaker.reason = restore_text({"translatable": None, **saved}, "reason") if "reason" in saved else ""
        return breaker

    def as_dict(self) -> SavedBreaker:
        """Its fields for saving."""
        return cast("SavedBreaker", {**asdict(self), **translatable(reason=self.reason)})

    @property
    def failures(self) -> int:
        """The number of failures that count against the threshold."""
        return max(self.row, len(self.recent)) if self.wary else self.row

    def allows(self, now: float, threshold: int) -> int | None:
        """How many calls are allowed now; None: any number."""
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
        """Records that `count` calls were allowed."""
        if not self.wary or not count:
            return
        self.asked += [now] * count
        if self.state == "open":
            self.state = "probing"

    def until(self, now: float) -> float:
        """When to ask again while no call is allowed."""
        if self.state == "closed":
            return now + 0.05  # an outcome of the allowed calls decides
        return max(now + 0.5, self.opened_at + self.recovery)

    def record_success(self, at: float, count: int, proven: bool) -> None:
        """Records answered calls, the last one `at` this time; `proven`: one was allowed since the last change."""
        if self.wary and proven:
            self.reset()
        elif not self.wary and (not self.recent or at > self.recent[-1]):
            self.row, self.since = 0, self.since + count

    def record_failure(self, now: float, count: int, why: str, threshold: int, recovery: float) -> None:
        """Records calls that failed because of the upstream."""
        for _ in range(count):
            if self.state == "open":
                return  # these calls were made before it opened
            before = [at for at in self.recent if now - at < 1.0]
            self.row, self.recent, self.since = self.row + 1, [*before, now], self.since if before else 0
            self.asked = self.asked[1:]
            many = len(self.recent) >= WARY and self.since <= AMONG * len(self.recent)
            if not self.wary and (self.row >= WARY or many):
                self.wary, self.held_at, self.epoch = True, now, self.epoch + 1
            elif not before:
                # It may be the first of many: the fleet waits a moment for the next outcome.
                self.held_at, self.epoch = now, self.epoch + 1
            if self.state == "probing" or self.failures >= threshold:
                self._open(now, why, recovery)

    def record_abandoned(self, count: int) -> None:
        """Records calls whose outcome is unknown: others may be made in their place."""
        self.asked = self.asked[count:]
        if self.state == "probing" and not self.asked:
            self.state = "open"

    def record_refusal(self, now: float, why: str) -> None:
        """Records that the upstream refused our key: every call would fail, so only rare probes are made."""
        longer = min(self.recovery * 2, LONGEST_RECOVERY) if self.state == "probing" else RECOVERY
        if self.state != "open":
            self._open(now, why, longer)

    def reset(self) -> None:
        """Closes the breaker, because a call has succeeded or a person decided so."""
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
