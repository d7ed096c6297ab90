"""Queues as shown to people."""

from __future__ import annotations

import pytest

from tabellion.errors import ConfigurationError
from tabellion.monitor.view import QueueView, merge_views
from tests.engine.made_tables import tasks_queue


def test_states_are_as_declared_where_there_is_one_ending() -> None:
    """In SQL and in words."""
    view = QueueView(tasks_queue())
    assert view.holds("done", "sqlite") == "t.\"status\" = 'done'"
    assert view.words("ready") == "status = 'new'"


def test_every_ending_counts_as_done() -> None:
    """And no other state is affected."""
    view = QueueView(tasks_queue(), endings=(tasks_queue(), tasks_queue(done="sent")))
    assert view.holds("done", "sqlite") == "((t.\"status\" = 'done') OR (t.\"status\" = 'sent'))"
    assert view.words("done") == "status = 'done' or status = 'sent'"
    assert view.words("ready") == "status = 'new'"


def test_two_queues_with_one_name_are_rejected() -> None:
    """A request for one would get the other."""
    view = QueueView(tasks_queue())
    assert merge_views([view], [view]) == [view]
    with pytest.raises(ConfigurationError, match="two queues are named 'tasks'"):
        merge_views([view], [QueueView(tasks_queue())])
