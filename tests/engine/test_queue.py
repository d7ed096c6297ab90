"""A queue: a table and four states of its rows."""

from __future__ import annotations

import enum
import itertools
from typing import Any

import pytest

from tabellion import DeclarationError, Job, Queue
from tabellion.engine.queue import MAX_ATTEMPTS, check_together, disjoint, format_state, same
from tests.engine.made_tables import STATES


def problems(error: pytest.ExceptionInfo[DeclarationError]) -> list[str]:
    """What is wrong, without the fixes."""
    return [problem.what for problem in error.value.problems]


def extraction_queue(name: str, **states: Any) -> Queue:
    """A queue on the table of seeds 000 and 001."""
    return Queue("extraction_queue", name=name, status="status_id", **states)


def test_a_bare_value_means_the_status_column() -> None:
    """`ready="new"` is `{"status": "new"}`, and `status=` names another column."""
    queue = Queue("tasks", **STATES)
    assert queue.states["ready"] == {"status": "new"}
    assert queue.name == "tasks"
    assert extraction_queue("e", ready=1, running=2, done=3, failed=4).states["done"] == {"status_id": 3}


def test_later_states_list_only_what_changes() -> None:
    """Columns set by `ready` keep their value in a state that does not mention them."""
    queue = Queue(
        "search_sessions",
        ready={"status": "pending_company_selection", "req_completed": False},
        running="scraping_company_data",
        done={"status": "pending_name_selection", "req_completed": True},
        failed="failed",
    )
    assert queue.states["running"] == {"status": "scraping_company_data", "req_completed": False}
    assert queue.states["done"] == {"status": "pending_name_selection", "req_completed": True}
    assert queue.states["failed"] == {"status": "failed", "req_completed": False}
    assert queue.changes["running"] == {"status": "scraping_company_data"}


def test_enum_members_stand_for_their_values() -> None:
    """States may be written with the owner's own Enum."""

    class Status(enum.Enum):
        NEW, WORKING, DONE, FAILED = range(1, 5)

    members: dict[str, Any] = dict(zip(STATES, Status, strict=True))
    queue = Queue("tasks", **members)
    assert queue.states["failed"] == {"status": 4}


def test_the_defaults_are_those_of_the_seeds() -> None:
    """Four attempts in all: the first and three retries."""
    assert MAX_ATTEMPTS == 4
    assert Queue("tasks", **STATES).bounds({}) == 4


@pytest.mark.parametrize(("value", "bound"), [(7, 7), (None, 4), (1, 1)])
def test_a_column_may_hold_max_attempts(value: int | None, bound: int) -> None:
    """`max_attempts="column"` reads each row's own number; an empty one means the default."""
    assert Queue("tasks", **STATES, max_attempts="most").bounds({"most": value}) == bound


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"running": "new"}, "ready and running match the same rows: both are status = 'new'"),
        ({"done": "working"}, "running and done match the same rows"),
        ({"failed": "done"}, "done and failed match the same rows"),
        ({"ready": {}}, "ready has no column"),
        ({"ready": ["new"]}, "not a number, text, boolean or None"),
        ({"ready": b"new"}, "not a number, text, boolean or None"),
        ({"running": {"busy": True}}, "ready and running match the same rows"),
    ],
)
def test_ambiguous_states_are_rejected(states: dict[str, Any], message: str) -> None:
    """A row may be in one state at most, and every state must be a column's value."""
    with pytest.raises(DeclarationError) as caught:
        Queue("tasks", **(STATES | states))
    assert any(message in problem for problem in problems(caught)), problems(caught)


def test_a_text_with_a_nul_is_not_a_state() -> None:
    """No database stores a NUL in a text, so the declaration is rejected at once."""
    with pytest.raises(DeclarationError, match="NUL"):
        Queue("tasks", **(STATES | {"ready": "ne\x00w"}))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_are_not_states(value: float) -> None:
    """A state is compared for equality; NaN equals nothing and infinity has no literal."""
    with pytest.raises(DeclarationError):
        Queue("tasks", **(STATES | {"ready": value}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worker": "status"}, "worker='status' is also a state's column"),
        ({"worker": "note", "error": "note"}, "two mirrors write 'note'"),
        ({"order": "priority + 1"}, "order='priority + 1' is not a list of columns"),
        ({"order": "id; DROP TABLE tasks"}, "is not a list of columns"),
        ({"stale_after": 60}, "stale_after= requires the time at which a row was started"),
        ({"lease": 0}, "lease=0 must be above zero"),
        ({"timeout": -1}, "timeout=-1 must be above zero"),
        ({"max_attempts": 0}, "max_attempts=0 must be above zero"),
        ({"retry_base": 0}, "retry_base=0 must be above zero"),
        ({"waits": (5, 0)}, "waits=0 must be above zero"),
        ({"concurrency": 0}, "concurrency=0 must be above zero"),
        ({"limit": 0}, "limit=0 must be above zero"),
        ({"share": 0}, "share=0 must be above zero"),
        ({"deadline": 0}, "deadline=0 must be above zero"),
        ({"name": "a,b"}, "the name 'a,b' has a comma or a control character"),
        ({"name": "a\nb"}, "has a comma or a control character"),
    ],
)
def test_invalid_settings_are_rejected(options: dict[str, Any], message: str) -> None:
    """A wrong setting fails when it is declared, not when it is used."""
    with pytest.raises(DeclarationError) as caught:
        Queue("tasks", **STATES, **options)
    assert any(message in problem for problem in problems(caught)), problems(caught)


