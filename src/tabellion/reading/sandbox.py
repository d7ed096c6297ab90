"""A pool of started child processes that read documents and can be killed.

    with Sandbox() as sandbox:
        for item in sandbox.run("tabellion.reading.page_reading:read", {...}, file):
            ...

A child that crashes, hangs or uses too much memory fails only its own document, with `Unreadable`.
A child sends JSON, which is parsed and never executed: a compromised child cannot affect this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from tabellion.engine.processors import available_processors
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.reading.child import FRAME, send
from tabellion.reading.errors import CODES, Unreadable, restore_message
from tabellion.reading.limits import MEBI, Limits

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

#: A child with more memory than this after a document gets no other one.
BLOATED = 1100 * MEBI
LOOK = 0.25  #: seconds between checks of a working child's memory
START_SECONDS = 30.0
#: Variables kept from the parent's environment, to find libraries and files. No keys, no passwords.
KEPT = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT",
)  # fmt: skip
#: One thread each: more processes beat more threads. Two malloc arenas keep memory flat.
SET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
START = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from tabellion.reading.child import main; main()"
STARVED = ("bad_alloc", "memory", "Cannot allocate")


class ReaderLost(TabellionError):  # noqa: N818 - what happened
    """The process that read a document was killed from outside: the document may be fine and can be tried again."""


class Stopped(TabellionError):  # noqa: N818 - what was asked for
    """The reading was cancelled."""


class Sandbox:
    """Runs tasks in children, at most `size` at a time; further callers wait. Thread-safe."""

    def __init__(
        self,
        size: int | None = None,
        limits: Limits | None = None,
        recycle: int = 100,
        allowed: tuple[str, ...] = ("tabellion.reading.",),
    ) -> None:
        self.size = size or available_processors()
        self.limits = limits or Limits()
        self.recycle = recycle
        self.allowed = allowed
        self._closed = False
        self._renew()
        _sandboxes.add(self)

    def _renew(self) -> None:
        """Resets to no children, free locks and no threads: at the start, and in a fork."""
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(self.size)
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._threads: ThreadPoolExecutor | None = None

    def reset_after_fork(self) -> None:
        """Called in a fork: the children belong to the parent, and its threads do not exist here."""
        for child in [*self._idle, *self._busy]:
            child.abandon()
        self._renew()

    def __repr__(self) -> str:
        return f"<Sandbox of {self.size}>"

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def is_isolated(self) -> bool:
        """Whether children have no network."""
        with self._room:
            self._give(child := self._take(threading.Event()))
        return child.is_isolated

    isolated = is_isolated  #: the name it had before

    def warm(self) -> None:
        """Starts a child now, without waiting for it, so that the first document does not wait either."""
        with self._lock:
            if not self._idle and not self._closed:
                self._idle.append(_Child())

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads for reading from an event loop: as many as there are children, more would only wait."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.size, "reading")
            return self._threads

    def run(
        self,
        task: str,
        arguments: Mapping[str, Any],
        file: int | None = None,
        limits: Limits | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Runs the generator `module:function` in a child with the open file and the arguments; yields what it yields.

        Raises `Unreadable`, or `ReaderLost` when the child was killed from outside. To stop early, close the iterator,
        or set `stop` from another thread, which ends it with `Stopped`: either way the child is killed.
        """
        module, _, name = task.partition(":")
        if not name or not (module + ".").startswith(self.allowed):
            raise ValueError(f"the sandbox does not run {task!r}: allowed: {', '.join(self.allowed)}")
        return self._run(task, arguments, file, limits or self.limits, stop or threading.Event())

    def _run(
        self, task: str, arguments: Mapping[str, Any], file: int | None, limits: Limits, stop: threading.Event
    ) -> Iterator[dict[str, Any]]:
        request = {
            "task": task, "arguments": dict(arguments),
            "cpu_seconds": limits.cpu_seconds, "address_space": limits.address_space,
        }  # fmt: skip
        with self._turn(stop):
            for is_retry in (False, True):
                child = self._take(stop, fresh=is_retry)
                try:
                    yield from child.work(request, file, limits, stop)
                    return
                except (Unreadable, ReaderLost):
                    # Before its first message it may have died for another reason, or because of an earlier document.
                    if is_retry or not child.silent:
                        raise
                finally:
                    self._give(child)

    @contextlib.contextmanager
    def _turn(self, stop: threading.Event) -> Iterator[None]:
        room = self._room  # a fork may replace the attribute before this one is released
        while not room.acquire(timeout=LOOK):
            if stop.is_set():
                raise Stopped
        try:
            yield
        finally:
            room.release()

    def _take(self, stop: threading.Event, *, fresh: bool = False) -> _Child:
        with self._lock:
            if self._closed:
                raise RuntimeError("the sandbox is closed")
            child = None
            while self._idle and not fresh and child is None:
                child = self._idle.pop()
                if not child.alive():  # killed from outside while it was idle
                    child.kill()
                    child = None
            child = child or _Child()
            self._busy.add(child)
        try:
            child.begin(stop)
        except BaseException:
            self._give(child)
            raise
        return child

    def _give(self, child: _Child) -> None:
        with self._lock:
            self._busy.discard(child)
            if child.fit and child.served < self.recycle and not self._closed and child.resident() <= BLOATED:
                self._idle.append(child)
                return
        child.kill()

    def close(self) -> None:
        """Kills every child. Readings in progress fail."""
        with self._lock:
            self._closed = True
            children, threads = [*self._idle, *self._busy], self._threads
            self._idle, self._threads = [], None
        for child in children:
            child.kill()
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)


_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


def _after_fork() -> None:
    for sandbox in list(_sandboxes):
        sandbox.reset_after_fork()


