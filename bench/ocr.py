"""OCR on several workers: python -m bench.ocr [--latency 2.0] [--quick]

A model that takes a fixed time for each page, on PostgreSQL. Seed 000 says that two workers read four documents in half
the time of one; sixteen slots of one worker should read sixty-four documents sixteen times as fast. Each run has new
documents, one page each, so that no memo helps.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.pipelines.ocr.deeds import by_gemini, plan, queue_files
from tests.servers import postgres
from tests.workers import EventRecorder, RunningWorker, make_worker

from tabellion.engine.gates.state import GateSettings
from tabellion.models.fake.serving import Serving, serving
from tabellion.pipelines.ocr.queues import ocr_queues

FAST = {"gemini": GateSettings(rate=1000, max_rate=10_000)}  #: the gate must not be what is measured
_marks = itertools.count(1)


def main() -> None:
    """Print both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=2.0, help="seconds that the model takes for a page")
    parser.add_argument("--quick", action="store_true", help="only the first comparison")
    args = parser.parse_args()
    with postgres() as server, serving(latency=args.latency) as fake:
        names = (f"ocr{number}" for number in itertools.count())

        def run(documents: int, workers: int, slots: int) -> float:
            return measure(server.create_database(next(names)), fake, documents, workers, slots)

        one, two = run(4, 1, 1), run(4, 2, 1)
        print(f"4 documents: {one:.2f} s on 1 worker, {two:.2f} s on 2: {two / one:.2f} of the time (target: 0.55)")
        if args.quick:
            return
        single, many = run(64, 1, 1), run(64, 1, 16)
        print(f"64 documents: {single:.1f} s on 1 slot, {many:.2f} s on 16: {single / many:.1f} times (target: 14)")


def measure(url: str, fake: Serving, documents: int, workers: int, slots: int) -> float:
    """Measure seconds from the first claim to the last text, without the start of the workers."""
    with tempfile.TemporaryDirectory() as folder:
        settings = by_gemini(Path(folder), fake, workers=slots)
        warm = workers * slots  # connections, reading children, tables: as many of them as will be needed
        queue_files(url, Path(folder), *(plan(1, mark=next(_marks)) for _ in range(warm)))
        recorder = EventRecorder()
        options: dict[str, Any] = {"gates": FAST, "concurrency": slots, "listeners": [recorder]}
        crew = [make_worker(url, *ocr_queues(settings), **options) for _ in range(workers)]
        shifts = [RunningWorker(one) for one in crew]
        wait(recorder, warm)
        contents = [plan(1, mark=next(_marks)) for _ in range(documents)]
        began = time.monotonic()
        queue_files(url, Path(folder), *contents, first=warm)
        wait(recorder, documents + warm)
        took = time.monotonic() - began
        for one in crew:
            one.stop()
        for shift in shifts:
            shift.end()
        return took


def wait(recorder: EventRecorder, count: int) -> None:
    """Wait until this many documents have their text."""
    while len(recorder.of("done")) < count:
        time.sleep(0.02)


if __name__ == "__main__":
    main()
