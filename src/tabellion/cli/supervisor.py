"""Keeps worker processes alive, and records how those that died ended."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from types import FrameType

from tabellion.engine.environment import Environment
from tabellion.engine.events import Event, Listener
from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.startup import make_id
from tabellion.errors import TabellionError

CHILD = "TABELLION_CHILD"  # set in a child's environment: the last part of its id
ID = "TABELLION_CHILD_ID"  # its whole id, where it does not follow from the process
PLACE = "TABELLION_CHILD_PLACE"  # its number among the processes, from 1; kept when it is restarted
PARENT = "TABELLION_PARENT"
ENVIRONMENTS = "TABELLION_CHILD_ENVIRONMENTS"  # the names of those that the supervisor found usable
FOR_GOOD = (0, 2, 3)  # exit codes after which a restart would not help: success, usage, configuration
SHORT_LIFE = 10.0  # seconds; a child that dies younger is restarted with increasing pauses
LONGEST_PAUSE = 30.0
GOODBYE = 15.0  # seconds beyond the grace time before a child that does not end is killed


def is_child() -> bool:
    """Whether this process was started by a supervisor."""
    return CHILD in os.environ


def child_id() -> str:
    """The worker id of a child: it contains the process id that the supervisor sees."""
    return os.environ.get(ID) or f"worker-{socket.gethostname()}-{os.getpid()}-{os.environ[CHILD]}"


def child_port(first: int | None) -> int | None:
    """The port of a child's metrics: the first child has the first one; 0 picks any."""
    return first and first + int(os.environ.get(PLACE, "1")) - 1


def child_environments(environments: Sequence[Environment]) -> list[Environment]:
    """Those of these environments that the supervisor found usable."""
    names = os.environ[ENVIRONMENTS].split(",")
    return [environment for environment in environments if environment.name in names]


def die_with_parent() -> None:
    """Ends this process gracefully when its supervisor is killed, so that no orphan continues to work."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
        if str(os.getppid()) != os.environ.get(PARENT):
            os.kill(os.getpid(), signal.SIGTERM)


class _WorkerProcess:
    def __init__(self, place: str, id: str | None, environments: Sequence[Environment]) -> None:  # noqa: A002
        suffix = uuid.uuid4().hex[:8]
        names = ",".join(environment.name for environment in environments)
        variables = os.environ | {CHILD: suffix, PLACE: place, PARENT: str(os.getpid()), ENVIRONMENTS: names}
        variables |= {ID: id} if id else {}
        self.started_at = time.monotonic()
        self.stop_count = 0  #: of the supervisor when it last passed a signal on
        # Its own session: Ctrl-C in the terminal reaches only the supervisor, which passes it on once.
        self.process = subprocess.Popen(  # noqa: S603 - our own command line, again
            [sys.executable, "-m", "tabellion", *sys.argv[1:]], env=variables, start_new_session=True
        )
        self.id = id or f"worker-{socket.gethostname()}-{self.process.pid}-{suffix}"

    def stop(self, stop_count: int) -> None:
        """Sends SIGTERM, unless it has been sent for this count."""
        if self.stop_count != stop_count:
            self.stop_count = stop_count
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)


def supervise(
    environments: Sequence[Environment], *, processes: int, id: str | None, name: str | None,  # noqa: A002
    listen: Listener, grace: float,
) -> int:  # fmt: skip
    """Starts the processes, restarts those that crash, returns an exit code when all have ended.

    With `id` each has a number after it, and keeps it when it is restarted; with `name` each start has a new UUID.
    """
    stop_count = 0
    stop_at = float("inf")

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal stop_count, stop_at
        stop_count += 1
        stop_at = min(stop_at, time.monotonic() + grace + GOODBYE)
        for child in children.values():
            child.stop(stop_count)

    places = [str(number + 1) for number in range(processes)]

    def id_of(place: str) -> str | None:
        if id is not None:
            return id if processes == 1 else f"{id}-{place}"
        return make_id(None, name)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    children: dict[str, _WorkerProcess] = {}
    due = dict.fromkeys(places, 0.0)
    pauses = dict.fromkeys(places, 1.0)
    exit_codes: list[int] = []
    while due or children:
        for place in [place for place, at in due.items() if time.monotonic() >= at or stop_count]:
            del due[place]
            if not stop_count:
                children[place] = _WorkerProcess(place, id_of(place), environments)
                children[place].stop(stop_count)  # a signal that arrived meanwhile did not find it
        for place, child in list(children.items()):
            code = child.process.poll()
            if code is None:
                if time.monotonic() > stop_at:
                    child.process.kill()
                continue
            del children[place]
            if code in FOR_GOOD or stop_count:
                exit_codes.append(code)
            if code not in FOR_GOOD and not stop_count:
                ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                listen(Event("worker_stopped", worker=child.id, error=ending))
                asyncio.run(_end_leases(environments, child.id, ending))
                died_young = time.monotonic() - child.started_at < SHORT_LIFE
                pauses[place] = min(pauses[place] * 2, LONGEST_PAUSE) if died_young else 1.0
                due[place] = time.monotonic() + (pauses[place] / 2 if died_young else 0.0)
        time.sleep(0.05)
    return max((code for code in exit_codes if code > 0), default=0)


async def _end_leases(environments: Sequence[Environment], worker: str, ending: str) -> None:
    """Ends the dead worker's leases everywhere, so that its jobs do not wait for the expiry."""

    async def end_leases(environment: Environment) -> None:
        store = environment.store()
        with contextlib.suppress(TabellionError, TimeoutError):
            async with asyncio.timeout(5):
                await store.open(migrate=False)
                await heartbeat.leave(store, worker, ending, crashed=True)
        await store.close()

    await asyncio.gather(*(end_leases(environment) for environment in environments))
