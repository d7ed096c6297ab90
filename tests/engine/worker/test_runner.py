"""How what a handler does becomes a settlement."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tabellion import Job, LeaseLost, Permanent, Queue, RateLimited
from tabellion.engine.job import current_job
from tabellion.engine.queue import format_state
from tabellion.engine.settlement import Settlement
from tabellion.engine.worker.runner import (
    LONGEST_WAIT,
    Run,
    Runner,
    defer_or_fail,
    describe_exception,
    retry_or_fail,
    settle_error,
    settle_interrupted,
    settle_result,
)
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tests.engine.made_tables import STATES


def run_of(attempt: int = 1, *, deferrals: int = 0, age: float = 0.0, values: Any = None, **options: Any) -> Run:
    """Return a run of a job that is in no database."""
    queue = Queue("tasks", **STATES, **options)
    return Run(
        Job(queue, 1, "1", values or {}, n=1, token="t", attempt=attempt, worker="w", deferrals=deferrals, age=age)
    )


def test_a_returned_dict_is_done_with_its_values() -> None:
    """The row's new values are what was returned."""
    settlement = settle_result(run_of().job, {"text": "x"})
    assert (settlement.outcome, settlement.values) == ("done", {"text": "x"})


def test_a_handler_that_returns_none_is_done() -> None:
    """Its result has no values."""
    assert settle_result(run_of().job, None).outcome == "done"
    assert settle_result(run_of().job, {}).outcome == "done"


@pytest.mark.parametrize("result", [[("text", "x")], "text", 3, True, object()])
def test_any_other_return_value_fails_the_job_with_a_hint(result: object) -> None:
    """A wrong return value can never become right, so it is not retried."""
    settlement = settle_result(run_of().job, result)
    assert settlement.outcome == "failed"
    assert settlement.error == Message("attempt.result_invalid", kind=type(result).__name__)


def test_permanent_fails_at_once() -> None:
    """`Permanent` spends no further attempt."""
    settlement = settle_error(run_of(), Permanent("empty PDF"))
    assert settlement is not None
    assert (settlement.outcome, settlement.error, settlement.after) == ("failed", "empty PDF", None)


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_other_exceptions_are_retried_later(attempt: int) -> None:
    """The delay follows the backoff of the seed, and the error says what failed and where."""
    settlement = settle_error(run_of(attempt, retry_base=10), ValueError("odd"))
    assert settlement is not None
    assert settlement.outcome == "retried"
    step = 10 * 2 ** (attempt - 1)
    assert step <= (settlement.after or 0) <= step * 1.5
    assert settlement.error == "ValueError: odd"


def test_the_last_attempt_fails() -> None:
    """`max_attempts` is inclusive: the fourth attempt of four is the last."""
    assert retry_or_fail(run_of(3).job, "x").outcome == "retried"
    assert retry_or_fail(run_of(4).job, "x").outcome == "failed"
    assert retry_or_fail(run_of(5).job, "x").outcome == "failed"
    assert retry_or_fail(run_of(1, max_attempts=1).job, "x").outcome == "failed"
    assert retry_or_fail(run_of(2, max_attempts="most", values={"most": 2}).job, "x").outcome == "failed"


def test_rate_limited_waits_without_spending_an_attempt() -> None:
    """The job waits as long as requested."""
    settlement = defer_or_fail(run_of(4).job, RateLimited(after=30), ran=1)
    assert (settlement.outcome, settlement.after) == ("limited", 30)


@pytest.mark.parametrize(("asked", "waits"), [(-5, 0), (0, 0), (1e9, LONGEST_WAIT), (float("inf"), LONGEST_WAIT)])
def test_a_requested_wait_is_bounded(asked: float, waits: float) -> None:
    """An absurd hint of a server is not followed."""
    assert defer_or_fail(run_of(deadline=None).job, RateLimited(after=asked), ran=0).after == waits


def test_a_wait_that_is_not_a_number_still_ends() -> None:
    """NaN from a broken header must not become a row that is never due."""
    settlement = defer_or_fail(run_of().job, RateLimited(after=float("nan")), ran=0)
    assert settlement.after is not None
    assert 0 <= settlement.after <= LONGEST_WAIT


def test_deferrals_are_capped() -> None:
    """Deferrals are limited: past `max_deferrals` the job fails and says why."""
    assert defer_or_fail(run_of(deferrals=2, max_deferrals=3).job, RateLimited(), ran=0).outcome == "limited"
    settlement = defer_or_fail(run_of(deferrals=3, max_deferrals=3).job, RateLimited(), ran=0)
    assert settlement.outcome == "failed"
    assert "max_deferrals" in (settlement.error or "")


def test_deferral_respects_the_deadline() -> None:
    """A wait that would end after the deadline is not started."""
    assert defer_or_fail(run_of(age=60, deadline=100).job, RateLimited(after=30), ran=5).outcome == "limited"
    settlement = defer_or_fail(run_of(age=60, deadline=100).job, RateLimited(after=36), ran=5)
    assert settlement.outcome == "failed"
    assert "the deadline (100 s" in (settlement.error or "")


def test_a_timeout_spends_an_attempt() -> None:
    """A handler stopped by its timeout is retried, and the error says so."""
    run = run_of(timeout=5)
    run.why = "timeout"
    settlement = settle_interrupted(run)
    assert settlement is not None
    assert (settlement.outcome, settlement.error) == ("retried", "timed out after 5 s")


