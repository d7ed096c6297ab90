"""The inside of the sandbox: takes away its own rights, then works through one task after the other.

Started by sandbox.py. It talks over one socket: each frame is four bytes of length and JSON, a request may carry
one open file. It ends when the socket does.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tabellion.messages import Message, translatable
from tabellion.reading import capabilities, landlock, seccomp
from tabellion.reading.errors import Unreadable

#: The most one frame may hold, in both directions.
FRAME = 16 << 20
#: What the child may write to any one file; its messages for us are kept in a file, so not zero.
FILE_BYTES = 64 << 10
OPEN_FILES = 64
FileIdentity = tuple[str, int, int]  #: path, device, inode
SPENT = 3  #: exit code of a child that is asked for files, or memory, that it gave up
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def main() -> None:
    """Serve tasks until the other end goes away."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    isolated = confine()
    send(control, {"ready": os.getpid(), "isolated": isolated, "files": landlock.version() > 0})
    left: set[FileIdentity] | None = None
    memory = 0  #: what it may still have: neither files nor memory come back once they are given up
    while True:
        request, file = receive(control)
        if request is None:
            return
        named = {_identity(str(path)) for path in request["arguments"].get("types", ())}
        if left is None:
            left, memory = named, request["address_space"]
            _close_files(request["task"], {path for path, _, _ in named})
            # Not before: what is taken away is taken from this thread and those that it starts.
            threading.stack_size(256 << 10)
            threading.Thread(target=_die_with, args=(control,), daemon=True).start()
        elif not named <= left or request["address_space"] > memory:
            os._exit(SPENT)  # silently: another child takes the task
        memory = request["address_space"]
        try:
            fresh = _serve(control, request, file)
        finally:
            if file is not None:
                os.close(file)
        if not fresh:
            return


def _identity(path: str) -> FileIdentity:
    """A file by its path and its inode: one that was replaced since is another one, which this process may not open."""
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, status.st_dev, status.st_ino


def _close_files(task: str, named: set[str]) -> None:
    """Leave this process with Python, its libraries and the files that the first task names."""
    with contextlib.suppress(ImportError):
        importlib.import_module(task.partition(":")[0])  # a task of somebody else's may be anywhere
    landlock.leave_only([*landlock.SYSTEM, *landlock.python_folders(), *named])


def _serve(control: socket.socket, request: dict[str, Any], file: int | None) -> bool:
    """Run one task and send what it yields; False when this process should not be used again."""
    restrict(request["cpu_seconds"], request["address_space"])
    try:
        module, _, name = request["task"].partition(":")
        task = getattr(importlib.import_module(module), name)
        for item in task(file, **request["arguments"]):
            send(control, {"item": item})
        send(control, {"done": True})
        return True
    except Unreadable as error:
        send(control, {"error": error.code, "message": str(error), **translatable(message=str(error))})
        return True
    except (BrokenPipeError, ConnectionResetError):
        return False
    except BaseException as error:
        code = "resource_limit" if _is_resource_error(error) else "reader_crashed"
        said = Message(f"unreadable.{code}_because", text=f"{type(error).__name__}: {_last_line(error)}"[:400])
        send(control, {"error": code, "message": said, **translatable(message=said), "spent": True})
        return False


def _is_resource_error(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in (12, 24, 27)):
        return True
    # Libraries in C++ say it in words.
    said = str(error).lower()
    return any(mark in said for mark in ("bad_alloc", "allocate", "insufficient memory", "out of memory"))


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[-1]


def _die_with(control: socket.socket) -> None:
    """End this process when the other end is gone, whatever the main thread is doing."""
    poll = select.poll()
    poll.register(control, 0)  # hang-up is told unasked
    poll.poll()
    os._exit(0)


def confine() -> bool:
    """Take away rights for good: new privileges, core dumps, files and, where the system allows it, the network."""
    with contextlib.suppress(ImportError):
        import resource

        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
        _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    isolated = False
    needs_rights = os.geteuid() == 0 and not _readable_without_rights()
    if not needs_rights:
        isolated = libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0
    isolated = isolated or libc.unshare(CLONE_NEWNET) == 0
    capabilities.give_up(keep_reading=needs_rights)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    seccomp.refuse_calls()
    return isolated


def _readable_without_rights() -> bool:
    """Whether root could still read the libraries after giving up the right to read everything."""
    for entry in filter(os.path.isdir, sys.path):
        while True:
            status = os.stat(entry)
            if status.st_uid != 0 and status.st_mode & 0o005 != 0o005:
                return False
            if entry == (parent := os.path.dirname(entry)):
                break
            entry = parent
    return True


def restrict(cpu_seconds: float, address_space: int) -> None:
    """Set what the next task may use: processor time counts from the start of the process, so it moves along."""
    with contextlib.suppress(ImportError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu_seconds) + 1, soft_only=True)
        _limit(resource.RLIMIT_AS, address_space)


def _limit(what: int, most: int, soft_only: bool = False) -> None:
    import resource

    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS has no limit on address space
        resource.setrlimit(what, (most, hard if soft_only else most))


def send(control: socket.socket, message: dict[str, Any], file: int | None = None) -> None:
    """Send one frame, with an open file if one is given."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(body) > FRAME:
        raise Unreadable("resource_limit", Message("unreadable.message_over_limit", n=len(body), limit=FRAME))
    head = struct.pack("!I", len(body))
    if file is None:
        control.sendall(head + body)
    else:
        socket.send_fds(control, [head], [file])
        control.sendall(body)


def receive(control: socket.socket) -> tuple[dict[str, Any] | None, int | None]:
    """The next request and its file; None at the end."""
    head, files, _, _ = socket.recv_fds(control, 4, 1)
    if len(head) < 4:
        return None, None
    body = b"".join(_exactly(control, struct.unpack("!I", head)[0]))
    return json.loads(body), files[0] if files else None


def _exactly(control: socket.socket, count: int) -> Iterator[bytes]:
    while count:
        chunk = control.recv(min(count, 1 << 20))
        if not chunk:
            os._exit(0)
        count -= len(chunk)
        yield chunk


def contents(file: int) -> bytes:
    """Everything in a file that was handed in, whatever was read of it before."""
    size = os.fstat(file).st_size
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        return stream.read(size)
