"""Runs us, the peers and the bare loops side by side and prints one table of medians, then the targets."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from tests.servers import Postgres, debian_binaries, postgres, valkey

from bench.measure import Result, from_line, medians
from bench.processes import ROOT, end_session, stop
from bench.targets import judge

RESULTS = ROOT / "bench" / "results"
PEER_PACKAGES = ("asyncpg", "celery", "dbos", "dramatiq", "huey", "pgqueuer", "procrastinate", "psycopg")


@dataclass(frozen=True)
class Script:
    """One runnable benchmark and the databases it needs, each empty."""

    module: str
    postgres: bool = False
    redis: bool = False
    sqlite: bool = False
    patience: float = 1.0

    @property
    def exists(self) -> bool:
        """Whether the module has been written."""
        return (ROOT / (self.module.replace(".", "/") + ".py")).exists()


SCRIPTS = {
    "ours": Script("bench.ours", postgres=True, sqlite=True, patience=3.0),
    "bare": Script("bench.bare", postgres=True, sqlite=True),
    "pgqueuer": Script("bench.peers.pgqueuer_peer", postgres=True),
    "dramatiq_redis": Script("bench.peers.dramatiq_redis", redis=True),
    "celery_redis": Script("bench.peers.celery_redis", redis=True),
    "procrastinate": Script("bench.peers.procrastinate", postgres=True),
    "dbos_postgres": Script("bench.peers.dbos_peer", postgres=True),
    "dbos_sqlite": Script("bench.peers.dbos_peer", sqlite=True),
    "huey_sqlite": Script("bench.peers.huey_sqlite", sqlite=True),
}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each script, one round after another")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--only", default="", help=f"some of: {','.join(SCRIPTS)}")
    parser.add_argument("--limit", type=float, default=300, help="seconds a script may take before it is killed")
    parser.add_argument("--pg15", action="store_true", help="the system's PostgreSQL 15 instead of the wheel's 18")
    parser.add_argument("--redis-aof", action="store_true", help="Valkey with its append-only file")
    return parser.parse_args()


def chosen_scripts(only: str) -> dict[str, Script]:
    """Return the requested scripts, or all that exist."""
    names = [name for name in only.split(",") if name] or list(SCRIPTS)
    unknown = [name for name in names if name not in SCRIPTS]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    return {name: SCRIPTS[name] for name in names if SCRIPTS[name].exists}


@contextlib.contextmanager
def databases(script: Script, server: Postgres, name: str, *, aof: bool) -> Iterator[list[str]]:
    """The flags that lead the script to databases nobody has used; they are gone afterwards.

    The checkpoint keeps one script's unwritten pages from being the next one's waiting time.
    """
    flags: list[str] = []
    with contextlib.ExitStack() as stack:
        if script.postgres:
            flags += ["--url", server.create_database(name)]
            stack.callback(administer, server, f"DROP DATABASE {name} WITH (FORCE)")
        if script.redis:
            flags += ["--redis", stack.enter_context(valkey(durable=aof))]
        if script.sqlite:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tabellion-bench-"))
            flags += ["--sqlite", str(Path(folder) / "bench.db")]
        administer(server, "CHECKPOINT")
        yield flags


def administer(server: Postgres, statement: str) -> str:
    """Run one statement as the server's owner; return its first value, if it has one."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return str(row[0]) if row else ""


def run(script: Script, flags: Sequence[str], jobs: int, limit: float) -> tuple[list[Result], str]:
    """What one run found, and its trouble if it had any: a script prints only what it has verified.

    It gets a session of its own, which is ended whole if it takes too long.
    """
    command = [sys.executable, "-m", script.module, "--jobs", str(jobs), "--json", *flags]
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=out, stderr=complaints, start_new_session=True
        )  # fmt: skip
        try:
            process.wait(limit)
            trouble = f"exit code {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            trouble = f"killed after {limit:.0f} s"
        finally:
            stop(process)
            end_session(process.pid)
        out.seek(0)
        complaints.seek(0)
        errors = complaints.read().decode(errors="replace").strip()
        found = [from_line(line) for line in out.read().decode(errors="replace").splitlines()]
    results = [result for result in found if result is not None]
    if not trouble and not results:
        trouble = "no result"
    return results, f"{trouble}\n{errors[-1500:]}".rstrip() if trouble else ""


