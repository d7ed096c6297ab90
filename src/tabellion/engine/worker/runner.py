"""Runs handlers, on the caller's event loop or in threads, and turns their results into settlements."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, cast

from tabellion.engine import retry
from tabellion.engine.failpoints import failpoint
from tabellion.engine.job import Job, current_job
from tabellion.engine.queue import disjoint, format_state
from tabellion.engine.settlement import Settlement
from tabellion.errors import GateClosed, LeaseLost, Permanent, RateLimited, TabellionError
from tabellion.messages import Message

BLOCKED = 3  # checks without a response after which the handlers' loop counts as blocked
BETWEEN_LOOKS = 0.09  # seconds at least: a process that was suspended for a second counts as one check
LONGEST_WAIT = 3600.0  # seconds a rate limit may ask for at once
LONGEST_TRACEBACK = 20_000  # characters; a message may hold a whole page

Why = Literal["timeout", "stopping", "gone"]


class HandlerStopped(BaseException):
    """Raised inside a threaded handler that must end now."""


class Run:
    """One job being executed."""

    __slots__ = (
        "claimed_at", "ended_at", "guard", "handed_over_at", "job", "reported", "started_at", "task", "thread", "why",
    )  # fmt: skip

    def __init__(self, job: Job) -> None:
        self.job = job
        self.claimed_at = time.monotonic()
        self.handed_over_at: float | None = None  #: when it was handed to the handlers' loop or a thread
        self.reported = False
        self.guard = threading.Lock()  #: keeps a thread from being stopped after it has ended
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.task: asyncio.Task[None] | None = None
        self.thread: threading.Thread | None = None
        self.why: Why | None = None  #: why it was asked to stop

    @property
    def seconds(self) -> float:
        """How long the handler ran."""
        return 0.0 if self.started_at is None else (self.ended_at or time.monotonic()) - self.started_at


class Runner:
    """Executes claimed jobs and reports the end of each one once, from the thread it ran in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[Run, Settlement | None], None]) -> None:
        self._loop = loop
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self._ping_sent = False
        self._looked_at = 0.0
        self._unanswered = 0

    def ask(self) -> None:
        """Checks whether the handlers' loop responds; called in the engine's thread."""
        now = time.monotonic()
        if now - self._looked_at < BETWEEN_LOOKS:
            return
        self._looked_at = now
        if self._ping_sent:
            self._unanswered += 1
        elif not self._loop.is_closed():
            self._ping_sent, self._unanswered = True, 0
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._ping_sent = False

    @property
    def is_blocked(self) -> bool:
        """Whether a handler blocks the loop, so that new jobs would only wait."""
        return self._ping_sent and self._unanswered >= BLOCKED

    def start(self, runs: Sequence[Run]) -> None:
        """Starts jobs; may be called from any thread."""
        on_loop = []
        now = time.monotonic()
        for run in runs:
            run.handed_over_at = now
            if run.job.queue.is_async:
                on_loop.append(run)
            else:
                run.thread = threading.Thread(target=self._in_thread, args=(run,), daemon=True, name=repr(run.job))
                run.thread.start()
        if on_loop:
            self._loop.call_soon_threadsafe(self._start_on_loop, on_loop)

    def stop(self, run: Run, why: Why) -> None:
        """Asks a running handler to end: a coroutine is cancelled, a thread gets an exception at its next line."""
        with run.guard:
            if run.why is not None or run.ended_at is not None:
                return
            run.why = why
            if why == "gone":
                run.job.lost = True
            if run.thread is not None and run.thread.ident is not None:
                _raise_in(run.thread.ident, HandlerStopped)
        if run.thread is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel, run)

    def withdraw(self, run: Run) -> bool:
        """Withdraws a job that has not started; returns whether that was in time."""
        with run.guard:
            if run.started_at is not None:
                return False
            run.why = run.why or "stopping"
            return True

    def _start_on_loop(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.task = self._loop.create_task(self._on_loop(run))
            self._tasks.add(run.task)

    def _cancel(self, run: Run) -> None:
        # A task that has not started checks `why` when it does; cancelled now, it would never start or be reported.
        if run.task is not None and run.started_at is not None:
            run.task.cancel()

    async def _on_loop(self, run: Run) -> None:
        job = run.job
        settlement: Settlement | None = None
        handler = cast("Callable[[Job], Coroutine[Any, Any, Mapping[str, Any] | None]]", job.queue.function)
        with run.guard:
            run.started_at = time.monotonic()
        current_job.set(job)
        try:
            if run.why is None:
                failpoint("handler.pre_call")
                settlement = settle_result(job, await handler(job))
                failpoint("handler.post_call")
            else:
                settlement = settle_interrupted(run)
        except asyncio.CancelledError as error:
            # Without `why` the engine did not cancel it: the handler cancelled a task of its own.
            settlement = settle_interrupted(run) if run.why is not None else settle_error(run, error)
        except (Exception, SystemExit) as error:
            settlement = settle_error(run, error)
        finally:
            self._end(run, settlement)
            if run.task is not None:
                self._tasks.discard(run.task)

    def _in_thread(self, run: Run) -> None:
        job = run.job
        settlement: Settlement | None = None
        handler = cast("Callable[[Job], Mapping[str, Any] | None]", job.queue.function)
        run.started_at = time.monotonic()
        try:
            try:
                current_job.set(job)  # a new thread has a context of its own
                failpoint("handler.pre_call")
                settlement = settle_result(job, handler(job))
                failpoint("handler.post_call")
            except (Exception, SystemExit) as error:
                settlement = settle_error(run, error)
        except HandlerStopped:
            settlement = settlement or settle_interrupted(run)
        # A stop may arrive at any line until `ended_at` is set under the guard: the slot must be freed in any case.
        while not run.reported:
            try:
                with run.guard:
                    run.ended_at = time.monotonic()
                _raise_in(threading.get_ident(), None)
                self._end(run, settlement)
            except HandlerStopped:
                settlement = settlement or settle_interrupted(run)

    def _end(self, run: Run, settlement: Settlement | None) -> None:
        run.ended_at = run.ended_at or time.monotonic()
        run.job.close()
        if settlement is not None:
            settlement.seconds, settlement.ended_at = run.seconds, run.ended_at
        self._report(run, settlement)
        run.reported = True


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raises an exception in another thread at its next line of Python; None cancels one not raised yet."""
    raised = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def settle_result(job: Job, result: object) -> Settlement:
    """The settlement of a handler that returned: its result is the row's new values."""
    if result is None:
        return Settlement(job, "done")
    if type(result) is not dict and not isinstance(result, Mapping):
        error = Message("attempt.result_invalid", kind=type(result).__name__)
        return Settlement(job, "failed", error=error)
    values = cast("Mapping[str, Any]", result)
    running = job.queue.states["running"]
    if any(column in values for column in running):
        returned = {column: values[column] for column in running if column in values}
        if not disjoint(job.queue.states["done"] | returned, running):
            error = Message("attempt.result_running", state=format_state(running))
            return Settlement(job, "failed", error=error)
    return Settlement(job, "done", values)


def settle_interrupted(run: Run) -> Settlement | None:
    """The settlement of a handler that was stopped; None if its claim was lost."""
    if run.why == "timeout":
        return retry_or_fail(run.job, Message("attempt.timed_out", n=run.job.queue.timeout))
    if run.why == "gone":
        return None
    return Settlement(run.job, "released")


def settle_error(run: Run, error: BaseException) -> Settlement | None:
    """The settlement of a handler that raised, whatever it raised; None if its claim was lost."""
    try:
        return _settle_exception(run, error)
    except Exception as trouble:
        return retry_or_fail(run.job, describe_exception(trouble))


def _settle_exception(run: Run, error: BaseException) -> Settlement | None:
    job = run.job
    if isinstance(error, Permanent):
        code = getattr(error, "code", None)
        form = {"code": code, "params": {}} if isinstance(code, str) else None
        return Settlement(job, "failed", error=_safe_str(error), form=form)
    if isinstance(error, LeaseLost) and job.lost:
        return None
    if isinstance(error, GateClosed) and error.gate == job.queue.uses:
        # Nothing is claimed from this queue until the gate opens: the job keeps its place, and no deferral is counted.
        return Settlement(job, "released")
    if isinstance(error, RateLimited):
        return defer_or_fail(job, error, run.seconds)
    if isinstance(error, TabellionError) and isinstance(error.args[0], Message):
        return retry_or_fail(job, error.args[0])  # written for people: the line that raised it would tell them nothing
    ending = retry_or_fail(job, describe_exception(error))
    ending.traceback = format_traceback(error)
    return ending


def retry_or_fail(job: Job, error: str) -> Settlement:
    """The settlement of a failed attempt: a retry later, or failed if no attempt is left."""
    limit = job.queue.bounds(job.values)
    if job.attempt >= limit:
        return Settlement(job, "failed", error=error)
    after = retry.delay(job.retry_base or job.queue.retry_base, job.attempt, waits=job.queue.waits)
    return Settlement(job, "retried", error=error, after=after)


def defer_or_fail(job: Job, limit: RateLimited, ran: float) -> Settlement:
    """The settlement of a rate-limited job: deferred without using up the attempt, up to max_deferrals and deadline."""
    queue = job.queue
    after = (
        min(max(limit.after, 0.0), LONGEST_WAIT) if limit.after == limit.after else LONGEST_WAIT
    )  # NaN is not itself
    if job.deferrals >= queue.max_deferrals:
        return Settlement(job, "failed", error=Message("attempt.max_deferrals", detail=limit, n=job.deferrals))
    if queue.deadline is not None and job.age + ran + after > queue.deadline:
        return Settlement(job, "failed", error=Message("attempt.deadline", detail=limit, n=queue.deadline))
    return Settlement(job, "limited", error=str(limit), after=after)


def describe_exception(error: BaseException) -> str:
    """An exception with the line that raised it, for people who read a status column."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/tabellion/engine/" not in frame.filename] or frames
    place = f" ({own[-1].filename.rpartition('/')[2]}:{own[-1].lineno} in {own[-1].name})" if own else ""
    return Message("attempt.raised", error=type(error).__name__, detail=_safe_str(error), place=place)


def format_traceback(error: BaseException) -> str:
    """An exception's traceback from the handler on, without the engine's own frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))[:LONGEST_TRACEBACK]


def _safe_str(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return Message("attempt.no_message")
