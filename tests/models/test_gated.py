"""A model behind its gate: paid once, problems reported to the fleet, costs charged to the right job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest

from tabellion import Environment, Job, Store
from tabellion.engine.context import OpenContext
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError, GateClosed, Permanent
from tabellion.models.base import Ask, Blob, Part, Reply, Schema
from tabellion.models.errors import BadOutput, KeyRefused, Rejected, Throttled, Unavailable
from tabellion.models.gated import GatedModel, memo_key
from tests.engine.made_tables import asynchronous
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually
from tests.workers import make_worker, working

FAST = GateSettings(rate=500, min_rate=500, max_rate=500)
Answer = Callable[[Sequence[Part], Schema | None, Ask], Reply]


class Parrot:
    """A model as a third party might write one: it repeats what it is sent."""

    name, model = "parrot", "parrot-1"

    def __init__(self, answer: Answer | None = None) -> None:
        self.asked: list[tuple[Sequence[Part], Schema | None, Ask]] = []
        self._answer = answer

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Repeat the first text."""
        self.asked.append((parts, schema, ask))
        await asyncio.sleep(0)
        if self._answer is not None:
            return self._answer(parts, schema, ask)
        return Reply(text=str(parts[0]), cost=0.25, model=self.model)

    async def close(self) -> None:
        """Do nothing."""


def raises(error: Exception) -> Answer:
    def answer(_parts: Sequence[Part], _schema: Schema | None, _ask: Ask) -> Reply:
        raise error

    return answer


async def state_of(url: str, name: str = "parrot") -> object:
    async with Store(url) as store:
        return (await GateRow(store, name, FAST).read())[0]


def test_the_same_question_is_paid_for_once(url: str) -> None:
    """Ten concurrent callers and one later: one call; the others get the same reply at no cost, as duplicates."""
    parrot = Parrot()

    async def go() -> list[Reply]:
        async with OpenContext(Environment("prod", url), {"parrot": FAST}) as context:
            model = GatedModel(parrot, context=context)
            replies = await asyncio.gather(*(model.call(["Hello", Blob(b"page", "image/png")]) for _ in range(10)))
            return [*replies, await model.call(["Hello", Blob(b"page", "image/png")])]

    replies = asyncio.run(go())
    assert len(parrot.asked) == 1
    assert {reply.text for reply in replies} == {"Hello"}
    assert sorted(reply.source for reply in replies) == ["call"] + ["duplicate"] * 10
    assert sum(reply.cost or 0 for reply in replies) == 0.25


@pytest.mark.parametrize(
    "other",
    [
        (["Hello "], None, Ask()),
        (["Hello"], {"type": "object"}, Ask()),
        (["Hello"], None, Ask(system="Be brief.")),
        (["Hello"], None, Ask(temperature=0.5)),
        ([Blob(b"Hello", "text/plain")], None, Ask()),
        (["Hel", "lo"], None, Ask()),
    ],
)
def test_any_difference_is_another_question(other: tuple[Sequence[Part], Schema | None, Ask]) -> None:
    """Content, schema and options count; the attempt's number and its hint do not."""
    parrot = Parrot()
    plain = memo_key(parrot, ["Hello"], None, Ask())
    assert memo_key(parrot, *other) != plain
    assert memo_key(parrot, ["Hello"], None, Ask(attempt=3, hint={"split": 2}, deadline=5)) == plain


@pytest.fixture
def owner(url: str) -> Iterator[Owner]:
    with owning(url) as one:
        one.insert(1)
        yield one


def test_a_retry_resumes_where_it_was_paid(url: str, owner: Owner) -> None:
    """A job that fails after its first page reads only the second one next time; the register has both costs."""
    parrot = Parrot()
    model, queue, sources = GatedModel(parrot), jobs_queue(uses="parrot"), list[str]()

    @queue.handler
    async def read(job: Job) -> None:
        sources.append((await model.call(["page 1"])).source)
        if job.attempt == 1:
            raise OSError("the disk is full")
        sources.append((await model.call(["page 2"])).source)

    with working(make_worker(url, queue, gates={"parrot": FAST})):
        eventually(lambda: owner.status(1) == "done")
    assert sources == ["call", "resume", "call"]
    assert [parts[0] for parts, _, _ in parrot.asked] == ["page 1", "page 2"]
    assert [row["cost"] for row in owner("SELECT cost FROM tabellion_attempts ORDER BY n")] == [0.25, 0.25]