def machine(server: Postgres) -> dict[str, str]:
    """Return what the figures depend on."""
    cpu = next(
        (line.partition(":")[2].strip() for line in cpu_lines() if line.startswith("model name")),
        platform.machine(),
    )
    versions = {name: importlib.metadata.version(name) for name in PEER_PACKAGES}
    return {
        "at": time.strftime("%Y-%m-%d %H:%M:%S"),
        "cpu": f"{os.cpu_count()} x {cpu}",
        "system": platform.platform(),
        "python": platform.python_version(),
        "postgresql": administer(server, "SHOW server_version"),
        "durable": ", ".join(
            f"{name} {administer(server, f'SHOW {name}')}" for name in ("fsync", "synchronous_commit")
        ),
        "peers": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def cpu_lines() -> list[str]:
    """Return what Linux says of the CPUs; elsewhere nothing."""
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def align(rows: Sequence[Sequence[str]], *, right: Sequence[int]) -> str:
    """Return the rows as columns, the first row underlined."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines)


def format_figure(value: float | None) -> str:
    """Return a number with a suitable number of digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def result_table(results: Sequence[Result]) -> str:
    """Medians with the lowest and highest run."""
    rows = [["system", "what", "median", "unit", "low", "high", "runs", "detail"]]
    for middle in medians(results):
        values = [result.value for result in results if (result.system, result.what) == (middle.system, middle.what)]
        rows.append([
            middle.system, middle.what, format_figure(statistics.median(values)), middle.unit,
            format_figure(min(values)), format_figure(max(values)), str(len(values)), middle.detail,
        ])  # fmt: skip
    return align(rows, right=(2, 4, 5, 6))


def target_table(results: Sequence[Result]) -> str:
    """Return the targets of the issue, judged on the medians."""
    rows = [["target", "ours", "against", "value", "required", "", "aim", ""]]
    for verdict in judge(medians(results)):
        target = verdict.target
        sign = "≤" if target.at_most else "≥"
        bounds = [f"{sign} {bound:,g}" if bound is not None else "-" for bound in (target.required, target.aim)]
        value = f"{format_figure(verdict.value)} {target.unit}" if verdict.value is not None else "not measured"
        rows.append([
            target.name, format_figure(verdict.ours), format_figure(verdict.against), value,
            bounds[0], verdict.required, bounds[1], verdict.aim,
        ])  # fmt: skip
    return align(rows, right=(1, 2, 3, 4, 6))


def main() -> None:
    """Run every script, round after round, so that a disturbance does not affect only one."""
    asked = arguments()
    scripts = chosen_scripts(asked.only)
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / time.strftime("compare-%Y%m%d-%H%M%S.jsonl")
    results: list[Result] = []
    failures: list[str] = []
    binaries = debian_binaries() if asked.pg15 else None
    with postgres(durable=True, binaries=binaries) as server, path.open("w") as lines:
        about = machine(server)
        lines.write(json.dumps({"machine": about}, ensure_ascii=False) + "\n")
        for round_number in range(1, asked.runs + 1):
            for name, script in scripts.items():
                started = time.monotonic()
                with databases(script, server, f"{name}_{round_number}", aof=asked.redis_aof) as flags:
                    found, trouble = run(script, flags, asked.jobs, asked.limit * script.patience)
                if trouble:
                    failures.append(f"{name}, run {round_number}: {trouble}")
                note = "FAILED" if trouble else "ok"
                seconds = time.monotonic() - started
                print(
                    f"run {round_number}/{asked.runs} {name:16} {seconds:6.1f} s  {note}",
                    file=sys.stderr,
                    flush=True,
                )
                results += found
                for result in found:
                    record = asdict(result) | {"script": name, "run": round_number}
                    lines.write(json.dumps(record, ensure_ascii=False) + "\n")
                lines.flush()
    print(f"{asked.jobs:,} jobs, medians of {asked.runs} runs")
    print("\n".join(f"{key}: {value}" for key, value in about.items()), end="\n\n")
    print(result_table(results), end="\n\n")
    print(target_table(results))
    for failure in failures:
        print(f"\nfailed: {failure}")
    print(f"\nall runs: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