os.register_at_fork(after_in_child=_after_fork)


class _Child:
    """One child process, as seen by the parent."""

    def __init__(self) -> None:
        self.served = 0
        self.fit = False
        self.is_isolated = False
        self.silent = False  #: it died before its first message about the task, and not for lack of resources
        self._began = self._killed = self._spoke = False
        self._ending = threading.Lock()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._control, theirs = socket.socketpair()
        environment = {key: os.environ[key] for key in KEPT if key in os.environ} | SET
        path = [os.path.abspath(entry) for entry in sys.path]
        command = [sys.executable, "-I", "-B", "-c", START, str(theirs.fileno()), json.dumps(path)]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                command, env=environment, pass_fds=(theirs.fileno(),), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=self._errors, stderr=self._errors,
            )  # fmt: skip

    def begin(self, stop: threading.Event) -> None:
        """Waits until it is ready, the first time; kills it if `stop` is set meanwhile."""
        if self._began:
            return
        try:
            message = self._receive(time.monotonic() + START_SECONDS, Limits(), stop)
        except (Unreadable, ReaderLost) as error:  # not because of a document
            raise RuntimeError(f"a process for reading documents could not be started: {error}") from None
        self._began = self.fit = True
        self.is_isolated = message.get("isolated") is True

    def work(
        self, request: dict[str, Any], file: int | None, limits: Limits, stop: threading.Event
    ) -> Iterator[dict[str, Any]]:
        """Runs one task and yields what it yields."""
        self.served += 1
        self.fit = self._spoke = False  # until the end is reached
        self._errors.seek(0)
        self._errors.truncate()
        waited = 0.0
        try:
            send(self._control, request, file)
        except OSError:
            raise self._explain_death() from None
        while True:
            started = time.monotonic()
            message = self._receive(started + min(limits.page_seconds, limits.seconds - waited), limits, stop)
            self._spoke = True
            waited += time.monotonic() - started
            if isinstance(item := message.get("item"), dict):
                yield item
            elif "done" in message:
                self.fit = True
                return
            elif (code := message.get("error")) in CODES:
                self.fit = not message.get("spent")
                raise Unreadable(code, restore_message(message))
            else:
                raise self._abort("it sent an unexpected message")

    def _receive(self, deadline: float, limits: Limits, stop: threading.Event) -> dict[str, Any]:
        """The next frame, before the deadline and within memory."""
        length = struct.unpack("!I", self._receive_exactly(4, deadline, limits, stop))[0]
        if length > FRAME:
            raise self._abort("it sent a frame that is too large")
        try:
            message = json.loads(self._receive_exactly(length, deadline, limits, stop))
        except (ValueError, RecursionError):
            raise self._abort("it sent invalid JSON") from None
        if not isinstance(message, dict):
            raise self._abort("it sent JSON that is not an object")
        return message

    def _receive_exactly(self, count: int, deadline: float, limits: Limits, stop: threading.Event) -> bytes:
        received = bytearray()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while len(received) < count:
            if stop.is_set():
                self.kill()
                raise Stopped
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self.kill()
                raise Unreadable("timed_out", Message(
                    "unreadable.time_over_limit", n=limits.page_seconds, total=limits.seconds,
                ))  # fmt: skip
            if poll.poll(min(remaining, LOOK) * 1000):
                try:
                    chunk = self._control.recv(min(count - len(received), 1 << 20))
                except OSError:
                    chunk = b""
                if not chunk:
                    raise self._explain_death()
                received += chunk
            elif (resident := self.resident()) > limits.memory:
                self.kill()
                message = Message("unreadable.memory_over_limit", n=resident // MEBI, limit=limits.memory // MEBI)
                raise Unreadable("resource_limit", message)
        return bytes(received)

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def abandon(self) -> None:
        """Drops it in a fork: it belongs to the parent."""
        self._process.returncode = 0  # so that this process neither kills it nor waits for it
        self._control.close()

    def resident(self) -> int:
        """Bytes of resident memory; 0 where the system does not report it."""
        try:
            with open(f"/proc/{self._process.pid}/statm", "rb") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0

    def _explain_death(self) -> Exception:
        """The exception that explains why it ended."""
        if self._killed:  # by close(), in another thread, not because of the document
            return RuntimeError("the sandbox was closed")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        status, last_error = self._process.returncode, self._read_last_error()
        self.kill()
        if status is None:
            return Unreadable("reader_crashed", Message("unreadable.reader_silent"))
        name = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        # Libraries abort when they get no memory.
        starved = name in ("SIGXCPU", "SIGXFSZ") or any(mark in last_error for mark in STARVED)
        starved = starved or (name == "SIGKILL" and _hard_limit())
        self.silent = not (self._spoke or starved)
        if name == "SIGKILL" and not starved:
            return ReaderLost(Message("unreadable.reader_killed"))  # fmt: skip
        code = "resource_limit" if starved else "reader_crashed"
        return Unreadable(
            code, Message(f"unreadable.{code}_because", text=f"{name}: {last_error}" if last_error else name)
        )

    def _abort(self, why: str) -> Unreadable:
        self.kill()
        return Unreadable("reader_crashed", Message("unreadable.invalid_result_because", text=why))

    def _read_last_error(self) -> str:
        """The last line of its standard error."""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, self._errors.tell() - 2000))
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            return "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""
        return ""

    def kill(self) -> None:
        """Kills it and every process it may have started."""
        with self._ending:
            self.fit, self._killed = False, True
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._control.close()
            self._errors.close()


def _hard_limit() -> bool:
    """Whether processor time has a hard limit, at which the kernel sends SIGKILL."""
    with contextlib.suppress(ImportError):
        import resource

        return resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY
    return False
