"""The state of a gate and what one turn does to it: rate, breaker and budget, without I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict

from tabellion.engine.gates.adaptive import Adaptive
from tabellion.engine.gates.breaker import RECOVERY, THRESHOLD, Breaker, SavedBreaker
from tabellion.engine.gates.limiter import Classic, Limiter, Rates, SavedLimiter
from tabellion.errors import ConfigurationError
from tabellion.messages import Message

DAY = 86_400.0
PROFILES: dict[str, type[Adaptive] | type[Classic]] = {"adaptive": Adaptive, "classic": Classic}
DEFAULT_RATES = {"adaptive": Rates(5.0, 0.05, 1000.0), "classic": Rates(3.0, 1.0, 10.0)}
KEPT = ("day", "spent", "typical", "needed", "calls", "refusals", "failures")  #: plain numbers that are saved


class GateEdits(TypedDict, total=False):
    """Settings of a gate that a person changed at run time."""

    profile: str
    rate: float
    min_rate: float
    max_rate: float
    budget: float
    threshold: int
    recovery: float


class SavedGate(TypedDict, total=False):
    """The state of a gate as its row has it; what is missing has its default."""

    edits: GateEdits
    profile: str  #: of the limiter
    limiter: SavedLimiter
    breaker: SavedBreaker
    day: int
    spent: float
    typical: float
    needed: float
    calls: int
    refusals: int
    failures: int


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The settings of a gate; None means the profile's default."""

    profile: str = "adaptive"
    rate: float | None = None  #: calls per second to start with
    min_rate: float | None = None
    max_rate: float | None = None
    budget: float | None = None  #: US dollars per day (UTC)
    threshold: int = THRESHOLD  #: failures in a row that open the breaker
    recovery: float = RECOVERY  #: seconds it stays open before one probe

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise ConfigurationError(f"gate profile {self.profile!r}: use {' or '.join(PROFILES)}")
        for name in ("rate", "min_rate", "max_rate", "threshold", "recovery"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise ConfigurationError(f"gate {name} = {value!r} must be a number above zero")
        if self.budget is not None and not (isinstance(self.budget, int | float) and self.budget >= 0):
            raise ConfigurationError(f"gate budget = {self.budget!r} must be a number of dollars, zero or more")
        if self.rates.least > self.rates.most:
            raise ConfigurationError(f"gate min_rate {self.rates.least:g} is above max_rate {self.rates.most:g}")

    @property
    def rates(self) -> Rates:
        """The rates, defaults filled in; a start outside the bounds is moved to the nearest one."""
        default = DEFAULT_RATES[self.profile]
        least = self.min_rate if self.min_rate is not None else min(default.least, self.max_rate or default.least)
        most = self.max_rate if self.max_rate is not None else max(default.most, least)
        start = self.rate if self.rate is not None else default.start
        return Rates(min(max(start, least), max(most, least)), least, most)

    def with_edits(self, edits: GateEdits) -> GateSettings:
        """The same with the settings that a person changed at run time."""
        known = {setting.name for setting in fields(self)}
        changes: dict[str, Any] = {name: value for name, value in edits.items() if name in known}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class ThrottledCall:
    """A call that was refused because of a rate limit."""

    hint: float | None  #: seconds to wait, as the server says (Retry-After)
    epoch: int  #: of the rate, when the call got its slot
    age: float = 0.0  #: seconds from the call to its refusal


class CallOutcome(TypedDict, total=False):
    """The outcome of one call."""

    ok: int
    failed: int
    abandoned: int
    spent: float
    paid: float
    needed: float
    why: str
    refused: str
    throttled: ThrottledCall
    epoch: int  #: of the breaker, when the call got its slot


@dataclass
class CallOutcomes:
    """The outcomes of calls since the last turn."""

    ok: int = 0
    ok_ago: float = 0.0  #: seconds since the last of them
    epochs: list[int] = field(default_factory=list)  #: of the breaker, when the answered calls got their slots
    throttled: list[ThrottledCall] = field(default_factory=list)
    failed: int = 0
    abandoned: int = 0  #: calls whose caller did not wait for the answer
    why: str = ""
    refused: str = ""  #: the provider's message, if it did not accept our key
    spent: float = 0.0  #: estimates of calls, corrected by their real cost once known
    paid: float = 0.0  #: what answered calls cost
    needed: float = 0.0  #: the estimate of a call that the rest of today's budget does not cover

    def __bool__(self) -> bool:
        return bool(self.ok or self.abandoned or self.spent or self.urgent)

    @property
    def urgent(self) -> bool:
        """Whether other processes have to know at once."""
        return bool(self.throttled or self.failed or self.refused or self.needed)

    def combine(self, newer: CallOutcomes) -> CallOutcomes:
        """These outcomes, which could not be reported, together with those that came later."""
        for name in ("ok", "failed", "abandoned", "spent", "paid", "throttled", "epochs"):
            setattr(self, name, getattr(self, name) + getattr(newer, name))
        self.needed = max(self.needed, newer.needed)
        self.why, self.refused = newer.why or self.why, newer.refused or self.refused
        return self


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The result of one turn at the gate."""

    slots: tuple[float, ...]  #: seconds from now at which calls may go
    epoch: tuple[int, int]  #: of the rate and of the breaker: slots of an earlier epoch are void
    again: float  #: seconds until another turn can give slots
    closed: str = ""  #: why no call is allowed, as a text for people
    reopens: float = 0.0  #: seconds until the gate may be open again
    wary: bool = False
    left: float | None = None  #: dollars of today's budget, when there is one


@dataclass
class GateState:
    """Everything that a gate remembers, shared by the fleet."""

    settings: GateSettings
    limiter: Limiter
    breaker: Breaker
    edits: GateEdits = field(default_factory=lambda: GateEdits())
    day: int = 0
    spent: float = 0.0  #: dollars today
    typical: float = 0.0  #: dollars of an average call
    needed: float = 0.0  #: dollars of a call that did not fit into today's budget
    calls: int = 0
    refusals: int = 0
    failures: int = 0

    @classmethod
    def load(cls, settings: GateSettings, text: str | None) -> GateState:
        """The saved state, with these settings and the changes that people made to them."""
        saved: SavedGate = json.loads(text) if text else {}
        edits: GateEdits = saved.get("edits", {})
        settings = settings.with_edits(edits)
        memory: SavedLimiter = saved.get("limiter", {}) if saved.get("profile") == settings.profile else {}
        plain: dict[str, Any] = {name: value for name, value in saved.items() if name in KEPT}
        return cls(
            settings, PROFILES[settings.profile].load(settings.rates, memory), Breaker.load(saved.get("breaker", {})),
            edits, **plain,
        )  # fmt: skip

    def dump(self) -> str:
        """The state as JSON."""
        saved: SavedGate = {
            "edits": self.edits, "day": self.day, "spent": self.spent, "typical": self.typical, "needed": self.needed,
            "calls": self.calls, "refusals": self.refusals, "failures": self.failures,
            "profile": self.settings.profile, "limiter": self.limiter.as_dict(), "breaker": self.breaker.as_dict(),
        }  # fmt: skip
        return json.dumps(saved)

    @property
    def epoch(self) -> tuple[int, int]:
        """The epochs of rate and breaker; they change when slots that were handed out become void."""
        return self.limiter.epoch, self.breaker.epoch

    def turn(self, now: float, outcomes: CallOutcomes, want: int) -> TurnResult:
        """Takes in outcomes and hands out up to `want` slots."""
        self.record_outcomes(now, outcomes)
        return self.give(now, want)

    def record_outcomes(self, now: float, outcomes: CallOutcomes) -> None:
        """Takes in the outcomes of calls."""
        settings, epoch_before = self.settings, self.breaker.epoch
        today = int(now // DAY)
        if today != self.day:
            self.day, self.spent, self.needed = today, 0.0, 0.0
        self.spent = max(0.0, self.spent + outcomes.spent)
        self.calls += outcomes.ok + outcomes.failed + len(outcomes.throttled)
        self.refusals += len(outcomes.throttled)
        self.failures += outcomes.failed
        if outcomes.ok:
            self.limiter.record_success(now, outcomes.ok)
            if outcomes.paid > 0:
                self.typical += (outcomes.paid / outcomes.ok - self.typical) * (0.2 if self.typical else 1.0)
        self.needed = max(self.needed, outcomes.needed)
        # A server that refuses a call because of its rate is not down.
        if outcomes.ok or outcomes.throttled:
            answered = outcomes.ok + len(outcomes.throttled)
            self.breaker.record_success(now - outcomes.ok_ago, answered, self.breaker.epoch in outcomes.epochs)
        for refusal in outcomes.throttled:
            self.limiter.record_throttle(now, refusal.hint, refusal.epoch, refusal.age)
        self.breaker.record_abandoned(outcomes.abandoned)
        self.breaker.record_failure(now, outcomes.failed, outcomes.why, settings.threshold, settings.recovery)
        if outcomes.refused:
            self.breaker.record_refusal(now, outcomes.refused)
        if self.breaker.epoch != epoch_before:
            self.limiter.rewind(now)

    def give(self, now: float, want: int) -> TurnResult:
        """Hands out slots, or the reason why there are none."""
        closed, reopens = self.closure(now)
        allowed = 0 if closed else want
        trusted = self.breaker.allows(now, self.settings.threshold)
        if trusted is not None:
            allowed = min(allowed, trusted)
        if self.settings.budget is not None and self.typical:
            allowed = min(allowed, max(1, int((self.settings.budget - self.spent) / self.typical)))
        slots = self.limiter.grant(now, allowed) if allowed else []
        self.breaker.let_through(now, len(slots))
        again = self.limiter.next_slot(now)
        if trusted is not None and not allowed and not closed:
            again = self.breaker.until(now)
        return TurnResult(
            tuple(at - now for at in slots), self.epoch, max(0.0, (reopens if closed else again) - now), closed,
            max(0.0, reopens - now) if closed else 0.0, self.breaker.wary,
            None if self.settings.budget is None else self.settings.budget - self.spent_today(now),
        )  # fmt: skip

    def closure(self, now: float) -> tuple[str, float]:
        """Why the gate is closed, and until when; empty when it is open."""
        budget = self.settings.budget
        next_call = max(self.typical, self.needed)
        if budget is not None and self.spent + next_call > budget and int(now // DAY) == self.day:
            spent, most, cost = (f"{amount:.2f}" for amount in (self.spent, budget, next_call))
            return Message("gate.budget_spent", spent=spent, budget=most, cost=cost), (self.day + 1) * DAY
        breaker = self.breaker
        if breaker.state != "closed" and not breaker.allows(now, self.settings.threshold):
            if breaker.state == "probing":
                return Message("gate.probing", detail=breaker.reason), now + 1.0
            return Message("gate.will_probe", detail=breaker.reason), breaker.opened_at + breaker.recovery
        return "", 0.0

    def spent_today(self, now: float) -> float:
        """Dollars spent today; 0 on a new day that has had no turn yet."""
        return self.spent if int(now // DAY) == self.day else 0.0

    def edit(self, now: float, changes: GateEdits, *, reset: bool = False) -> None:
        """Applies a person's changes at run time; raises ConfigurationError for invalid ones."""
        self.settings = self.settings.with_edits(changes)
        self.edits |= changes
        if "budget" in changes:
            self.needed = 0.0
        if changes.keys() & {"profile", "min_rate", "max_rate"} or "rate" in changes:
            speed = changes.get("rate", self.limiter.speed)
            self.limiter = PROFILES[self.settings.profile].load(self.settings.rates, self.limiter.as_dict())
            self.limiter.set_rate(now, speed)
        if reset:
            self.breaker.reset()
