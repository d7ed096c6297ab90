"""Slots, and the calls that callers make with them: each tells its gate how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from tabellion.engine.gates.state import CallOutcome, ThrottledCall

if TYPE_CHECKING:
    from tabellion.engine.gates.gate import Gate


@dataclass(slots=True)
class Slot:
    """The right to make one call from a certain time on (this process's monotonic clock)."""

    at: float
    epoch: tuple[int, int]


class Pass:
    """One call under way: its caller records its outcome, once."""

    def __init__(self, gate: Gate, slot: Slot, estimate: float) -> None:
        self._gate = gate
        self._epoch, self._breaker = slot.epoch
        self._estimate = estimate
        self._made_at = time.monotonic()
        self._reported = False

    def record_success(self, cost: float | None) -> None:
        """Records that the upstream answered, and what the call cost."""
        self._report(ok=1, epoch=self._breaker, paid=cost or 0.0, spent=(cost or 0.0) - self._estimate)

    def record_throttle(self, hint: float | None) -> None:
        """Records that the upstream refused the call because of its rate limit."""
        refusal = ThrottledCall(hint, self._epoch, time.monotonic() - self._made_at)
        self._report(throttled=refusal, epoch=self._breaker, spent=-self._estimate)

    def record_failure(self, why: str) -> None:
        """Records that the upstream, or the network on the way to it, failed."""
        self._report(failed=1, why=why, spent=-self._estimate)

    def record_refusal(self, why: str) -> None:
        """Records that the upstream did not accept our key."""
        self._report(refused=why, spent=-self._estimate)

    def record_abandoned(self) -> None:
        """Records that the caller did not wait for the answer: its outcome is unknown, the estimate stays charged."""
        self._report(abandoned=1)

    async def flush(self) -> str:
        """Waits until the outcome is written for the fleet; returns why the gate is closed now, or an empty text."""
        return await self._gate.run_in_loop(self._gate.flush())

    def __del__(self) -> None:
        # Its caller was cancelled before it had the pass. Never in the middle of what the gate's own thread is doing.
        if not self._reported:
            self._reported = True
            self._gate.schedule_in_loop(self._gate.add_outcome, {"abandoned": 1})

    def _report(self, **outcome: Unpack[CallOutcome]) -> None:
        if not self._reported:
            self._reported = True
            self._gate.call_in_loop(self._gate.add_outcome, outcome)
