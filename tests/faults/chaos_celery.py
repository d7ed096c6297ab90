"""Empties and kills the broker, kills half of the fleet, and proves that nothing was lost and nothing accepted twice.

    python -m tests.faults.chaos_celery --jobs 20000 [--broker valkey|rabbitmq|both] [--seed 7] [--nodes 4]

Nodes are real `tabellion worker --celery` with two processes each, on PostgreSQL. The checker is that of
`tests.faults.chaos`. Ends with 1 if any promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tabellion.engine.worker.temp_folders import Folders
from tests.brokers import BROKERS, NO_RABBIT, Broker, broker, has_rabbitmq
from tests.cli.running import CLEAN, descendants
from tests.faults import checker
from tests.faults.celery_declared import FOLDER, LEASE, MAX_ATTEMPTS, SWEEP
from tests.faults.chaos import AWAY, CHUNK
from tests.faults.chaos import Table as ChaosTable
from tests.faults.chaos_worker import PERMANENT
from tests.faults.checker import Logs, Report, Terms
from tests.servers import Postgres, postgres

ROOT = Path(__file__).parents[2]
PROCESSES, CONCURRENCY, GRACE = 2, 40, 4.0
FROZEN = LEASE * 1.6 + SWEEP
STUCK = 60.0  # seconds without progress
LONGEST_END = 40.0
NEW = 20.0  # seconds after its start in which a node may be ended by a signal
FAULTS = ("flush", "half", "broker", "zombie", "child")


@dataclass
class Tally:
    """What was done."""

    faults: Counter[str] = field(default_factory=Counter)
    killed: int = 0  #: processes
    recoveries: dict[str, float] = field(default_factory=dict)  #: longest seconds from a fault to the next ended job
    seconds: float = 0.0
    exits: Counter[int] = field(default_factory=Counter)
    stuck: str = ""


class Node:
    """One `tabellion worker --celery`."""

    def __init__(self, url: str, broker_url: str, folder: Path, failpoints: str = "") -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith((*CLEAN, "REDIS_URL"))}
        variables = {
            "TABELLION_DATABASE_URL": url, "TABELLION_BROKER": broker_url, "TABELLION_GRACE": str(GRACE),
            FOLDER: str(folder), "TMPDIR": str(folder / "temp"), "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": str(ROOT), "TABELLION_LOG_LEVEL": "error", "TABELLION_FAILPOINTS": failpoints,
        }  # fmt: skip
        self.started_at = time.monotonic()
        self._log = (folder / "nodes.txt").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--queues", "tests.faults.celery_declared", "worker", "--celery",
             "--processes", str(PROCESSES), "--concurrency", str(CONCURRENCY)],
            env=kept | variables, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            start_new_session=True,
        )  # fmt: skip

    def kill(self) -> int:
        """kill -9 of all of its processes at once; return how many there were."""
        pids = [self.process.pid, *descendants(self.process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)
        self._log.close()
        return len(pids)

    def pool(self) -> list[int]:
        """The processes of its pool."""
        found = []
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                if b"tabellion.celery" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)  # not its reconciler
        return found

    def end(self, within: float) -> int:
        """Wait until it has ended after SIGTERM; kill it if it does not."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
        self._log.close()
        return code


class Table(ChaosTable):
    """The owner's side, which also sees who has claims."""

    def claiming_workers(self) -> set[str]:
        """Return the workers that have live claims."""
        with contextlib.suppress(*AWAY):
            return {row[0] for row in self._ask("SELECT worker FROM tabellion_attempts WHERE settled_at IS NULL")}
        return set()


