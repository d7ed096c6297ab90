"""Fleets against quotas counted by windows: how much of each is used, and how many calls are refused."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.servers import postgres
from tests.table_owner import Owner

from bench.gates import INDEX, TABLE, add, fleet, share
from tabellion.models.fake.serving import serving

LATENCY = 0.4  # seconds a call takes; a refusal comes at once
TOGETHER = 3  # trials at once: more would measure the machine
#: What is run unless told otherwise, eight minutes: the windows that providers have, and whether the quota moves.
USUAL = (("fixed:20", "bare", True), ("sliding:20", "full", True), ("fixed:60", "bare", False))
LENGTHS = (1, 10, 20, 60)


@dataclass(frozen=True, slots=True)
class Trial:
    """One fleet against one kind of quota, with its rates one after the other."""

    window: str
    hints: str
    rates: tuple[float, ...]
    learning: float
    processes: int
    callers: int

    @property
    def measured(self) -> float:
        """The seconds that are measured: a minute, or three windows."""
        return max(60.0, 3 * float(self.window.partition(":")[2]))

    def run(self) -> list[str]:
        """Run it; return a line for each rate."""
        lines = []
        knobs = f"window={self.window},hint={self.hints}"
        with postgres(durable=True) as server, serving(rate=self.rates[0], latency=LATENCY, knobs=knobs) as fake:
            owner = Owner(server.url)
            owner(TABLE)
            owner(INDEX)
            add(owner, 1, 60_000, "gated")
            with fleet(server.url, fake, self.processes, self.callers):
                while not fake.report()["requests"]:
                    time.sleep(0.05)
                for rate in self.rates:
                    fake.change(rate=rate)
                    begin = time.time() + self.learning
                    time.sleep(self.learning + self.measured)
                    shares = share(fake.lines(), begin, begin + self.measured, rate)
                    lines.append(
                        f"{self.window:11s} {self.hints:5s} after {self.learning:3.0f} s of learning: {shares}"
                    )
            highest = owner("SELECT max(attempt) AS n FROM tabellion_attempts")[0]["n"]
            lines.append(f"{self.window:11s} {self.hints:5s} highest attempt number: {highest}")
        return lines


def compare(given: argparse.Namespace, processes: int) -> None:
    """Run the requested trials, a few at once, and print what each found."""
    trials = list(_trials(given, processes))
    print(
        f"{processes} processes of {given.callers} slots, {LATENCY:g} s a call; the first quota is {given.rates[0]:g}/s"
    )
    with ThreadPoolExecutor(TOGETHER) as threads:
        for lines in threads.map(Trial.run, trials):
            print("\n".join(lines), flush=True)


def _trials(given: argparse.Namespace, processes: int) -> Iterator[Trial]:
    rates = tuple(given.rates)
    if given.full:
        kinds = [f"{kind}:{length}" for length in LENGTHS for kind in ("bucket", "fixed", "sliding")]
        chosen = [(window, hints, True) for window, hints in itertools.product(kinds, ("bare", "full"))]
    elif given.windows:
        chosen = [(window, hints, True) for window, hints in itertools.product(given.windows, given.hints)]
    else:
        chosen = list(USUAL)
    for window, hints, moves in chosen:
        learning = given.learning or max(60.0, 5 * float(window.partition(":")[2]))
        yield Trial(window, hints, rates if moves else rates[:1], learning, processes, given.callers)