def test_a_plain_function_calls_a_model_in_its_own_loop(url: str, owner: Owner) -> None:
    """Its thread knows the job: the call passes the gate, and the attempt is charged."""
    model, queue = GatedModel(Parrot()), jobs_queue(uses="parrot", max_attempts=1)

    @queue.handler
    def read(job: Job) -> None:
        asyncio.run(model.call(["page 1"]))

    with working(make_worker(url, queue, gates={"parrot": FAST})):
        eventually(lambda: owner.status(1) in ("done", "failed"))
    assert owner.status(1) == "done"
    assert [row["cost"] for row in owner("SELECT cost FROM tabellion_attempts")] == [0.25]


def test_a_bad_answer_is_kept_as_evidence_and_retried_differently(url: str, owner: Owner) -> None:
    """A truncated answer is retried in parts; it is paid for, kept raw, and never a result."""
    schema = {"type": "object", "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}}}

    def answer(_parts: Sequence[Part], wanted: Schema | None, _ask: Ask) -> Reply:
        assert wanted is not None
        if len(wanted["properties"]) > 1:
            raise BadOutput("cut off", "truncated", raw='{"vendor": "Ac', cost=0.5, hint={"split": 2})
        name = next(iter(wanted["properties"]))
        return Reply(text="{}", object={name: {"vendor": "Acme", "total": 5}[name]}, cost=0.1)

    parrot = Parrot(answer)
    model, queue, objects = GatedModel(parrot), jobs_queue(uses="parrot"), list[object]()
    memos: dict[int, list[dict[str, object]]] = {}  # before each attempt

    @queue.handler
    async def read(job: Job) -> None:
        async with Store(url) as store:
            memos[job.attempt] = await store.database.fetch("SELECT raw, reply FROM tabellion_memos")
        objects.append((await model.call(["page"], schema)).object)

    with working(make_worker(url, queue, gates={"parrot": FAST})):
        eventually(lambda: owner.status(1) == "done")
    assert objects == [{"vendor": "Acme", "total": 5}]
    assert len(parrot.asked) == 3
    costs = [row["cost"] for row in owner("SELECT cost FROM tabellion_attempts ORDER BY n")]
    assert costs == [0.5, pytest.approx(0.2)]
    assert {n: [dict(memo) for memo in found] for n, found in memos.items()} == {
        1: [],
        2: [{"raw": '{"vendor": "Ac', "reply": None}],
    }


@pytest.mark.parametrize(
    ("error", "expected", "failures", "refusals"),
    [
        (Throttled("too many", hint=3.0), Throttled, 0, 1),
        (Unavailable("503"), Unavailable, 1, 0),
        (Rejected("bad request"), Permanent, 0, 0),
        (BadOutput("rubbish", "json", raw="x"), BadOutput, 0, 0),
    ],
)
@asynchronous
async def test_each_problem_is_reported_to_the_gate(
    url: str, error: Exception, expected: type[Exception], failures: int, refusals: int
) -> None:
    """Refusals and failures are, errors of the request itself are not."""
    async with OpenContext(Environment("prod", url), {"parrot": FAST}) as context:
        with pytest.raises(expected):
            await GatedModel(Parrot(raises(error)), context=context).call(["Hello"])
    state = await state_of(url)
    assert (state.failures, state.refusals) == (failures, refusals)  # type: ignore[attr-defined]


def test_a_rejected_key_closes_the_gate(url: str) -> None:
    """The first rejection closes it: the next call is not made."""
    parrot = Parrot(raises(KeyRefused("parrot does not accept the key")))

    async def go() -> None:
        async with OpenContext(Environment("prod", url), {"parrot": FAST}) as context:
            model = GatedModel(parrot, context=context, memo=False)
            with pytest.raises(KeyRefused):
                await model.call(["Hello"])
            with pytest.raises(GateClosed, match="does not accept the key"):
                await model.call(["Hello"])

    asyncio.run(go())
    assert len(parrot.asked) == 1


def test_an_outage_costs_no_attempt_once_the_gate_is_closed(url: str) -> None:
    """The call whose failure closes the gate ends as a closed gate, which spends nothing."""
    parrot = Parrot(raises(Unavailable("parrot said 503")))

    async def go() -> list[str]:
        async with OpenContext(Environment("prod", url), {"parrot": FAST}) as context:
            model = GatedModel(parrot, context=context, memo=False)
            names = []
            for _ in range(6):
                try:
                    await model.call(["Hello"])
                except (Unavailable, GateClosed) as error:
                    names.append(type(error).__name__)
            return names

    assert asyncio.run(go()) == ["Unavailable"] * 4 + ["GateClosed"] * 2
    assert len(parrot.asked) == 5


def test_outside_a_worker_it_says_what_it_needs() -> None:
    """A call with no job and no context names what to use."""
    with pytest.raises(ConfigurationError, match="OpenContext"):
        asyncio.run(GatedModel(Parrot()).call(["Hello"]))
