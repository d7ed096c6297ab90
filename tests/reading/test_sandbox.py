"""Whatever a task does costs one child: the document gets an error, the next document gets a fresh child."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tabellion.errors import Permanent
from tabellion.reading import landlock, sandbox, seccomp
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import MEBI, Limits
from tabellion.reading.sandbox import ReaderLost, Sandbox, Stopped
from tests.waiting import eventually

ALLOWED = ("tests.reading.",)
HERE = "tests.reading.hostile:"


@pytest.fixture(scope="module")
def pool() -> Iterator[Sandbox]:
    with Sandbox(size=1, allowed=ALLOWED) as made:
        yield made


def run(pool: Sandbox, name: str, limits: Limits | None = None, **arguments: Any) -> list[dict[str, Any]]:
    return list(pool.run(HERE + name, arguments, limits=limits))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").exists() or ") Z" not in Path(f"/proc/{pid}/stat").read_text()


def test_a_child_is_reused(pool: Sandbox) -> None:
    """Two tasks run in the same process, with their arguments."""
    first, second = (run(pool, "echo", word="é\ud83d")[0] for _ in range(2))
    assert first == second
    assert first["said"] == {"word": "é\ud83d"}
    assert first["pid"] != os.getpid()


def test_a_task_reads_the_open_file_it_is_given(pool: Sandbox, tmp_path: Path) -> None:
    """The child gets the open file, from its beginning, as often as it is passed."""
    path = tmp_path / "a"
    path.write_text("content")
    with path.open("rb") as stream:
        stream.read(3)
        for _ in range(2):
            assert next(iter(pool.run(HERE + "echo", {}, stream.fileno())))["content"] == "content"


def test_only_allowed_modules_run(pool: Sandbox) -> None:
    """A task outside the allowed prefixes is an error of the caller."""
    for task in ("os:system", "tests.readingx:f", "tests.reading.hostile"):
        with pytest.raises(ValueError, match="does not run"):
            pool.run(task, {})
    assert Sandbox().allowed == ("tabellion.reading.",)


@pytest.mark.parametrize(
    ("task", "code", "said"),
    [
        ("crash", "reader_crashed", "SIGSEGV"),
        ("boast", "reader_crashed", "SIGABRT: a library complains"),
        ("burn", "resource_limit", "SIGXCPU"),
        ("hog", "resource_limit", "MemoryError"),
        ("flood", "resource_limit", "the limit is 16,777,216"),
        ("slip", "reader_crashed", "a slip of ours"),
    ],
)
def test_a_failing_task_costs_one_child(pool: Sandbox, task: str, code: str, said: str) -> None:
    """Crashes, lack of memory and exceptions each become a named error, and the next document has a fresh child."""
    before = run(pool, "echo")[0]["pid"]
    with pytest.raises(Unreadable, match=said) as caught:
        run(pool, task)
    assert caught.value.code == code
    assert (run(pool, "echo")[0]["pid"] == before) is (task == "flood")
    assert alive(before) is (task == "flood")


def test_a_loop_ends_at_the_deadline(pool: Sandbox) -> None:
    """A child without a message within the limit is killed."""
    items = pool.run(HERE + "loop", {}, limits=Limits(page_seconds=0.2))
    pid = next(items)["pid"]
    with pytest.raises(Unreadable, match=r"the limits of 0\.2 s per page") as caught:
        next(items)
    assert caught.value.code == "timed_out"
    assert not alive(pid)


def test_the_kernel_limits_cpu_time(pool: Sandbox) -> None:
    """CPU time is counted per document, in a process that is reused."""
    limits = Limits(cpu_seconds=0.01)
    assert run(pool, "echo", limits) != []
    with pytest.raises(Unreadable, match="SIGXCPU") as caught:
        run(pool, "loop", limits)
    assert caught.value.code == "resource_limit"


def test_memory_is_monitored(pool: Sandbox) -> None:
    """A child that uses more memory than allowed is killed, whatever it has mapped."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not say")
    with pytest.raises(Unreadable, match="MB of memory; the limit is 200") as caught:
        run(pool, "swell", Limits(memory=200 * MEBI))
    assert caught.value.code == "resource_limit"


def test_no_large_file_is_written(pool: Sandbox, tmp_path: Path) -> None:
    """Writing more than a few kilobytes fails."""
    with pytest.raises(Unreadable) as caught:
        run(pool, "write", path=str(tmp_path / "x"))
    if landlock.version():
        assert "Permission denied" in str(caught.value)
        assert not (tmp_path / "x").exists()
    else:
        assert caught.value.code == "resource_limit"
        assert (tmp_path / "x").stat().st_size <= 64 << 10


