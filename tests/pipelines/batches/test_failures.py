"""Failed refs by their error: everything that the progress of a batch counts as failed has a reason."""

from __future__ import annotations

from pathlib import Path

from tabellion.engine.store import Store
from tabellion.models.errors import Rejected
from tabellion.pipelines.batches import failures, lookup
from tests.pipelines.batches.material import Images, Reader, chunk_of, rows, settings_in, stage, submit, work
from tests.workers import ask


def test_refs_of_failed_chunks_and_entities_are_grouped_too(url: str, tmp_path: Path, images: Images) -> None:
    """By the error of the ref, of its entity, or of its chunk; the groups add up to the progress."""
    settings = settings_in(tmp_path, Reader(Rejected("blurred"), Rejected("blurred")))
    too_many = chunk_of(images.url, images.url, chunk="0", pis=1, refs=3)
    other_tip = chunk_of(images.url, images.url, chunk="1", pis=2, refs=2, first=1)
    fine = chunk_of(images.url, images.url, chunk="2", pis=1, refs=2, first=5)
    for request in (too_many, other_tip, fine):
        stage(settings, request["pis"])
        submit(url, settings, request)
        if request is other_tip:
            rows(url, "INSERT INTO batch_entities (pi, tip, version) VALUES ('pi1', 'moved', 4)")
        work(url, settings, deliver=False)

    async def read(store: Store) -> tuple[list[failures.RefError], lookup.Batch | None]:
        return await failures.failed_refs(store, "b1"), await lookup.get_batch(store, "b1")

    found, batch = ask(url, read)
    assert batch is not None
    assert batch["progress"]["failed"] == sum(one["refs"] for one in found) == 5
    by_error = {one["error"].partition(":")[0]: one for one in found}
    [blurred] = [one for one in found if "blurred" in one["error"]]
    assert blurred["refs"] == 2
    assert by_error["too many refs failed"]["refs"] == 1
    [unknown] = [one for one in found if "moved" in one["error"]]
    assert (unknown["refs"], {one["pi"] for one in unknown["examples"]}) == (2, {"pi1"})


def test_errors_with_the_same_code_are_one(url: str, tmp_path: Path, images: Images) -> None:
    """However their texts differ; a text that an earlier version has stored without its code is counted with it."""
    settings = settings_in(tmp_path)
    request = chunk_of(images.url, images.url, pis=3, refs=2)
    stage(settings, request["pis"])
    submit(url, settings, request)
    for pi, known in (("pi0", "alpha"), ("pi1", "omega"), ("pi2", "omega")):
        rows(url, "INSERT INTO batch_entities (pi, tip, version) VALUES ($1, $2, 4)", pi, known)
    work(url, settings, deliver=False)
    rows(url, "UPDATE batch_pis SET error_code = NULL, error_params = NULL, entity_error = $1 WHERE pi = 'pi2'",
         rows(url, "SELECT entity_error FROM batch_pis WHERE pi = 'pi1'")[0]["entity_error"])  # fmt: skip
    [error] = ask(url, lambda store: failures.failed_refs(store, "b1"))
    assert error["refs"] == 6
    assert error["translatable"]["error"]["code"] == "batch.tip_unknown"
    assert {one["pi"] for one in error["examples"]} == {"pi0", "pi1", "pi2"}
