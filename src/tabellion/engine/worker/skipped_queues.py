"""Queues that do not fit their table in one environment: they are skipped there and checked again later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tabellion.engine import sql
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.errors import Busy, DeclarationError, DeclarationProblem, NotMigrated, StoreError, Unreachable


class Skipped:
    """The queues of one environment whose table is missing, not as declared, or not accessible to the role."""

    def __init__(self, store: Store, queues: Sequence[Queue], emit: Callable[..., None]) -> None:
        self._store = store
        self._queues = queues
        self._emit = emit
        self._problems: dict[Queue, DeclarationError] = {}
        self._admitted = False

    def __contains__(self, queue: object) -> bool:
        return queue in self._problems

    def __getitem__(self, queue: Queue) -> DeclarationError:
        return self._problems[queue]

    @property
    def others(self) -> list[Queue]:
        """The queues that can work here."""
        return [queue for queue in self._queues if queue not in self._problems]

    def admit(self) -> None:
        """Starts reporting skipped queues; before, the worker may refuse to start because of them."""
        self._admitted = True
        for queue in self._problems:
            self._report_problem(queue)

    async def check(self, queue: Queue, *, anew: bool = False) -> bool:
        """Whether a queue can work here, with an event when that has changed; `anew` reads its table again."""
        if anew:
            self._store.unbind(queue)
        before, problem = self._problems.get(queue), await self._problem_of(queue)
        if problem is None:
            self._problems.pop(queue, None)
            if before is not None:
                self._emit("queue_restored", queue=queue.name)
            return True
        self._problems[queue] = problem
        if self._admitted and str(problem) != str(before):
            self._report_problem(queue)
        return False

    async def check_again(self) -> None:
        """Checks every skipped queue again."""
        for queue in list(self._problems):
            await self.check(queue, anew=True)

    async def _problem_of(self, queue: Queue) -> DeclarationError | None:
        try:
            await self._store.check([queue])
            # The catalog also describes tables that the role may not read.
            await self._store.database.fetch(f"SELECT 1 FROM {sql.name(queue.table)} WHERE 1 = 0")
        except DeclarationError as error:
            return error
        except (Unreachable, NotMigrated, Busy):
            raise
        except StoreError as error:
            return DeclarationError(f"queue {queue.name!r}", [DeclarationProblem(str(error))])
        try:
            if queue.prepare is not None:
                await queue.prepare(self._store)
        except NotMigrated as error:
            return DeclarationError(f"queue {queue.name!r}", [DeclarationProblem(str(error))])
        return None

    def _report_problem(self, queue: Queue) -> None:
        problems = [
            f"{problem.what}; fix: {problem.fix}" if problem.fix else problem.what for problem in self[queue].problems
        ]
        self._emit("queue_skipped", queue=queue.name, error="; ".join(problems))
