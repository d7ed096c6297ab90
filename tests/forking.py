"""Starts our own programs by forking a process that has imported everything: importing is most of a start's cost.

What is started is a process like any other: its own id, session, folder, variables and standard streams, a child of the
test that asked for it, which may kill it. Only `python -m` of the modules named here, and the children of reading
sandboxes, are started so, and only where nothing needs a new interpreter; anything else goes the usual way.
"""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import tabellion
from tabellion.pipelines.documents import review_reasons
from tabellion.reading import sandbox
from tests.servers import die_with_parent

ROOT = Path(__file__).parents[1]
PROGRAMS = (
    "tabellion", "tabellion.models.fake", "tests.faults.worker_process", "tests.flows.batch_worker",
    "tests.pipelines.documents.consuming",
    "tests.pipelines.documents.deliverer", "tests.pipelines.documents.reader", "tests.pipelines.documents.review.fifty",
)  # fmt: skip
#: What they import besides all of our own modules; their own are run, not imported.
IMPORTED = (
    "openai", "prometheus_client", "re2", "rich.console", "rich.progress", "rich.table",
    "trafilatura", "tests.faults.mutants", "tests.table_owner", "tests.pipelines.documents.papers",
    "tests.pipelines.documents.receiver", "tests.pipelines.batches.material",
)  # fmt: skip
#: Except these: they do more than declare, or import libraries with threads, which a fork does not survive.
NOT_IMPORTED = ("tabellion.__main__", "tabellion.models.fake.__main__", "tabellion.celery", "tabellion.reading.image",
                "tabellion.reading.ocr")  # fmt: skip
#: What the children of reading sandboxes import: a process of its own forks them, so that they are not larger.
READING = tuple(f"tabellion.reading.{name}" for name in ("child", "field_extraction", "page_reading", "pdf"))
#: Variables that an interpreter, the C library or a library reads when it starts: another value needs a real start.
EARLY = ("PYTHON", "LC_", "LANG", "TZ", "LD_PRELOAD", "MALLOC_")
BEFORE = dict(os.environ)  #: before any test changes them
#: With these in PYTHONPATH, the same modules are found as here.
PATHS = {str(ROOT), str(ROOT / "src"), *BEFORE.get("PYTHONPATH", "").split(os.pathsep)}
LENGTH = struct.Struct("!I")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


SHIPPED = 2  #: percent of invoices without doubts that are reviewed anyway: chance must not decide about a test
_is_sampled = review_reasons.is_sampled


def is_sampled(document: str, percent: float) -> bool:
    """Never sample documents of shipped types for review; sample others as they say."""
    return percent > SHIPPED and _is_sampled(document, percent)


class ForkServer:
    """The process that is forked, as seen by its clients."""

    lock = threading.Lock()  #: of all of them: who adopts processes is a property of this process

    def __init__(self, imported: Sequence[str], variables: Mapping[str, str]) -> None:
        self._imported, self._variables = imported, dict(variables)
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, orders: Mapping[str, Any], streams: Sequence[int]) -> int:
        """Start a program on these standard streams; return the id of its process, which is a child of this one."""
        body = json.dumps(orders).encode()
        with self.lock:
            asked = self._connected()
            _adopt(True)
            try:
                _send(asked, body, streams)
                (pid,) = LENGTH.unpack(_exactly(asked, LENGTH.size))
            finally:
                _adopt(False)
        return int(pid)

    def open(self) -> None:
        """Start it now: it ends with the thread that starts it, which should be the main one."""
        with self.lock:
            self._connected()

    def connect(self, asked: socket.socket) -> None:
        """Use this socket from now on."""
        self._socket = asked

    def close(self) -> None:
        """Stop it; the processes it has started continue."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait(10)
            self._socket = self._process = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.forking", str(theirs.fileno()), *self._imported],
                    cwd=ROOT, env=self._variables, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    preexec_fn=die_with_parent,
                )  # fmt: skip
        return self._socket


SERVER = ForkServer(IMPORTED, BEFORE)
READERS = ForkServer(READING, BEFORE | sandbox.SET)


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, which forks where it can."""

    forks_readers = True  #: not where a test is about the child itself

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: bool, pass_fds: Any, cwd: Any,
                       env: Any, startupinfo: Any, creationflags: Any, shell: bool, p2cread: int, p2cwrite: int,
                       c2pread: int, c2pwrite: int, errread: int, errwrite: int, restore_signals: bool, gid: Any,
                       gids: Any, uid: Any, umask: int, start_new_session: bool, *more: Any) -> None:  # fmt: skip
        variables = dict(os.environ if env is None else env)
        reader = self.forks_readers and _is_reader(args, variables)
        special = executable, preexec_fn, shell, gid, gids, uid, pass_fds and not reader
        if any(special) or umask != -1 or not close_fds or not (reader or _is_ours(args, variables)):
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell, p2cread,
                p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
                start_new_session, *more,
            )  # fmt: skip
            return
        folder = os.path.abspath(os.fspath(cwd) if cwd is not None else os.getcwd())
        os.stat(folder)  # one that is not there fails here, as it would otherwise
        words = [os.fsdecode(word) for word in args[6 if reader else 2 :]]
        orders = {"words": words, "folder": folder, "variables": variables, "session": bool(start_new_session),
                  "reader": reader}  # fmt: skip
        streams = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = (READERS if reader else SERVER).start(orders, [*streams, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def _is_ours(args: Any, variables: Mapping[Any, Any]) -> bool:
    """Return whether this is one of our programs, in the same interpreter as this one."""
    if isinstance(args, str | bytes | os.PathLike) or list(args[:2]) != [sys.executable, "-m"]:
        return False
    if len(args) < 3 or args[2] not in PROGRAMS or not all(isinstance(name, str) for name in variables):
        return False
    paths = set(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)))
    return _early(variables) == _early(BEFORE) and paths <= PATHS


