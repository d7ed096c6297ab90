"""The child process of the sandbox: drops its own rights, then runs one task after the other.

Started by sandbox.py. It uses one socket: each frame is four bytes of length and JSON, a request may include one
open file. It ends when the socket is closed.
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

#: The most bytes of one frame, in both directions.
FRAME = 16 << 20
#: The most bytes that the child may write to a file; its standard error is a file, so not zero.
FILE_BYTES = 64 << 10
OPEN_FILES = 64
FileIdentity = tuple[str, int, int]  #: path, device, inode
SPENT = 3  #: exit code of a child that gets a task with files or memory that it already gave up
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def main() -> None:
    """Runs tasks until the parent closes the socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    isolated = confine()
    send(control, {"ready": os.getpid(), "isolated": isolated, "files": landlock.version() > 0})
    allowed: set[FileIdentity] | None = None
    memory = 0  #: its present limit: neither files nor memory can be regained once given up
    while True:
        request, file = receive(control)
        if request is None:
            return
        type_files = {_identity(str(path)) for path in request["arguments"].get("types", ())}
        if allowed is None:
            allowed, memory = type_files, request["address_space"]
            _close_files(request["task"], {path for path, _, _ in type_files})
            # Not earlier: the restrictions apply to this thread and those that it starts.
            threading.stack_size(256 << 10)
            threading.Thread(target=_die_with, args=(control,), daemon=True).start()
        elif not type_files <= allowed or request["address_space"] > memory:
            os._exit(SPENT)  # silently: another child takes the task
        memory = request["address_space"]
        try:
            reusable = _serve(control, request, file)
        finally:
            if file is not None:
                os.close(file)
        if not reusable:
            return


def _identity(path: str) -> FileIdentity:
    """A file by its path and inode: a replaced file is another one, which this process may not open."""
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, status.st_dev, status.st_ino


def _close_files(task: str, files: set[str]) -> None:
    """Restricts this process to Python, its libraries and the files that the first task names."""
    with contextlib.suppress(ImportError):
        importlib.import_module(task.partition(":")[0])  # a third party's task may be in any folder
    landlock.leave_only([*landlock.SYSTEM, *landlock.python_folders(), *files])


def _serve(control: socket.socket, request: dict[str, Any], file: int | None) -> bool:
    """Runs one task and sends what it yields; False when this process should not be used again."""
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
        message = Message(f"unreadable.{code}_because", text=f"{type(error).__name__}: {_last_line(error)}"[:400])
        send(control, {"error": code, "message": message, **translatable(message=message), "spent": True})
        return False


def _is_resource_error(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in (12, 24, 27)):
        return True
    # C++ libraries report it only in the message.
    text = str(error).lower()
    return any(mark in text for mark in ("bad_alloc", "allocate", "insufficient memory", "out of memory"))


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[-1]


def _die_with(control: socket.socket) -> None:
    """Ends this process when the parent is gone, whatever the main thread is doing."""
    poll = select.poll()
    poll.register(control, 0)  # hang-up is always reported
    poll.poll()
    os._exit(0)


def confine() -> bool:
    """Drops rights permanently: new privileges, core dumps, files and, where the system allows it, the network."""
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
    """Sets the limits of the next task; processor time counts from the start of the process, so the limit moves."""
    with contextlib.suppress(ImportError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu_seconds) + 1, soft_only=True)
        _limit(resource.RLIMIT_AS, address_space)


def _limit(limit: int, value: int, soft_only: bool = False) -> None:
    import resource

    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS has no limit on address space
        resource.setrlimit(limit, (value, hard if soft_only else value))


def send(control: socket.socket, message: dict[str, Any], file: int | None = None) -> None:
    """Sends one frame, with an open file if one is given."""
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
    body = b"".join(_receive_exactly(control, struct.unpack("!I", head)[0]))
    return json.loads(body), files[0] if files else None


def _receive_exactly(control: socket.socket, count: int) -> Iterator[bytes]:
    while count:
        chunk = control.recv(min(count, 1 << 20))
        if not chunk:
            os._exit(0)
        count -= len(chunk)
        yield chunk


def contents(file: int) -> bytes:
    """The whole content of an open file, whatever its position."""
    size = os.fstat(file).st_size
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        return stream.read(size)