def test_every_problem_is_listed_at_once_with_its_fix() -> None:
    """One error lists all problems, each with what to do."""
    with pytest.raises(DeclarationError) as caught:
        Queue("tasks", ready=1, running=1, done=2, failed=3, lease=-1, worker="status", stale_after=3, order="a b c")
    assert len(caught.value.problems) == 5
    assert all(problem.fix for problem in caught.value.problems)
    text = str(caught.value)
    assert text.startswith("queue 'tasks' cannot work as declared (5 problems):")
    assert all(f"{number}. " in text for number in range(1, 6))
    assert text.count("fix: ") == 5


@pytest.mark.parametrize(
    ("order", "parsed"),
    [
        (None, None),
        ("priority DESC, created_at", (("priority", True), ("created_at", False))),
        (("priority desc", "created_at ASC"), (("priority", True), ("created_at", False))),
        ('"odd name" DESC', (("odd name", True),)),
    ],
)
def test_order_is_columns_with_directions(order: Any, parsed: Any) -> None:
    """Text or a sequence; quoted names keep their spaces."""
    assert Queue("tasks", **STATES, order=order).order == parsed


def test_a_queue_has_one_handler() -> None:
    """A second function is refused; the same one again is not."""
    queue = Queue("tasks", **STATES)

    @queue.handler
    def work(job: Job) -> None:
        """Does nothing."""

    assert queue.handler(work) is work
    with pytest.raises(DeclarationError, match="it already has a handler"):
        queue.handler(lambda job: None)


def test_it_knows_whether_its_handler_is_async() -> None:
    """`async def` runs on the loop, `def` in a thread."""
    one, other = Queue("tasks", **STATES), Queue("tasks", **STATES)

    @one.handler
    async def on_the_loop(job: Job) -> None:
        """Does nothing."""

    @other.handler
    def in_a_thread(job: Job) -> None:
        """Does nothing."""

    assert one.is_async
    assert not other.is_async


def test_columns_are_all_those_the_declaration_names() -> None:
    """States, mirrors, order, key and the attempts column."""
    queue = Queue("t", **STATES, key="code", worker="who", order="rank DESC", max_attempts="most")
    assert queue.columns() == {"status", "code", "who", "rank", "most"}


def test_two_queues_on_one_table() -> None:
    """Seed 001: the done state of extraction is the ready state of OCR."""
    extraction = extraction_queue("extraction", ready=1, running=2, done=3, failed=4)
    ocr = extraction_queue("ocr", ready=3, running=6, done=5, failed=4)
    check_together([extraction, ocr])
    assert extraction.leads_to(ocr)
    assert not ocr.leads_to(extraction)


def test_the_numbering_of_seed_000_is_rejected() -> None:
    """4 is both OCR_PROCESSING and ERREUR: the error names both meanings."""
    extraction = extraction_queue("extraction", ready=1, running=2, done=3, failed=4)
    ocr = extraction_queue("ocr", ready=3, running=4, done=5, failed=7)
    with pytest.raises(DeclarationError) as caught:
        check_together([extraction, ocr])
    assert any("status_id = 4 means ocr.running and extraction.failed" in message for message in problems(caught))
    with pytest.raises(DeclarationError, match="running and failed match the same rows: both are status_id = 4"):
        extraction_queue("ocr", ready=3, running=4, done=5, failed=4)


def test_the_three_phases_of_seed_002() -> None:
    """A boolean beside the status: three queues, each starting where the one before ends."""
    names = ["not-started", "prompt-forming", "model-analysis", "completed"]
    phases = [
        Queue(
            "jobs",
            name=start,
            ready={"status": start, "inProgress": False},
            running={"inProgress": True},
            done={"status": following, "inProgress": False},
            failed={"status": "failed", "inProgress": False},
        )
        for start, following in itertools.pairwise(names)
    ]
    check_together(phases)
    assert phases[0].leads_to(phases[1])
    assert phases[1].leads_to(phases[2])
    assert not phases[0].leads_to(phases[2])


def test_two_queues_cannot_have_one_name() -> None:
    """The register identifies queues by name."""
    with pytest.raises(DeclarationError, match="two queues are named 'tasks'"):
        check_together([Queue("tasks", **STATES), Queue("other", name="tasks", **STATES)])


def test_two_queues_cannot_claim_the_same_rows() -> None:
    """The same ready state twice is rejected unless `where=` separates the rows."""
    one = Queue("tasks", name="one", **STATES)
    other = Queue("tasks", name="other", ready="new", running="w2", done="d2", failed="f2")
    with pytest.raises(DeclarationError, match=r"one\.ready and other\.ready match the same rows"):
        check_together([one, other])
    apart = Queue("tasks", name="apart", where="kind = 'b'", ready="new", running="w2", done="d2", failed="f2")
    check_together([one, apart])


def test_the_same_value_in_another_table_is_not_a_collision() -> None:
    """Tables are independent."""
    check_together([Queue("one", **STATES), Queue("other", **STATES)])


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ({"a": 1}, {"a": 2}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"b": 2}, False),
        ({"a": None}, {"a": 0}, True),
        ({"a": None}, {"a": None}, False),
        ({"a": 1}, {"a": "1"}, True),
        ({"a": True}, {"a": 1}, False),
    ],
)
def test_states_are_disjoint_when_a_column_differs(one: Any, other: Any, apart: bool) -> None:
    """No row can be in both states exactly when some column has two values."""
    assert disjoint(one, other) == disjoint(other, one) == apart


def test_equality_follows_the_database() -> None:
    """Text is never a number; true is 1, as in databases."""
    assert same(1, True)
    assert not same("1", 1)
    assert same(None, None)


def test_a_state_is_shown_in_sql() -> None:
    """Booleans and null are written as in SQL."""
    assert format_state({"a": 4, "b": True, "c": None, "d": "x"}) == "a = 4 and b = true and c = null and d = 'x'"
