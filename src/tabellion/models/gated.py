"""A model behind its gate: calls are admitted, memoised and paid once, and failures are shared with all workers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from tabellion.engine.context import JobContext, asker_of
from tabellion.engine.gates.passes import Pass
from tabellion.engine.job import Job, current_job
from tabellion.engine.memo import Asker
from tabellion.errors import ConfigurationError, GateClosed
from tabellion.models import prices
from tabellion.models.base import Ask, Blob, Model, Part, Reply, Schema, Usage, takes
from tabellion.models.errors import BadOutput, KeyRefused, ModelError, Throttled, Unavailable
from tabellion.models.observers import ModelCall, outcome_of, report_call
from tabellion.models.split import in_parts

MARGIN = 30.0  # seconds beyond a call's own deadline during which no other job makes the same call
POLL = 0.25  # seconds between checks for an answer that another job is fetching
VERSION = 1  # of the memo's format: increased when older memos must not be used any more


class GatedModel:
    """Calls a model through its gate, and never twice for the same question.

    Inside a handler it uses the job's context; elsewhere pass one (`OpenContext`).
    """

    def __init__(
        self, model: Model, *, gate: str | None = None, context: JobContext | None = None, memo: bool = True
    ) -> None:
        self.name = model.name
        self.model = model.model
        self.takes = takes(model)
        self.gate = gate or model.name
        self._model = model
        self._context = context
        self._memo = memo

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask | None = None) -> Reply:
        """The model's reply, from a call or from a memo."""
        job = current_job.get()
        context = (job.context if job is not None else None) or self._context
        if context is None:
            raise ConfigurationError(
                f"model {self.name!r} was called outside a worker and without a context: "
                "use `async with OpenContext(environment) as context` and GatedModel(model, context=context)"
            )
        context.users.add(self)
        ask = ask or Ask()
        if job is not None:
            ask = replace(ask, attempt=max(ask.attempt, job.attempt))
        if not self._memo:
            return await self._call_in_parts(context, job, parts, schema, ask)
        return await self._call_once(context, job, parts, schema, ask)

    async def close(self) -> None:
        """Closes the model's connections."""
        await self._model.close()

    async def _call_once(
        self, context: JobContext, job: Job | None, parts: Sequence[Part], schema: Schema | None, ask: Ask
    ) -> Reply:
        """Returns the memo; makes the call if there is none; waits while another job makes it."""
        key = memo_key(self._model, parts, schema, ask)
        asker = asker_of(job)
        while True:
            memo = await context.recall(key, asker, self.model, ask.deadline + MARGIN)
            if memo.reply is not None:
                report_call(ModelCall(self.name, self.model, self.gate, "memo", job=job))
                return load_reply(memo.reply, "resume" if memo.same else "duplicate")
            if memo.mine:
                break
            await asyncio.sleep(POLL)
        try:
            reply = await self._call_in_parts(context, job, parts, schema, replace(ask, hint={**memo.hint, **ask.hint}))
        except BadOutput as error:
            await self._let_go(context, key, asker, error)
            raise
        except BaseException:
            await self._let_go(context, key, asker)
            raise
        await context.remember(key, asker, dump_reply(reply), reply.cost)
        return reply

    async def _let_go(self, context: JobContext, key: str, asker: Asker, error: BadOutput | None = None) -> None:
        giving_up = context.give_up(
            key, asker, hint=error.hint if error is not None else None, raw=error.raw if error is not None else None
        )
        # Also when the handler is being stopped, so that the next job can make the call.
        await asyncio.shield(asyncio.ensure_future(giving_up))

    async def _call_in_parts(
        self, context: JobContext, job: Job | None, parts: Sequence[Part], schema: Schema | None, ask: Ask
    ) -> Reply:
        """Makes one call, or several smaller ones when the last answer was cut off."""

        async def call_once(parts: Sequence[Part], schema: Schema | None, ask: Ask) -> Reply:
            return await self._call_through_gate(context, job, parts, schema, ask)

        if schema is not None and ask.hint.get("split"):
            return await in_parts(call_once, parts, schema, ask)
        return await call_once(parts, schema, ask)

    async def _call_through_gate(
        self, context: JobContext, job: Job | None, parts: Sequence[Part], schema: Schema | None, ask: Ask
    ) -> Reply:
        estimate = prices.estimate(self.model, parts, ask) or 0.0
        asked_at = time.monotonic()
        admitted = await context.admit(self.gate, job, estimate)
        called_at = time.monotonic()
        result: Reply | BaseException | None = None
        try:
            result = await self._call_admitted(admitted, job, parts, schema, ask)
            return result
        except BaseException as error:
            result = error
            raise
        finally:
            usage, cost = getattr(result, "usage", None), getattr(result, "cost", None)
            report_call(
                ModelCall(
                    self.name, self.model, self.gate, outcome_of(result), time.monotonic() - called_at,
                    called_at - asked_at, usage or Usage(), cost, job,
                )
            )  # fmt: skip

    async def _call_admitted(
        self, admitted: Pass, job: Job | None, parts: Sequence[Part], schema: Schema | None, ask: Ask
    ) -> Reply:
        try:
            reply = await self._model.call(parts, schema, ask)
        except Throttled as error:
            admitted.record_throttle(error.hint)
            raise
        except KeyRefused as error:
            admitted.record_refusal(str(error))
            raise
        except Unavailable as error:
            admitted.record_failure(str(error))
            closed = await admitted.flush()
            if closed:
                # All workers wait for this model: that must not cost the job an attempt.
                raise GateClosed(self.gate, closed) from error
            raise
        except BadOutput as error:
            admitted.record_success(error.cost)
            charge(job, error.cost)
            raise
        except ModelError:
            admitted.record_success(0.0)
            raise
        except BaseException:
            admitted.record_abandoned()
            raise
        admitted.record_success(reply.cost)
        charge(job, reply.cost)
        return reply


def charge(job: Job | None, cost: float | None) -> None:
    """Adds a call's price to the cost of the attempt."""
    if job is not None and cost is not None:
        job.cost = (job.cost or 0.0) + cost


def memo_key(model: Model, parts: Sequence[Part], schema: Schema | None, ask: Ask) -> str:
    """The hash of everything that determines the answer: the model, the parts, the schema and the options."""
    digest = hashlib.sha256()

    def add(kind: str, data: bytes) -> None:
        digest.update(f"{kind}:{len(data)}:".encode())
        digest.update(data)

    request: dict[str, Any] = {
        "version": VERSION, "name": model.name, "model": model.model, "schema": schema, "system": ask.system,
        "temperature": ask.temperature, "max_tokens": ask.max_tokens, "thinking": ask.thinking,
    }  # fmt: skip
    add("ask", json.dumps(request, sort_keys=True).encode())
    for part in parts:
        if isinstance(part, Blob):
            add(f"blob {part.type}", part.data)
        else:
            add("text", part.encode())
    return digest.hexdigest()


def dump_reply(reply: Reply) -> str:
    """A reply for storage in a memo."""
    return json.dumps(asdict(reply), ensure_ascii=False)


def load_reply(text: str, source: str) -> Reply:
    """A reply from a memo, which costs nothing."""
    saved = json.loads(text)
    saved |= {"usage": Usage(**saved["usage"]), "cost": 0.0, "seconds": 0.0, "source": source}
    return Reply(**saved)
