"""Visits a site for a job: picks a free account, opens a browser session, runs a task and reports to the gate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error

from tabellion.engine.job import Job
from tabellion.errors import GateClosed, Permanent, RateLimited
from tabellion.messages import Message
from tabellion.net.chromium import Chromium
from tabellion.net.guard import Blocked, HostUnreachable, Rules
from tabellion.pipelines.registries.account_files import WAIT_SECONDS, AccountFile, wait_turn
from tabellion.pipelines.registries.accounts import SiteAccount
from tabellion.pipelines.registries.problems import (
    REFUSED,
    AmbiguousResult,
    SiteProblem,
    SiteUnreachable,
    StepFailed,
)
from tabellion.pipelines.registries.profile import Profile, Task
from tabellion.pipelines.registries.profile_runner import ProfileRunner, TaskResult, first_line

if TYPE_CHECKING:
    from tabellion.engine.context import JobContext
    from tabellion.engine.gates.passes import Pass

TROUBLE = ("maintenance", "retry")  #: problems of the site itself, which count against its gate
RECHECK = 60.0  #: seconds until a job checks again whether an account can be used
BUSY_SECONDS = 2.0  #: until a job is claimed again that found no free account
LOCALE = "fr-CA"


@dataclass(eq=False)
class Visits:
    """All visits of one site from this process."""

    profile: Profile
    accounts: tuple[SiteAccount, ...]
    folder: Path  #: for the accounts' files
    chromium: Chromium
    rules: Rules
    _next: int = field(default=0, init=False)

    async def run(self, job: Job, task: Task, inputs: Mapping[str, Any]) -> TaskResult:
        """Runs a task for a job, with the first account that can be used.

        Raises Permanent if a retry cannot help, RateLimited or GateClosed if the job should wait without spending an
        attempt, and anything else if the job should be retried.
        """
        missing = [name for name in task.inputs if inputs.get(name) in (None, "")]
        if missing:
            raise Permanent(Message("registry.input_missing", task=task.name, names=missing))
        context = job.context
        if context is None:
            raise RuntimeError("a visit needs a job of a worker: it has no context")
        context.users.add(self.chromium)
        while True:
            async with self._enter(context, job) as (file, admitted):
                try:
                    return await self._visit(job, file, task, inputs, admitted)
                except SiteProblem as problem:
                    if problem.means not in REFUSED:
                        raise
                    # Try the next account at once: a refused account costs the job no attempt.

    @contextlib.asynccontextmanager
    async def _enter(self, context: JobContext, job: Job) -> AsyncIterator[tuple[AccountFile, Pass]]:
        """An account that no other visit uses, admitted by its gate."""
        with contextlib.ExitStack() as lock:
            yield await self._wait_for_account(context, job, lock)

    async def _wait_for_account(
        self, context: JobContext, job: Job, lock: contextlib.ExitStack
    ) -> tuple[AccountFile, Pass]:
        """Waits in the line of each account, and locks the first one that is free."""
        self._next += 1
        turn = self._next % len(self.accounts)
        files = [AccountFile(self.folder, one) for one in (*self.accounts[turn:], *self.accounts[:turn])]
        until = time.monotonic() + WAIT_SECONDS
        is_noted = False
        with contextlib.ExitStack() as lines:
            places = [lines.enter_context(file.join_line()) for file in files]
            while True:
                closed: list[GateClosed] = []
                for file, place in zip(files, places, strict=True):
                    if not place.is_first():
                        continue
                    try:
                        admitted = await self._try_account(context, job, file, lock)
                    except GateClosed as error:
                        closed.append(error)
                        continue
                    if admitted is not None:
                        return file, admitted
                if len(closed) == len(files):
                    raise min(closed, key=lambda error: error.after)
                if time.monotonic() > until:
                    raise RateLimited(BUSY_SECONDS, Message("registry.accounts_busy", site=self.profile.title))
                if not is_noted:
                    job.note(Message("registry.note_waiting"))
                    is_noted = True
                await wait_turn()

    async def _try_account(
        self, context: JobContext, job: Job, file: AccountFile, lock: contextlib.ExitStack
    ) -> Pass | None:
        """Locks an account if it is free and its gate admits the job; None if another visit uses it."""
        with contextlib.ExitStack() as trial:
            if not trial.enter_context(file.try_lock()):
                return None
            admitted = await context.admit(file.account.gate, job)
            reason = file.refusal()
            if reason is not None:
                # The gate admits a probe now and then; do not send one that is bound to fail.
                why = _explain_refusal(file.account, reason)
                admitted.record_refusal(why)
                raise GateClosed(file.account.gate, why, RECHECK)
            lock.enter_context(trial.pop_all())
            return admitted

    async def _visit(
        self, job: Job, file: AccountFile, task: Task, inputs: Mapping[str, Any], admitted: Pass
    ) -> TaskResult:
        try:
            result = await self._run_steps(job, file, task, inputs)
        except SiteProblem as problem:
            self._record(file, problem, admitted)
            closed = await admitted.flush() if problem.means in TROUBLE else ""
            raise self._verdict(file, problem, closed) from problem
        except AmbiguousResult as error:
            admitted.record_success(None)
            raise Permanent(error.args[0]) from error
        except StepFailed as error:
            admitted.record_failure(str(error))
            closed = await admitted.flush()
            if closed:
                raise GateClosed(file.account.gate, closed) from error
            raise
        except Blocked as error:
            admitted.record_abandoned()
            raise Permanent(Message("registry.blocked", site=self.profile.title, detail=error.reason)) from error
        except (Error, HostUnreachable) as error:
            described = self._describe(error)
            admitted.record_failure(str(described))
            closed = await admitted.flush()
            if closed:
                raise GateClosed(file.account.gate, closed) from error
            raise described from error
        except BaseException:
            admitted.record_abandoned()
            raise
        admitted.record_success(None)
        return result

    def _describe(self, error: Exception) -> SiteUnreachable | SiteProblem:
        """The problem behind an error of the browser; a browser that died is a BrowserFailed."""
        if isinstance(error, HostUnreachable):
            return SiteUnreachable(self.profile.title, str(error))
        text = first_line(error)
        if "net::ERR_" in text:
            return SiteUnreachable(self.profile.title, text)
        return SiteProblem(self.profile.title, "retry", text)

    def _record(self, file: AccountFile, problem: SiteProblem, admitted: Pass) -> None:
        if problem.means in REFUSED:
            file.mark_refused(str(problem))
            admitted.record_refusal(_explain_refusal(file.account, str(problem)))
        elif problem.means in TROUBLE:
            admitted.record_failure(str(problem))
        else:
            admitted.record_success(None)

    def _verdict(self, file: AccountFile, problem: SiteProblem, closed: str) -> Exception:
        if problem.means in ("permanent", "no_result"):
            return NothingFound(str(problem)) if problem.means == "no_result" else Permanent(str(problem))
        if closed:
            return GateClosed(file.account.gate, closed)
        return RateLimited(self.profile.wait, str(problem)) if problem.means == "maintenance" else problem

    async def _run_steps(self, job: Job, file: AccountFile, task: Task, inputs: Mapping[str, Any]) -> TaskResult:
        """Runs the task in a browser session with the account's cookies; signs in if there are none or they expired."""
        private = self.profile.needs_account
        async with self.chromium.open_session(
            job.folder, state=file.state_path if private else None, page_seconds=self.profile.timeout,
            options={"locale": LOCALE}, rules=self.rules,
        ) as session:  # fmt: skip
            runner = ProfileRunner(session, await session.new_page(), self.profile, job.note)
            signed_in = not private or file.has_state
            for last in (False, True):
                if not signed_in:
                    await runner.sign_in(file.account.username, file.account.password)
                    await session.save_state()
                try:
                    result = await runner.run(task, inputs)
                    break
                except SiteProblem as problem:
                    if problem.means != "session_expired" or last or not private:
                        raise
                    signed_in = False
            if private:
                await session.save_state()
            return result


def _explain_refusal(account: SiteAccount, why: str) -> Message:
    """Why the gate of an account is closed, and what opens it: unlike that of a model, it is not tested by a call."""
    return Message("registry.not_used", detail=why, site=account.site, account=account.name)


class NothingFound(Permanent):
    """The registry has no result for this search."""
