"""What a compromised child can still reach: no file except those it needs, no socket, no other program."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.reading import capabilities, landlock, seccomp
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.sandbox import Sandbox

HERE = "tests.reading.test_landlock:"


def take_over(_file: int | None, path: str) -> Iterator[dict[str, Any]]:
    """Try what code in a child can do, one attempt after the other."""
    tries: dict[str, Callable[[], object]] = {
        "read": lambda: open(path).close(),
        "list": lambda: os.listdir(os.path.dirname(path)),
        "write": lambda: open(path + ".new", "w").close(),
        "unix": lambda: socket.socket(socket.AF_UNIX).close(),
        "inet": lambda: socket.socket(socket.AF_INET).close(),
        "run": lambda: subprocess.run(["/bin/true"], check=True),
        "library": lambda: open(os.__file__).close(),
        "other's limits": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_MSGQUEUE, (1, 1)),
        "other's end": lambda: os.kill(os.getppid(), 0),
        "fork": os.fork,
        "mode": lambda: os.chmod(path, 0o644),
        "open mode": lambda: os.fchmod(_file or 0, 0o644),
        "times": lambda: os.utime(path),
        "mark": lambda: os.setxattr(path, "user.a", b"1"),
        "own limits": lambda: resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0)),
        "thread": threading.Thread(target=int).start,
        "memory": lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
    }
    done = {}
    for name, attempt in tries.items():
        try:
            attempt()
            done[name] = "done"
        except OSError as error:
            done[name] = os.strerror(error.errno or 0)
        except ValueError as error:  # as setrlimit says it
            done[name] = str(error)
    yield done | {"rights": get_capabilities()}


def get_capabilities() -> int:
    """Return the capabilities of this process, one bit each."""
    header = ctypes.create_string_buffer(struct.pack("Ii", capabilities.VERSION, 0))
    rights = ctypes.create_string_buffer(24)
    assert ctypes.CDLL(None).capget(header, rights) == 0
    effective, permitted, _, more, more_permitted, _ = struct.unpack("6I", rights.raw)
    return int((effective | permitted) | (more | more_permitted) << 32)


def compromised(tmp_path: Path) -> dict[str, Any]:
    """Return the results of a child's attempts, with a secret in this file."""
    (tmp_path / "admin.key").write_text("secret")
    with Sandbox(size=1, allowed=("tests.",)) as pool:
        [found] = pool.run(HERE + "take_over", {"path": str(tmp_path / "admin.key")})
    return found


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock, or it is switched off")
def test_a_child_opens_no_file_of_the_installation(tmp_path: Path) -> None:
    """Neither the database nor the key can be read, listed or written; libraries can be read."""
    found = compromised(tmp_path)
    assert {found[one] for one in ("read", "list", "write")} == {"Permission denied"}
    assert found["library"] == "done"


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in seccomp.MACHINES, reason="there is no filter for this machine"
)
def test_a_child_opens_no_socket_and_runs_no_program(tmp_path: Path) -> None:
    """Sockets of any kind and other programs are refused by the kernel."""
    found = compromised(tmp_path)
    assert {found[one] for one in ("unix", "inet", "run")} == {"Operation not permitted"}


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in seccomp.MACHINES, reason="there is no filter for this machine"
)
def test_a_child_affects_no_other_process_and_changes_no_file(tmp_path: Path) -> None:
    """Limits, signals, children, modes, times: refused for others, allowed for itself, and so are threads."""
    found = compromised(tmp_path)
    refused = ("other's limits", "other's end", "fork", "mode", "open mode", "times", "mark")
    assert {name: found[name] for name in refused} == dict.fromkeys(refused, "Operation not permitted")
    assert (found["own limits"], found["thread"]) == ("done", "done")


def test_a_virtual_environment_beside_other_files_does_not_expose_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m venv .` in an application's folder keeps its data closed; its libraries are readable."""
    monkeypatch.setattr(sys, "prefix", "/srv/app")
    assert "/srv/app/lib" in landlock.python_folders()
    assert not {"/srv/app", "/usr"} & {*landlock.python_folders(), *landlock.SYSTEM}


@pytest.mark.skipif(sys.platform != "linux", reason="the rights of root are one on other systems")
def test_a_child_drops_root_and_gets_no_more_memory(tmp_path: Path) -> None:
    """Whoever runs the service; a child that needs root's right to read its own libraries keeps that one."""
    found = compromised(tmp_path)
    assert found["rights"] in (0, 1 << capabilities.READ_ANY_FILE)
    assert found["memory"] == "not allowed to raise maximum limit"


def have(_file: int | None, size: int) -> Iterator[dict[str, Any]]:
    """Return whether this much memory can be allocated."""
    yield {"had": len(bytearray(size))}


def test_a_task_with_more_memory_gets_another_child() -> None:
    """The limit of the first task cannot be raised."""
    few, many = Limits(address_space=1 << 30), Limits(address_space=2 << 30)
    with Sandbox(size=1, allowed=("tests.",)) as pool:
        for limits in (few, many, few, many):
            with pytest.raises(Unreadable, match="memory") if limits is few else contextlib.nullcontext():
                assert list(pool.run(HERE + "have", {"size": 1 << 30}, limits=limits)) == [{"had": 1 << 30}]


def look(_file: int | None, types: list[str]) -> Iterator[dict[str, Any]]:
    """Return the content of the files that a task names."""
    yield {"said": [Path(path).read_text() for path in types]}


def test_a_task_with_other_files_gets_another_child(tmp_path: Path) -> None:
    """Document types may be anywhere, and others may be added later."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    with Sandbox(size=1, allowed=("tests.",)) as pool:
        for names in ("a", "b", "a", "ab", "b"):
            found = list(pool.run(HERE + "look", {"types": [str(tmp_path / name) for name in names]}))
            assert found == [{"said": list(names)}]


def test_a_replaced_file_is_read_by_another_child(tmp_path: Path) -> None:
    """Editors and deployments replace files: the right to read belongs to the old one."""
    path = tmp_path / "a"
    path.write_text("old")
    with Sandbox(size=1, allowed=("tests.",)) as pool:
        assert list(pool.run(HERE + "look", {"types": [str(path)]})) == [{"said": ["old"]}]
        (tmp_path / "b").write_text("new")
        (tmp_path / "b").replace(path)
        assert list(pool.run(HERE + "look", {"types": [str(path)]})) == [{"said": ["new"]}]
