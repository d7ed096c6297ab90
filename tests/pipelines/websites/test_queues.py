"""The queues: three phases that meet, `inProgress` in every state, later phases first."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tabellion.engine.queue import check_together
from tabellion.pipelines.websites.queues import phase_queue, website_queues
from tabellion.pipelines.websites.states import PHASES
from tests.pipelines.websites.sites import settings_in


def test_the_end_of_a_phase_is_the_beginning_of_the_next(tmp_path: Path) -> None:
    """The statuses of the seed, in their order."""
    queues = [phase_queue(settings_in(tmp_path), phase) for phase in PHASES]
    assert [queue.states["ready"]["status"] for queue in queues] == ["not-started", "prompt-forming", "model-analysis"]
    assert queues[-1].states["done"]["status"] == "completed"
    for queue, following in pairwise(queues):
        assert queue.states["done"] == following.states["ready"]
        assert queue.leads_to(following)


def test_a_claim_is_the_lock(tmp_path: Path) -> None:
    """`inProgress` is true in the running state and in no other."""
    for phase in PHASES:
        states = phase_queue(settings_in(tmp_path), phase).states
        assert {name: state["inProgress"] for name, state in states.items()} == {
            "ready": False, "running": True, "done": False, "failed": False,
        }  # fmt: skip


def test_later_phases_come_first(tmp_path: Path) -> None:
    """A website that is under way ends before another begins, and the queues can be worked together."""
    queues = website_queues(settings_in(tmp_path))
    assert [queue.name for queue in queues] == [
        "model-analysis",
        "website-models",
        "prompt-forming",
        "website-analysis",
    ]
    check_together(queues)


def test_queues_can_be_limited_to_some_jobs(tmp_path: Path) -> None:
    """As the command does; none means none."""
    for queue in website_queues(settings_in(tmp_path), only=["a'b"]):
        assert queue.where is not None
        assert "IN ('a''b')" in queue.where
    assert all("IN (NULL)" in (queue.where or "") for queue in website_queues(settings_in(tmp_path), only=[]))