def _is_reader(args: Any, variables: Mapping[Any, Any]) -> bool:
    """Return whether this is the child of a reading sandbox, with its usual modules and variables."""
    start = [sys.executable, "-I", "-B", "-c", sandbox.START]
    if not isinstance(args, list) or args[:5] != start or len(args) != 7:
        return False
    usual = {name: BEFORE[name] for name in sandbox.KEPT if name in BEFORE} | sandbox.SET
    return _early(variables) == _early(usual)


def _early(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(EARLY) and name != "PYTHONPATH"}


def _adopt(wanted: bool) -> None:
    """Set whether a process whose parent ends becomes our child; only while one is created for us."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def _send(to: socket.socket, body: bytes, streams: Sequence[int]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
    to.sendmsg([LENGTH.pack(len(body))], rights)
    to.sendall(body)


def _exactly(source: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = source.recv(count - len(received))
        if not piece:
            raise EOFError("the process that is forked has ended; its standard error says why")
        received += piece
    return received


# -- the process that is forked --------------------------------------------------------------------------------------


def serve(number: int, imported: Sequence[str]) -> NoReturn:
    """Fork on request."""
    for name in imported:
        importlib.import_module(name)
    if "tabellion.reading.child" not in imported:  # which stays small
        for module in pkgutil.walk_packages(tabellion.__path__, "tabellion."):
            if module.name not in NOT_IMPORTED:
                importlib.import_module(module.name)
    review_reasons.is_sampled = is_sampled
    here, own_paths = os.getcwd(), set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path = [one for one in sys.path if one not in ("", here) and one not in own_paths]
    gc.collect()
    gc.freeze()  # what is shared with every child is never looked at again
    _fork_for(socket.socket(fileno=number))


def _fork_for(asked: socket.socket) -> NoReturn:
    """Answer requests until the other end closes; each started process runs its program and exits."""
    while True:
        length, streams, _, _ = socket.recv_fds(asked, LENGTH.size, 4)
        if not length:
            os._exit(0)
        orders = json.loads(_exactly(asked, LENGTH.unpack(length)[0]))
        created, making = os.pipe()
        between = os.fork()
        if not between:
            between = os.getpid()
            child = os.fork()
            if child:
                os.write(making, LENGTH.pack(child))
                os._exit(0)
            while os.getppid() == between:
                time.sleep(0.0005)
            _become(orders, streams)
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            sys.exit()
        os.waitpid(between, 0)
        asked.sendall(os.read(created, LENGTH.size))
        for one in (created, making, *streams):
            os.close(one)


def _become(orders: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Make this process what a new interpreter would be."""
    for own, given in enumerate(streams):
        os.dup2(given, own)
    os.closerange(len(streams), os.sysconf("SC_OPEN_MAX"))
    forked = None if orders["reader"] else _leave_a_copy()
    if orders["session"]:
        os.setsid()
    os.chdir(orders["folder"])
    os.environ.clear()
    os.environ.update(orders["variables"])
    if orders["reader"]:
        _serve_sandbox(orders["words"][0])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a test run that is killed leaves no service behind
    if forked is not None:
        SERVER.connect(forked)
        READERS.connect(forked)
        subprocess.Popen = Popen  # type: ignore[misc]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [orders["folder"], *filter(None, paths)]
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), sys.stdin.encoding)
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        raw = io.FileIO(number, "wb", closefd=False)
        stream: Any = raw if at_once else io.BufferedWriter(raw)
        encoding, lines = getattr(sys, name).encoding, number == 2
        setattr(sys, name, io.TextIOWrapper(stream, encoding, errors, line_buffering=lines, write_through=at_once))
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    sys.argv = list(orders["words"])
    sys.orig_argv = [sys.executable, "-m", *orders["words"]]
    from tabellion.engine import failpoints

    failpoints.arm(os.environ.get("TABELLION_FAILPOINTS", ""))


def _leave_a_copy() -> socket.socket:
    """Fork this process as it is now, and return a socket to the copy: what the program starts is forked from it."""
    asked, theirs = socket.socketpair()
    program = os.getpid()
    if os.fork():
        theirs.close()
        return asked
    asked.close()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != program:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # whoever reads what the program prints waits until nobody else can print there
        os.dup2(nothing, stream)
    _fork_for(theirs)


def _serve_sandbox(paths: str) -> NoReturn:
    """Serve a sandbox on the fourth socket, as `sandbox.START` does in a new interpreter."""
    from tabellion.reading.child import main

    sys.path[:] = json.loads(paths)
    sys.argv = ["-c", "3", paths]
    main()  # which ends with the other end of its socket
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