def test_the_network_is_unreachable(pool: Sandbox) -> None:
    """A server on this machine cannot be reached, where the system lets the sandbox block it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        if not pool.is_isolated:
            pytest.skip("this system does not allow it")
        with pytest.raises(Unreadable, match=r"OSError|PermissionError"):
            run(pool, "connect", port=server.getsockname()[1])


def test_the_environment_has_no_secrets(pool: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child is started without the parent's keys."""
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    with Sandbox(size=1, allowed=ALLOWED) as fresh:
        assert "secret" not in run(fresh, "environment")[0].values()


def test_processes_of_a_child_die_with_it(pool: Sandbox) -> None:
    """The whole process group is killed; where system calls are filtered it cannot start any."""
    items = pool.run(HERE + "fork", {}, limits=Limits(page_seconds=5))
    if sys.platform == "linux" and platform.machine() in seccomp.MACHINES:
        with pytest.raises(Unreadable, match="Operation not permitted"):
            next(items)
        return
    pid = next(items)["pid"]
    assert alive(pid)
    items.close()  # type: ignore[attr-defined]
    eventually(lambda: not alive(pid))


@pytest.mark.parametrize("body", ["[" * 100_000, "[1]", "no json", '{"item": 5}'])
def test_invalid_output_of_a_child_is_rejected(pool: Sandbox, body: str) -> None:
    """Anything but JSON of the agreed form ends the child, and is never executed here."""
    with pytest.raises(Unreadable) as caught:
        run(pool, "garbage", Limits(page_seconds=10), body=body)
    assert caught.value.code == "reader_crashed"
    assert run(pool, "count", to=2) == [{"number": 0}, {"number": 1}]


def test_an_unreadable_document_keeps_the_child(pool: Sandbox) -> None:
    """It is no reason to start another process."""
    before = run(pool, "echo")[0]["pid"]
    with pytest.raises(Unreadable) as caught:
        run(pool, "refuse")
    assert caught.value.code == "pdf_empty"
    assert run(pool, "echo")[0]["pid"] == before


def test_a_child_is_replaced_after_a_number_of_documents() -> None:
    """After `recycle` documents the next one has a fresh child, and the old one is gone."""
    with Sandbox(size=1, recycle=2, allowed=ALLOWED) as pool:
        pids = [run(pool, "echo")[0]["pid"] for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]
        assert not alive(pids[0])


def test_stopping_early_frees_the_slot(pool: Sandbox) -> None:
    """Closing the iterator midway kills the child and admits the next caller."""
    items = pool.run(HERE + "count", {"to": 10**9})
    assert next(items) == {"number": 0}
    items.close()  # type: ignore[attr-defined]
    assert run(pool, "count", to=1) == [{"number": 0}]


def test_threads_share_the_children() -> None:
    """Many threads get their own answers from few children."""
    with Sandbox(size=2, allowed=ALLOWED) as pool, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: run(pool, "echo", n=n)[0], range(40)))
    assert [answer["said"]["n"] for answer in answers] == list(range(40))
    assert len({answer["pid"] for answer in answers}) <= 2


def test_closing_ends_every_child_even_a_busy_one() -> None:
    """After close nothing runs; a waiting caller gets an error that does not blame the document."""
    pool = Sandbox(size=2, allowed=ALLOWED)
    items = pool.run(HERE + "loop", {})
    pid = next(items)["pid"]
    closing = threading.Timer(0.1, pool.close)
    closing.start()
    with pytest.raises(RuntimeError, match="the sandbox was closed"):
        next(items)
    closing.join()
    assert not alive(pid)
    with pytest.raises(RuntimeError, match="is closed"):
        run(pool, "echo")


