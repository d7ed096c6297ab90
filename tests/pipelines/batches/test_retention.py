"""Closed batches are removed after their time, whole chunks at a time; open ones never."""

from __future__ import annotations

from pathlib import Path

from tabellion.delivery import endpoints
from tabellion.engine.retention import PruneStep
from tabellion.engine.store import Store
from tabellion.pipelines.batches import changes
from tabellion.pipelines.batches.retention import ClosedBatches
from tests.pipelines.batches.material import Images, chunk_of, rows, settings_in, stage, submit, submit_new, work
from tests.pipelines.documents.receiver import Receiver
from tests.workers import ask

TABLES = ("batches", "batch_chunks", "batch_pis", "batch_refs")


async def prune(store: Store, keep: float) -> int:
    """Take steps until there is nothing left to remove."""
    rule, removed, step = ClosedBatches(keep), 0, PruneStep("")
    while step.position is not None:
        step = await rule.step(store, step.position)
        removed += step.removed
    return removed


def test_a_closed_batch_is_removed_and_its_versions_stay(url: str, tmp_path: Path, images: Images) -> None:
    """An open one, and one that was closed a moment ago, are left alone."""
    settings = settings_in(tmp_path)
    for batch in ("old", "open"):
        submit_new(url, settings, images.url, images.url, batch=batch)
    work(url, settings, deliver=False)
    assert ask(url, lambda store: changes.close(store, "old"))
    assert ask(url, lambda store: prune(store, 3600.0)) == 0
    assert ask(url, lambda store: ClosedBatches(-1.0).step(store, None, dry_run=True)).removed == 1
    assert ask(url, lambda store: prune(store, -1.0)) == 1
    left = {table: rows(url, f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in TABLES}
    assert left == {"batches": 1, "batch_chunks": 1, "batch_pis": 2, "batch_refs": 6}
    assert [row["batch_id"] for row in rows(url, "SELECT batch_id FROM batch_chunks")] == ["open"]
    assert len(rows(url, "SELECT * FROM batch_versions WHERE chunk = 'ocr:old:0'")) == 2
    assert len(rows(url, "SELECT * FROM batch_entities")) == 2


def test_callbacks_about_batches_of_others_are_removed(url: str, tmp_path: Path, images: Images) -> None:
    """After the same time; those about a batch that is here stay with it."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, images.url, batch="ours")
    for number, batch in enumerate(("ours", "theirs", "theirs")):
        rows(
            url,
            f"""INSERT INTO batch_callbacks (id, batch_id, chunk_id, status, body)
VALUES ('msg_{number}', '{batch}', '{number}', 'success', '{{}}')""",
        )
    assert ask(url, lambda store: prune(store, 3600.0)) == 0
    assert ask(url, lambda store: ClosedBatches(-1.0).step(store, None, dry_run=True)).removed == 2
    assert ask(url, lambda store: prune(store, -1.0)) == 2
    assert rows(url, "SELECT id FROM batch_callbacks") == [{"id": "msg_0"}]


def test_a_closed_batch_that_is_started_again_is_not_removed(url: str, tmp_path: Path, images: Images) -> None:
    """Also one whose chunks come one by one: nobody has said that it is complete, so its status never changes."""
    images.answers |= {path: [(404, b"")] for path in ("/asset/0-0", "/asset/0-0/medium")}
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, images.url, pis=1)
    work(url, settings, deliver=False)
    assert ask(url, lambda store: changes.close(store, "b1"))
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    assert rows(url, "SELECT closed_at FROM batches") == [{"closed_at": None}]
    rows(url, "UPDATE batches SET closed_at = created_at")  # closed while its chunk was started again
    assert ask(url, lambda store: prune(store, -1.0)) == 0
    assert len(rows(url, "SELECT id FROM batch_refs")) == 3


def test_a_batch_that_was_removed_can_be_sent_again(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """It is another run of its chunk: what it reads is published, and its callback has an id of its own."""
    settings = settings_in(tmp_path)
    request = chunk_of(images.url, receiver.url, pis=1)
    for note in ("first", "second"):
        stage(settings, request["pis"], note=note)
        assert submit(url, settings, request)
        work(url, settings)
        assert ask(url, lambda store: changes.close(store, "b1"))
        assert ask(url, lambda store: prune(store, -1.0)) == 1
    versions = rows(url, "SELECT version, run, tip, previous FROM batch_versions ORDER BY version")
    assert [(one["version"], one["run"]) for one in versions] == [(1, 1), (2, 2)]
    assert versions[1]["previous"] == versions[0]["tip"]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 2


def test_the_endpoint_of_a_removed_batch_is_removed_too(
    url: str, tmp_path: Path, images: Images, receiver: Receiver
) -> None:
    """When its deliveries are gone; those of batches that are here, and endpoints that people have added, stay."""
    settings = settings_in(tmp_path)
    for batch in ("old", "open"):
        submit_new(url, settings, images.url, f"{receiver.url}/callback/{batch}/ocr", batch=batch)
    work(url, settings)
    own = ask(url, lambda store: endpoints.add(store, receiver.url))
    ask(url, lambda store: changes.close(store, "old"))

    def urls() -> set[str]:
        found = rows(url, "SELECT url FROM tabellion_webhook_endpoints")
        return {row["url"].removeprefix(receiver.url) for row in found}

    assert ask(url, lambda store: prune(store, -1.0)) == 1
    assert urls() == {"", "/callback/old/ocr", "/callback/open/ocr"}
    rows(url, "DELETE FROM tabellion_webhook_deliveries")
    ask(url, lambda store: prune(store, 3600.0))
    assert len(urls()) == 3
    ask(url, lambda store: prune(store, -1.0))
    assert urls() == {"", "/callback/open/ocr"}
    assert [one["id"] for one in ask(url, endpoints.list_endpoints)][-1] == own.id
