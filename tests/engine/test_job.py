"""A job: one row, claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabellion import Job, LeaseLost, Queue


def make(name: str = "tasks", **values: Any) -> Job:
    """Return a job that is in no database."""
    queue = Queue("tasks", name=name, ready="new", running="working", done="done", failed="failed")
    return Job(queue, 7, "7", values, n=3, token="t", attempt=2, worker="w1")


def test_columns_are_items_and_facts_are_attributes() -> None:
    """A column with the same name as an attribute of the claim hides neither."""
    job = make(url="https://example.org", attempt="column", token=None)
    assert (job["url"], job["attempt"], job["token"]) == ("https://example.org", "column", None)
    assert (job.key, job.n, job.attempt, job.token) == (7, 3, 2, "t")
    assert job.get("url") == "https://example.org"
    assert job.get("nowhere", "default") == "default"
    with pytest.raises(KeyError):
        job["nowhere"]


def test_its_text_names_the_job() -> None:
    """Logs and errors name the queue, the key and the attempt."""
    assert repr(make()) == "<Job tasks/7 attempt 2>"


@pytest.mark.parametrize("name", ["tasks", "team/tasks", "../tasks", 'a "quoted" näme'])
def test_each_job_has_a_folder_of_its_own(tmp_path: Path, name: str) -> None:
    """The folder is created on first use inside the worker's, whatever the queue's name, and removed at the end."""
    one, other = make(name), make(name)
    one.root = other.root = tmp_path
    assert list(tmp_path.iterdir()) == []
    assert one.folder == one.folder != other.folder
    assert one.folder.parent == other.folder.parent == tmp_path
    (one.folder / "page.png").write_bytes(b"x")
    one.close()
    other.close()
    assert list(tmp_path.iterdir()) == []
    one.close()


def test_a_note_is_passed_on() -> None:
    """The callback receives each note."""
    job, notes = make(), []
    job._on_note = lambda job_noted: notes.append(job_noted._note)
    job.note("page 1")
    job.note("page 2")
    assert notes == ["page 1", "page 2"]


def test_a_note_on_a_lost_claim_stops_the_handler() -> None:
    """A handler that reports progress learns that its claim is gone."""
    job = make()
    job.lost = True
    with pytest.raises(LeaseLost, match="tasks/7"):
        job.note("page 3")


def test_extra_statements_are_kept_in_order() -> None:
    """Statements attached with `also` are committed in that order."""
    job = make()
    job.also("INSERT INTO pages (n) VALUES (:n)", n=1)
    job.also("DELETE FROM drafts")
    assert job._also == [("INSERT INTO pages (n) VALUES (:n)", {"n": 1}), ("DELETE FROM drafts", {})]