def test_children_do_not_outlive_a_parent_that_is_killed() -> None:
    """A child in an endless loop notices that its parent is gone."""
    script = (
        "import os, signal; from tabellion.reading.sandbox import Sandbox\n"
        f"items = Sandbox(size=1, allowed={ALLOWED!r}).run({HERE + 'loop'!r}, {{}})\n"
        "print(next(items)['pid'], flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    pid = int(done.stdout)
    eventually(lambda: not alive(pid))


def test_a_fork_starts_its_own_children(pool: Sandbox) -> None:
    """A forked process does not talk to its parent's children."""
    parent = run(pool, "echo")[0]["pid"]
    script = (
        "import os; from tabellion.reading.sandbox import Sandbox\n"
        f"pool = Sandbox(size=1, allowed={ALLOWED!r}); task = {HERE + 'echo'!r}\n"
        "(first,) = [item['pid'] for item in pool.run(task, {})]\n"
        "if os.fork() == 0:\n    other = next(pool.run(task, {}))['pid']; pool.close(); os._exit(other == first)\n"
        "assert os.wait()[1] == 0; assert [item['pid'] for item in pool.run(task, {})] == [first]; pool.close()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert run(pool, "echo")[0]["pid"] == parent


def test_a_child_that_cannot_start_is_not_blamed_on_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation is an error of its own."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "lib/python" in entry and "site-" not in entry])
    with Sandbox(size=1, allowed=ALLOWED) as pool, pytest.raises(RuntimeError, match="could not be started"):
        run(pool, "echo")


def test_a_child_can_be_started_ahead() -> None:
    """A child that was started before the first document serves it."""
    with Sandbox(size=1, allowed=ALLOWED) as pool:
        pool.warm()
        pool.warm()
        (ahead,) = pool._idle
        assert run(pool, "echo")[0]["pid"] == ahead._process.pid
        assert repr(pool) == "<Sandbox of 1>"


def test_a_child_killed_while_idle_is_replaced(pool: Sandbox) -> None:
    """The next document has a fresh one."""
    before = run(pool, "echo")[0]["pid"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: not alive(before))
    assert run(pool, "echo")[0]["pid"] != before


def test_a_child_that_dies_before_its_first_message_is_replaced_once(pool: Sandbox, tmp_path: Path) -> None:
    """The task runs again in a fresh child: the document need not be the cause."""
    with (tmp_path / "died").open("w") as file:
        [messages] = pool.run(HERE + "flaky", {}, file.fileno())
        assert alive(messages["pid"])


def test_a_child_killed_from_outside_is_not_blamed_on_the_document(pool: Sandbox) -> None:
    """The error is one after which a job is retried."""
    items = pool.run(HERE + "loop", {})
    os.kill(next(items)["pid"], signal.SIGKILL)
    with pytest.raises(ReaderLost, match="SIGKILL") as caught:
        next(items)
    assert not isinstance(caught.value, Permanent)


def test_a_task_can_be_stopped(pool: Sandbox) -> None:
    """Setting the event ends the task and its child, or the wait for a child."""
    stop = threading.Event()
    items = pool.run(HERE + "loop", {}, stop=stop)
    pid = next(items)["pid"]
    stop.set()
    with pytest.raises(Stopped):
        next(pool.run(HERE + "echo", {}, stop=stop))
    assert alive(pid)
    with pytest.raises(Stopped):
        next(items)
    assert not alive(pid)


def test_a_task_can_be_stopped_while_its_child_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that does not get ready does not keep a reading that was cancelled."""
    monkeypatch.setattr(sandbox, "START", "import time; time.sleep(600)")
    stop = threading.Event()
    with Sandbox(size=1, allowed=ALLOWED) as pool, ThreadPoolExecutor(1) as threads:
        reading = threads.submit(lambda: list(pool.run(HERE + "echo", {}, stop=stop)))
        eventually(lambda: pool._busy)
        stop.set()
        with pytest.raises(Stopped):
            reading.result(60)


def test_a_fork_does_not_wait_for_what_its_parent_holds() -> None:
    """Locks that other threads held, slots they took and children they use stay behind."""
    script = (
        "import os, signal; from tabellion.reading import default_sandbox\n"
        "from tabellion.reading.sandbox import Sandbox\n"
        f"pool = Sandbox(size=1, allowed={ALLOWED!r}); items = pool.run({HERE + 'count'!r}, {{'to': 3}})\n"
        "assert next(items) == {'number': 0}; pool._lock.acquire(); default_sandbox._making.acquire()\n"
        "if os.fork() == 0:\n"
        f"    signal.alarm(30); assert len(list(pool.run({HERE + 'count'!r}, {{'to': 3}}))) == 3\n"
        "    items.close(); default_sandbox.default_sandbox(); pool.close(); os._exit(0)\n"
        "assert os.wait()[1] == 0; pool._lock.release(); assert len(list(items)) == 2; pool.close()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
