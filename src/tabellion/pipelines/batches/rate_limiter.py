"""The state of the shared gate in the shape of the status answer.

| field           | profile `classic`       | profile `adaptive`                                    | no gate      |
|-----------------|-------------------------|-------------------------------------------------------|--------------|
| `rps`           | tokens added per second | calls per second that are allowed now                 | 0: no limit  |
| `max_tokens`    | the size of the bucket  | calls that may start within the next second           | worker slots |
| `tokens`        | tokens in it now        | the same; 0 while the gate is closed or pauses        | worker slots |
| `backoff_until` | the end of the pause    | the end of the pause, or when a closed gate may open  | not present  |
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NotRequired

from tabellion.answers import Answer, Doc
from tabellion.engine.gates.adaptive import Adaptive
from tabellion.engine.gates.limiter import HORIZON, Classic
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import GateSettings, GateState

if TYPE_CHECKING:
    from tabellion.engine.store import Store


class RateLimiter(Answer):
    """The limiter that all chunks share."""

    tokens: Annotated[float, Doc("Calls that may start now.")]
    max_tokens: Annotated[float, Doc("The most calls that may start at once.")]
    rps: Annotated[float, Doc("Calls per second; 0: no limit.")]
    backoff_until: NotRequired[Annotated[str, Doc("No call starts before this time.")]]


async def read_limiter(store: Store, gate: str | None, settings: GateSettings | None, slots: int) -> RateLimiter:
    """The state of a gate; without one, calls are limited by slots only."""
    if gate is None:
        return RateLimiter(tokens=slots, max_tokens=slots, rps=0)
    state, now = await GateRow(store, gate, settings or GateSettings()).read()
    return describe(state, now)


def describe(state: GateState, now: float) -> RateLimiter:
    """The state of a gate at a time."""
    limiter = state.limiter
    closed, reopens = state.closure(now)
    until = reopens if closed else 0.0
    if isinstance(limiter, Classic):
        elapsed = max(0.0, now - (limiter.last_refill or now))
        tokens = min(limiter.max_tokens, limiter.tokens + elapsed * limiter.refill_rate)
        most, until = limiter.max_tokens, max(until, limiter.backoff_until)
    else:
        most = tokens = max(1.0, limiter.speed * HORIZON)
        if isinstance(limiter, Adaptive):
            # Not `next_at`: slots that are handed out ahead of time are calls that go on, no pause.
            until = max(until, limiter.paused_until, limiter.exhaustion.probe_at)
    waits = until > now
    found = RateLimiter(tokens=0 if waits else round(tokens, 3), max_tokens=round(most, 3), rps=round(limiter.speed, 3))
    if waits:
        found["backoff_until"] = (
            datetime.fromtimestamp(until, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    return found