def test_a_stop_releases_and_a_lost_claim_settles_nothing() -> None:
    """Stopping a worker costs the job nothing; for a claim that is gone there is nothing to settle."""
    run = run_of()
    run.why = "stopping"
    assert settle_interrupted(run) == Settlement(run.job, "released")
    run.why = "gone"
    assert settle_interrupted(run) is None


def test_lease_lost_is_silent_only_for_a_lost_lease() -> None:
    """A LeaseLost raised by the handler itself is an error like any other."""
    run = run_of()
    assert (settle_error(run, LeaseLost()) or pytest.fail("silent")).outcome == "retried"
    run.job.lost = True
    assert settle_error(run, LeaseLost()) is None


def test_an_error_names_its_line() -> None:
    """The status column shows the exception and where it was raised."""

    def handler() -> None:
        raise KeyError("page")

    with pytest.raises(KeyError) as caught:
        handler()
    assert without_line(describe_exception(caught.value)) == "KeyError: 'page' (test_runner.py in handler)"


def without_line(text: str) -> str:
    """Return the description without its line number."""
    return re.sub(r":\d+ in", " in", text)


def test_an_explained_error_is_its_message_alone() -> None:
    """What a person needs to know is in the message: no class, no line, no traceback."""

    message = Message("net.no_answer")
    settlement = settle_error(run_of(), TabellionError(message))
    assert settlement is not None
    assert (settlement.outcome, settlement.error) == ("retried", str(message))
    assert settlement.traceback is None


def test_an_exception_whose_text_fails_still_ends_the_job() -> None:
    """An exception whose `str()` raises does not stop the worker."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    settlement = settle_error(run_of(), MuteError())
    assert settlement is not None
    assert settlement.outcome == "retried"
    assert "Mute" in (settlement.error or "")


def test_a_result_that_leaves_the_row_running_is_rejected() -> None:
    """`return dict(job.values)` would write the running state back: the job fails with that reason."""
    run = run_of(values={"status": STATES["running"], "text": "x"})
    settlement = settle_result(run.job, dict(run.job.values))
    assert settlement.outcome == "failed"
    assert settlement.error == Message("attempt.result_running", state=format_state(run.job.queue.states["running"]))


def test_a_wait_may_be_a_header_value() -> None:
    """`Retry-After: 30` is text; text that is not a number is an ordinary error of the handler."""
    assert RateLimited(after="30").after == 30.0  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="soon"):
        RateLimited(after="soon")  # type: ignore[arg-type]


@pytest.mark.parametrize("begun", [False, True])
def test_only_a_job_that_has_not_started_can_be_withdrawn(begun: bool) -> None:
    """A job withdrawn before it started never runs, and one that has started is not withdrawn."""
    called: list[int] = []
    queue = Queue("jobs", **STATES)

    @queue.handler
    async def work(job: Job) -> None:
        called.append(job.attempt)

    async def go() -> tuple[bool, list[Settlement | None]]:
        endings: list[Settlement | None] = []
        runner = Runner(asyncio.get_running_loop(), lambda _run, ending: endings.append(ending))
        run = Run(Job(queue, 1, "1", {}, n=1, token="t", attempt=1, worker="w"))
        runner.start([run])
        while begun and not endings:
            await asyncio.sleep(0)
        withdrawn = runner.withdraw(run)
        while not endings:
            await asyncio.sleep(0)
        return withdrawn, endings

    withdrawn, [ending] = asyncio.run(go())
    assert ending is not None
    assert (withdrawn, called, ending.outcome) == ((False, [1], "done") if begun else (True, [], "released"))


@pytest.mark.parametrize("threaded", [False, True])
def test_code_called_by_a_handler_knows_the_job(threaded: bool) -> None:
    """`current_job` is set on the event loop and in the thread of a plain function, and nowhere else."""
    found: list[Job | None] = []
    queue = Queue("jobs", **STATES)

    def work(job: Job) -> None:
        found.append(current_job.get())

    async def work_on_loop(job: Job) -> None:
        work(job)

    queue.handler(work if threaded else work_on_loop)
    run = Run(Job(queue, 1, "1", {}, n=1, token="t", attempt=1, worker="w"))

    async def go() -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        def report(_run: Run, _ending: Settlement | None) -> None:
            loop.call_soon_threadsafe(ended.set)

        Runner(loop, report).start([run])
        await ended.wait()
        assert current_job.get() is None

    asyncio.run(go())
    assert found == [run.job]


def test_a_loop_is_blocked_when_it_misses_several_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that got no CPU for seconds checks once after them, and concludes nothing."""
    now = 100.0
    monkeypatch.setattr("tabellion.engine.worker.runner.time.monotonic", lambda: now)

    def look(runner: Runner, *pauses: float) -> bool:
        nonlocal now
        for pause in pauses:
            now += pause
            runner.ask()
        return runner.is_blocked

    loop = asyncio.new_event_loop()
    try:
        runner = Runner(loop, lambda _run, _ending: None)
        assert not look(runner, 0.1, 5.0, *[0.001] * 20)
        assert look(runner, 0.1, 0.1)
        loop.call_soon(loop.stop)
        loop.run_forever()
        assert not look(runner, 0.1)
    finally:
        loop.close()


def test_a_job_may_have_its_own_retry_delays() -> None:
    """What its handler says about retries overrides the queue's."""
    run = run_of(2, retry_base=10)
    run.job.retry_base = 100.0
    settlement = settle_error(run, ValueError("odd"))
    assert settlement is not None
    assert 200 <= (settlement.after or 0) <= 300
