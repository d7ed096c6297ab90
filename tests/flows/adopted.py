"""One table on one database, its owner's SQL, and the commands on it as people type them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sqlite3
import uuid
from pathlib import Path
from typing import Any, cast

import asyncpg
from click.testing import CliRunner, Result
from typer.main import get_command

from tabellion import Event
from tabellion.cli import exit_code
from tabellion.cli.app import app
from tabellion.cli.queue_module import declared_queues
from tabellion.errors import TabellionError
from tests.flows.kinds import Kind
from tests.workers import EventRecorder, drain, make_worker

HANDLER = """    if job[{work!r}] == "bad":
        raise Permanent("no such file")
    if job[{work!r}] == "shaky" and job.attempt == 1:
        raise ConnectionError("try again")
    return {{{result!r}: 7}}
"""
COMMAND: Any = get_command(app)  # made once: typer would make it again for each call
_roles = itertools.count(1)


class Adopted:
    """A kind of table in its own database, and a folder with `tabellion.toml` and `queues.py`."""

    def __init__(self, kind: Kind, folder: Path, url: str) -> None:
        self.kind, self.folder, self.owner_url, self.url = kind, folder, url, url
        self.dialect = url.partition(":")[0]
        self.role, self.key, self._numbers = "", "", itertools.count(10)
        self._loop, self._connection = asyncio.new_event_loop(), cast(Any, None)
        self.script(kind.script(self.dialect))
        if kind.role:
            self.role = f"worker_{next(_roles)}"
            self.url = url.replace("postgres@", f"{self.role}@")
            self.script(f"CREATE ROLE {self.role} LOGIN;" + kind.role.format(role=self.role))
        self.file = folder / "queues.py"
        (folder / "tabellion.toml").write_text(f'queues = "{self.file}"\n[environments]\nprod = "{self.url}"\n')

    def script(self, text: str) -> None:
        """Run the owner's own SQL, any number of statements."""
        if self.dialect == "postgresql":
            self._loop.run_until_complete(self._postgres("execute", text))
            return
        with contextlib.closing(sqlite3.connect(self.owner_url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(text)

    def ask(self, question: str) -> list[dict[str, Any]]:
        """Return the rows of one query, as the owner sees them."""
        if self.dialect == "postgresql":
            return [dict(row) for row in self._loop.run_until_complete(self._postgres("fetch", question))]
        with contextlib.closing(sqlite3.connect(self.owner_url.removeprefix("sqlite:///"))) as connection:
            cursor = connection.execute(question)
            names = [item[0] for item in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    async def _postgres(self, method: str, text: str) -> Any:
        if self._connection is None:
            self._connection = await asyncpg.connect(self.owner_url, statement_cache_size=0)
        return await getattr(self._connection, method)(text)

    def close(self) -> None:
        """Remove the role, which outlives its database, and close the owner's connection."""
        if self.role:
            self.script(f"DROP OWNED BY {self.role}; DROP ROLE {self.role};")
        if self._connection is not None:
            self._loop.run_until_complete(self._connection.close())
        self._loop.close()

    def insert(self, *works: str) -> None:
        """Insert waiting rows, as the application does."""
        for work in works:
            self.script(self.kind.insert.format(work=work, n=next(self._numbers), uuid=uuid.uuid4()))

    def table(self) -> str:
        """The table's name in SQL."""
        return ".".join(f'"{part}"' for part in self.kind.table.split("."))

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return every row, by its work."""
        return {row[self.kind.work]: row for row in self.ask(f"SELECT * FROM {self.table()}")}

    def key_of(self, work: str) -> str:
        """Return a row's key as the command line takes it."""
        return str(self.rows()[work][self.key])

    def content(self) -> Any:
        """Return everything the database holds, to the byte or to the transaction."""
        if self.dialect == "sqlite":
            return {path.name: path.read_bytes() for path in self.folder.glob("work.db*")}
        return self.ask(
            f"""SELECT
(SELECT md5(string_agg(concat_ws(' ', relname, relfilenode, xmin), ',' ORDER BY oid)) FROM pg_class),
(SELECT md5(string_agg(concat_ws(' ', xmin, ctid, t), ',' ORDER BY t::text)) FROM {self.table()} AS t)"""
        )

    def run(self, *words: str) -> Result:
        """Run one command in this process; our errors become exit codes and sentences as in the real program."""
        result = CliRunner().invoke(COMMAND, ["--config", str(self.folder / "tabellion.toml"), *words])
        if isinstance(result.exception, TabellionError):
            result.exit_code = exit_code(result.exception)
            result.stderr_bytes = (result.stderr_bytes or b"") + str(result.exception).encode()
        elif result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *words: str) -> Any:
        """Return one command's JSON."""
        result = self.run(*words, "--json")
        assert result.exit_code == 0, result.output + result.stderr
        return json.loads(result.stdout)

    def adopt(self) -> dict[str, Any]:
        """Write the declaration, as its own message asks for it."""
        found: dict[str, Any] = self.json("adopt", self.kind.table, *self.kind.options, "--write", str(self.file))
        self.key = found["key"]
        return found

    def edit(self) -> None:
        """Edit the declaration as the user does: the handler, quick retries, and what the table needs."""
        text = self.file.read_text()
        lines = "".join(f"    {line}\n" for line in ("retry_base=0.01,", self.kind.edit) if line)
        head, end, tail = text.partition("\n)\n")
        assert end, text
        tail = tail.replace("# @", "@").replace("# async def", "async def")
        tail = tail.replace("#     return {}\n", HANDLER.format(work=self.kind.work, result=self.kind.result))
        self.file.write_text(f"{head}\n{lines})\n{tail}".replace("import Job, Queue", "import Job, Permanent, Queue"))

    def work(self) -> list[Event]:
        """Run a worker until nothing is left to do; return its events about jobs."""
        recorder = EventRecorder()
        drain(make_worker(self.url, *declared_queues(str(self.file)), concurrency=4, listeners=[recorder]))
        return [event for event in recorder.events if event.key]

    def findings(self) -> list[str]:
        """Return what `doctor` reports about the queue."""
        return [
            one["what"]
            for one in json.loads(self.run("doctor", "--json").stdout)
            if one["level"] in ("warning", "error") and one["where"] != "prod"
        ]

    def attempts(self, work: str) -> list[dict[str, Any]]:
        """Return what the register keeps of a job, oldest first."""
        return self.ask(f"SELECT * FROM tabellion_attempts WHERE key = '{self.key_of(work)}' ORDER BY n")