class Nemesis:
    """Keeps nodes running, and does the planned faults while they work."""

    def __init__(self, table: Table, server: Broker, folder: Path, *, jobs: int, nodes: int, seed: int,
                 faults: Sequence[str]) -> None:  # fmt: skip
        self.table, self.server, self.folder, self.jobs = table, server, folder, jobs
        self.chance = random.Random(seed)
        self.faults = list(faults)
        self.tally = Tally()
        self._done_faults = 0
        self._frozen: list[tuple[int, float]] = []
        self._restart_at: float | None = None
        self._fault_at: tuple[str, float, int] | None = None
        # The processes of the first stop themselves while they write results, which will come too late.
        self.nodes = [self._start(f"settle.pre_commit:stop@{self.chance.randint(5, 20)}")]
        self.nodes += [self._start() for _ in range(nodes - 1)]

    def _start(self, failpoints: str = "") -> Node:
        return Node(self.table.url, self.server.url, self.folder, failpoints)

    def run(self, limit: float) -> None:
        """Run until every row has ended and everything planned was done."""
        began = moved_at = time.monotonic()
        ended = -1
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            # A share of the rows for each fault, and one for afterwards: every fault finds work under way.
            allowed = self.jobs * (self._done_faults + 1) // (len(self.faults) + 1)
            if self.table.inserted < allowed:
                self.table.insert(min(CHUNK, allowed - self.table.inserted))
            self._find_stopped()
            self._thaw()
            if self._restart_at is not None and now >= self._restart_at:
                self._restart_at = None
                self.server.start()
            count = self.table.inserted - self.table.open_rows()
            if count != ended:
                ended, moved_at = count, now
                self._measure(count, now)
            has_more = self._done_faults < len(self.faults)
            is_due = count >= allowed - self.jobs // (len(self.faults) + 1) // 2
            # Zombies are left alone: they shall wake up with results that come too late.
            if has_more and is_due and self._restart_at is None and not self._frozen:
                if self._do(self.faults[self._done_faults]) or count >= allowed:
                    self.tally.faults[self.faults[self._done_faults]] += 1
                    self._fault_at = self.faults[self._done_faults], time.monotonic(), count
                    self._done_faults += 1
            elif ended >= self.jobs and not has_more and not self._frozen:
                break
            if now - moved_at > STUCK or now - began > limit:
                self.tally.stuck = f"nothing moved for {now - moved_at:.0f} s, {self.jobs - ended} rows are open"
                break
        self.tally.seconds = time.monotonic() - began
        self._end()

    def _do(self, fault: str) -> bool:
        """Do one fault; return whether there was anything to do it to."""
        if fault == "flush":
            self.server.flush()
        elif fault == "broker":
            self.server.kill()
            self._restart_at = time.monotonic() + self.chance.uniform(0.2, 2.0)
        elif fault == "half":
            for number in self.chance.sample(range(len(self.nodes)), max(1, len(self.nodes) // 2)):
                self.tally.killed += self.nodes[number].kill()
                self.nodes[number] = self._start()
        else:
            return self._hit_busy(fault)
        return True

    def _hit_busy(self, fault: str) -> bool:
        """Kill or freeze a process of a pool that has jobs in its hands."""
        pids = [pid for node in self.nodes for pid in node.pool()]
        self.chance.shuffle(pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                if any(worker.endswith(f"-{pid}") for worker in self.table.claiming_workers()):
                    if fault == "child":
                        os.kill(pid, signal.SIGKILL)
                        self.tally.killed += 1
                    else:
                        self._frozen.append((pid, time.monotonic() + FROZEN))
                    return True
                os.kill(pid, signal.SIGCONT)
        return False

    def _find_stopped(self) -> None:
        """Count those that have stopped themselves at a failpoint."""
        known = {pid for pid, _ in self._frozen}
        for pid in {pid for node in self.nodes for pid in node.pool()} - known:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                    self._frozen.append((pid, time.monotonic() + FROZEN))
                    self.tally.faults["zombie"] += 1

    def _measure(self, count: int, now: float) -> None:
        """Note how long after a fault jobs end again: the first to end may have been running before it."""
        if self._fault_at is not None:
            fault, at, before = self._fault_at
            if count > before + PROCESSES * CONCURRENCY * len(self.nodes):
                self.tally.recoveries[fault] = max(self.tally.recoveries.get(fault, 0.0), now - at)
                self._fault_at = None

    def _thaw(self, *, everyone: bool = False) -> None:
        for pid, until in list(self._frozen):
            if everyone or time.monotonic() >= until:
                self._frozen.remove((pid, until))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _end(self) -> None:
        self._thaw(everyone=True)
        for node in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                node.process.send_signal(signal.SIGKILL if self.tally.stuck else signal.SIGTERM)
        for node in self.nodes:
            code = node.end(LONGEST_END)
            # One that had just been started may not have come to handling signals.
            is_new = time.monotonic() - node.started_at < NEW
            self.tally.exits[0 if code == -signal.SIGTERM and is_new else code] += 1


def run(kind: str, *, jobs: int, nodes: int = 4, rounds: int = 4, seed: int = 0, limit: float = 1800.0,
        server: Postgres | None = None, faults: Sequence[str] = FAULTS, slack: float = 5.0,
        running: Broker | None = None) -> tuple[Report, Tally]:  # fmt: skip
    """Do one chaos run with one broker; return what the checker found and what was done."""
    folder = Path(tempfile.mkdtemp(prefix="tabellion-chaos-"))
    (folder / "temp").mkdir()
    try:
        with contextlib.ExitStack() as stack:
            server = server or stack.enter_context(postgres())
            running = running or stack.enter_context(broker(kind))
            table = Table(server.create_database(folder.name.replace("-", "_")))
            table.prepare()
            nemesis = Nemesis(table, running, folder, jobs=jobs, nodes=nodes, seed=seed, faults=list(faults) * rounds)
            nemesis.run(limit)
            return judge(table, folder, nemesis.tally, slack), nemesis.tally
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge(table: Table, folder: Path, tally: Tally, slack: float) -> Report:
    """Run the checker on everything that is left."""
    terms = Terms(MAX_ATTEMPTS, SWEEP, slack, PERMANENT, tally.faults["zombie"])
    report = checker.check(table.attempts(), table.rows(), Logs.read(folder.glob("log-*.jsonl")), terms)
    if tally.stuck:
        report.blame("stuck", f"{tally.stuck}: {(folder / 'nodes.txt').read_text()[-1000:]}")
    disorder = sum(count for code, count in tally.exits.items() if code != 0)
    if disorder and not tally.stuck:
        report.blame("bad_exits", f"{dict(tally.exits)}: {(folder / 'nodes.txt').read_text()[-1000:]}", disorder)
    temp = folder / "temp" / f"tabellion-{os.getuid()}"
    janitor = Folders("janitor", temp)
    janitor.open()
    janitor.close()
    left = [path.name for path in temp.iterdir()]
    if left:
        report.blame("leftovers", left[0], len(left))
    return report


def print_report(kind: str, report: Report, tally: Tally, *, jobs: int, seed: int) -> None:
    """Print the report."""
    done = ", ".join(f"{name} {count}" for name, count in tally.faults.items())
    outcomes = ", ".join(f"{name} {count:,}" for name, count in report.outcomes.most_common())
    print(f"{kind}: seed {seed}, {jobs:,} jobs in {tally.seconds:.1f} s ({jobs / max(tally.seconds, 0.001):,.0f}/s)")
    print(f"  faults: {done}; {tally.killed} processes killed")
    back = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in tally.recoveries.items())
    print(f"  longest time from a fault until a whole fleet of jobs had ended: {back}")
    print(f"  attempts: {outcomes}")
    print(f"  answers: {report.answers['ok']:,} accepted, {report.answers['stale']:,} stale ones refused")
    print("\n".join(report.lines()))
    print("  every promise kept" if report.clean else "  BROKEN", flush=True)


def main() -> int:
    """Run as a command line program."""
    words = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos_celery", description=words)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4, help="how often each fault is done")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--broker", choices=[*BROKERS, "both"], default="both")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    clean = True
    for kind in BROKERS if given.broker == "both" else [given.broker]:
        if kind == "rabbitmq" and not has_rabbitmq():
            print(f"rabbitmq: skipped. {NO_RABBIT}")
            continue
        report, tally = run(kind, jobs=given.jobs, nodes=given.nodes, rounds=given.rounds, seed=seed)
        print_report(kind, report, tally, jobs=given.jobs, seed=seed)
        clean = clean and report.clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
