"""A user's project for command line tests: a database, a table, a module of queues, a configuration."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tabellion import Store
from tabellion.cli import exit_code
from tabellion.cli.app import app
from tabellion.errors import TabellionError

QUEUES = """
from tabellion import Job, Permanent, Queue

invoices = Queue(
    "invoices", ready="new", running="reading", done="read", failed="broken",
    worker="worker_id", started_at="started_at", error="error_message", retry_base=0.05,
)


@invoices.handler
async def read(job: Job) -> dict:
    if job["url"] == "empty":
        raise Permanent("no file")
    if job["url"] == "kill" and job.attempt == 1:
        import os, signal
        job.note("page 3 of 9")
        import asyncio
        await asyncio.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    if job["url"] == "slow":
        import asyncio
        await asyncio.sleep(60)
    return {"total": len(job["url"])}
"""
TABLES = {
    "sqlite": """CREATE TABLE invoices (id INTEGER PRIMARY KEY, status TEXT NOT NULL DEFAULT 'new', url TEXT,
        total INTEGER, worker_id TEXT, started_at TEXT, error_message TEXT,
        created_at TEXT DEFAULT CURRENT_TIMESTAMP)""",
    "postgresql": """CREATE TABLE invoices (id serial PRIMARY KEY, status text NOT NULL DEFAULT 'new', url text,
        total integer, worker_id text, started_at timestamptz, error_message text,
        created_at timestamptz DEFAULT now())""",
}


class Project:
    """A folder with `queues.py` and `tabellion.toml`, and its database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        (folder / "queues.py").write_text(QUEUES)
        (folder / "tabellion.toml").write_text(f'queues = "{folder}/queues.py"\n[environments]\nprod = "{url}"\n')
        self.sql(TABLES[Store(url).dialect])

    def sql(self, *statements: str) -> list[dict[str, Any]]:
        """Run statements as the table's owner; return the rows of the last one."""

        async def run() -> list[dict[str, Any]]:
            store = Store(self.url)
            try:
                return [await store.database.fetch(statement) for statement in statements][-1]
            finally:
                await store.close()

        return asyncio.run(run())

    def insert(self, *urls: str) -> None:
        """Insert new rows with these URLs."""
        for url in urls:
            self.sql(f"INSERT INTO invoices (url) VALUES ('{url}')")

    def run(self, *words: str, input: str | None = None) -> Result:  # noqa: A002
        """Run one command in this process; our errors become exit codes as in the real program."""
        result = CliRunner().invoke(app, ["--config", str(self.folder / "tabellion.toml"), *words], input=input)
        if isinstance(result.exception, TabellionError):
            result.exit_code = exit_code(result.exception)
        return result

    def json(self, *words: str) -> Any:
        """Return one command's JSON."""
        result = self.run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def work(self) -> None:
        """Work until the queue is empty, in a separate process."""
        process = self.start("worker", "--until-idle")
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start one command in a separate process."""
        return subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--config", str(self.folder / "tabellion.toml"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TABELLION_POLL": "0.1"},
        )
