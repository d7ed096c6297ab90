"""The queues that can be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.errors import ConfigurationError
from tabellion.monitor.declared import document_queues, together
from tests.engine.tables import tasks_queue
from tests.pipelines.documents.papers import settings_in


def test_the_document_service_has_a_queue_for_each_model(tmp_path: Path) -> None:
    """And those of review, duplicates, failures and webhooks."""
    names = [queue.name for queue in document_queues(settings_in(tmp_path, models={"gemini": "gate"}))]
    assert names[:3] == ["documents", "documents_gemini", "review"]
    assert {"followers", "failures", "webhooks"} < set(names)


def test_two_queues_of_one_name_are_refused() -> None:
    """Whoever asks for one would get the other."""
    queue = tasks_queue()
    assert together([queue], [queue]) == [queue]
    with pytest.raises(ConfigurationError, match="two queues are named 'tasks'"):
        together([queue], [tasks_queue()])
