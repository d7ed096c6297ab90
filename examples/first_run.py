"""`make first-run`: a SQLite file, a table with rows, two workers, one of them killed midway, and a summary."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parent.parent))

from examples import registry
from tabellion.cli.status import picture_of
from tabellion.engine.environment import Environment
from tabellion.monitor import snapshot
from tabellion.monitor.snapshot import Snapshot

DOCUMENTS, COMPANIES = 200, 40
FOLDER = Path("tabellion-data")
QUEUES = [registry.extraction, registry.ocr, registry.companies]


def prepare() -> Path:
    """Create a fresh file with the owner's tables and rows; tabellion adds its own tables later."""
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "first-run.db"
    for leftover in FOLDER.glob("first-run.db*"):
        leftover.unlink()
    with sqlite3.connect(file) as connection:
        connection.executescript(registry.SCHEMA)
        documents = [(f"document {n}",) for n in range(DOCUMENTS)]
        connection.executemany("INSERT INTO extraction_queue (document) VALUES (?)", documents)
        connection.executemany(
            "INSERT INTO search_sessions (company) VALUES (?)", [(f"company {n}",) for n in range(COMPANIES)]
        )
    return file


class View:
    """The progress bars and the status tables, kept up to date."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description:<22}"), BarColumn(40), MofNCompleteColumn(), console=console
        )
        self.bars: dict[str, TaskID] = {
            "extraction": self.progress.add_task("documents extracted", total=DOCUMENTS),
            "ocr": self.progress.add_task("documents read", total=DOCUMENTS),
            "companies": self.progress.add_task("companies looked up", total=COMPANIES),
        }
        self.printed_at = 0.0

    def of(self, picture: Snapshot) -> Group:
        """Return what to show now."""
        by_name = {one.queue: one for one in picture.queues}
        read = by_name["ocr"].done + by_name["ocr"].failed
        extracted = read + by_name["ocr"].ready + by_name["ocr"].running
        self.progress.update(self.bars["ocr"], completed=read)
        self.progress.update(self.bars["extraction"], completed=extracted)
        self.progress.update(self.bars["companies"], completed=by_name["companies"].done)
        picture.jobs = picture.jobs[:6]
        return Group(self.progress, Text(""), picture_of([picture]))

    def show(self, picture: Snapshot) -> None:
        """Print one line a second for logs, where a live view cannot be drawn."""
        if not self.console.is_terminal and time.monotonic() - self.printed_at > 1:
            self.printed_at = time.monotonic()
            counts = ", ".join(f"{one.queue}: {one.ready} ready, {one.running} running" for one in picture.queues)
            self.console.print(counts)


async def watch(url: str, workers: subprocess.Popen[bytes], console: Console) -> str | None:
    """Show progress until the workers end; kill one of them with -9 when a third of the work is done."""
    environment = Environment("laptop", url)
    store = environment.store()
    view = View(console)
    victim = None
    picture = await snapshot.take(environment, store, QUEUES)
    with Live(view.of(picture), console=console, auto_refresh=False, transient=True) as live:
        while workers.poll() is None:
            await asyncio.sleep(0.1)
            picture = await snapshot.take(environment, store, QUEUES)
            if picture.up:
                live.update(view.of(picture), refresh=console.is_terminal)
                view.show(picture)
            done = sum(one.done for one in picture.queues)
            busy = [member for member in picture.workers if member["busy"]]
            if victim is None and busy and done > DOCUMENTS / 3:
                victim = busy[0]["id"]
                os.kill(busy[0]["pid"], signal.SIGKILL)
    await store.close()
    return victim


def summary(file: Path, victim: str | None, seconds: float, console: Console) -> bool:
    """Print what the rows and the register say in the end; return True if nothing was lost or done twice."""
    with sqlite3.connect(file) as connection:

        def one(text: str) -> int:
            return int(connection.execute(text).fetchone()[0])

        done = one("SELECT count(*) FROM extraction_queue WHERE status_id = 5")
        failed = one("SELECT count(*) FROM extraction_queue WHERE status_id = 4")
        companies = one("SELECT count(*) FROM search_sessions WHERE req_completed")
        attempts = one("SELECT count(*) FROM tabellion_attempts")
        retried = one("SELECT count(*) FROM tabellion_attempts WHERE outcome = 'retried'")
        crashed = one("SELECT count(*) FROM tabellion_attempts WHERE outcome = 'crashed'")
        accepted = one("SELECT count(*) FROM tabellion_attempts WHERE outcome = 'done'")
        twice = accepted - one(
            "SELECT count(DISTINCT queue || ' ' || key) FROM tabellion_attempts WHERE outcome = 'done'"
        )
    lost = DOCUMENTS - done - failed + COMPANIES - companies
    console.print(f"\n[bold]Done in {seconds:.1f} s[/bold], by two worker processes on one SQLite file: {file}")
    console.print(
        f"  {done} documents extracted and read, {failed} failed for good (empty PDFs), {companies} companies looked up"
    )
    console.print(
        f"  {attempts} attempts in the register: {retried} retried after an error, "
        f"{crashed} reclaimed from a dead worker"
    )
    if victim:
        console.print(f"  {victim} was killed with `kill -9` midway; its jobs were ready again at once")
    good = lost == 0 and twice == 0
    console.print(f"  [bold {'green' if good else 'red'}]lost: {lost}, accepted twice: {twice}[/]")
    console.print("\nLook around:")
    command = f"DATABASE_URL=sqlite:///{file} .venv/bin/tabellion --queues examples/registry.py"
    for words in ("status", "explain ocr 40", 'retry ocr --error "empty PDF"', "doctor"):
        console.print(f"  {command} {words}", soft_wrap=True)
    return good


def main() -> int:
    """Run the whole demonstration."""
    console = Console(highlight=False)
    file = prepare()
    url = f"sqlite:///{file}"
    console.print(
        f"{DOCUMENTS} documents and {COMPANIES} companies wait in {file}; two workers start, one will be killed."
    )
    started = time.monotonic()
    with (FOLDER / "first-run.log").open("wb") as log:
        workers = subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--queues", str(Path(__file__).with_name("registry.py")), "worker",
             "--processes", "2", "--concurrency", "8", "--until-idle"],
            env=os.environ | {"TABELLION_DATABASE_URL": url}, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            victim = asyncio.run(watch(url, workers, console))
        except KeyboardInterrupt:
            console.print("stopping…")
            workers.send_signal(signal.SIGTERM)
            workers.wait(60)
            return 130
    if workers.returncode != 0:
        console.print((FOLDER / "first-run.log").read_text()[-2000:])
        return 1
    return 0 if summary(file, victim, time.monotonic() - started, console) else 1


if __name__ == "__main__":
    sys.exit(main())
