"""A job: one claimed row."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.engine.queue import Queue
from tabellion.errors import LeaseLost
from tabellion.messages import Message

if TYPE_CHECKING:
    from tabellion.engine.context import JobContext


def storable(text: str) -> str:
    """The text in a form that every database accepts: NULs and lone surrogates (in file names) are escaped."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


class Job:
    """One claimed row: its values, its attempt number and the token that proves the claim.

    The row's columns are items (`job["url"]`), the claim's facts are attributes (`job.attempt`).
    """

    __slots__ = (
        "_also",
        "_folder",
        "_note",
        "_on_note",
        "age",
        "attempt",
        "context",
        "cost",
        "crashes",
        "deferrals",
        "environment",
        "key",
        "lost",
        "n",
        "queue",
        "retry_base",
        "root",
        "text_key",
        "token",
        "values",
        "worker",
    )  # fmt: skip

    def __init__(
        self,
        queue: Queue,
        key: Any,
        text_key: str,
        values: Mapping[str, Any],
        *,
        n: int,
        token: str,
        attempt: int,
        worker: str,
        crashes: int = 0,
        deferrals: int = 0,
        age: float = 0.0,
    ) -> None:
        self.queue = queue
        self.key = key  #: the primary key's value
        self.text_key = text_key  #: the key as the register writes it
        self.values = values  #: the row as it was claimed
        self.n = n  #: the number of this execution of the row in this queue, over all retries and restarts
        self.token = token  #: proves the claim; every move sends it
        self.attempt = attempt  #: 1 for the first try; a crash counts, a release does not
        self.worker = worker
        self.crashes = crashes
        self.deferrals = deferrals
        self.age = age  #: seconds between the first claim of this job and this one
        self.environment = ""  #: its name; the worker sets it
        self.cost: float | None = None  #: what this attempt has cost; set it, the register keeps it
        self.retry_base: float | None = None  #: seconds before its first retry, if not the queue's
        self.lost = False  #: true once the claim is gone: stop, nothing you return will be kept
        self.root: Path | None = None
        self.context: JobContext | None = None  #: where its calls to models find their gates and memos
        self._folder: Path | None = None
        self._note: str | None = None
        self._on_note: Callable[[Job], None] | None = None
        self._also: list[tuple[str, dict[str, Any]]] = []

    @property
    def desk(self) -> JobContext | None:
        """The former name of `context`."""
        return self.context

    def __getitem__(self, column: str) -> Any:
        return self.values[column]

    def get(self, column: str, default: Any = None) -> Any:
        """The row's value in this column, or the default when there is no such column."""
        return self.values.get(column, default)

    @property
    def folder(self) -> Path:
        """A temp folder of this job's own, made on first use and removed when the job ends."""
        if self._folder is None:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", self.queue.name)
            self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.root))
        return self._folder

    def also(self, statement: str, **values: Any) -> None:
        """Adds a statement that commits together with the finish, or not at all.

        >>> job.also("INSERT INTO pages (document, n) VALUES (:document, :n)", document=job.key, n=1)
        """
        self._also.append((statement, values))

    def note(self, text: str) -> None:
        """Reports how far the job is: `status` shows it, and after a crash it is part of the error."""
        if self.lost:
            raise LeaseLost(f"{self}: the claim was lost, the handler should stop")
        plain = storable(str(text))
        self._note = Message.from_stored(plain, text.form) if isinstance(text, Message) else plain
        if self._on_note is not None:
            self._on_note(self)

    @property
    def note_form(self) -> str | None:
        """The code and parameters of the last note as JSON, if it is a message."""
        if not isinstance(self._note, Message):
            return None
        return storable(json.dumps(self._note.form, ensure_ascii=False, default=str))

    def close(self) -> None:
        """Removes the job's temp folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __repr__(self) -> str:
        return f"<Job {self.queue.name}/{self.text_key} attempt {self.attempt}>"


#: The job whose handler is running, for what it calls.
current_job: ContextVar[Job | None] = ContextVar("current_job", default=None)
