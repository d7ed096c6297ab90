"""The codes of stored errors: of refs, entities, chunks and callbacks, for pages in another language."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tabellion.engine.store import Store
from tabellion.messages import Message, translate
from tabellion.models.errors import Rejected
from tabellion.pipelines.batches import changes, failures, lookup
from tabellion.pipelines.batches.error_forms import kind, restore_error, split_error
from tests.pipelines.batches.material import Images, Reader, chunk_of, rows, settings_in, submit, submit_new, work
from tests.workers import ask

REGISTER = "tabellion_attempts"


def forget_attempts(url: str) -> None:
    """Prune the register, which keeps attempts for a shorter time than batches."""
    rows(url, f"DELETE FROM {REGISTER}")


def errors_of(url: str) -> list[failures.RefError]:
    """Return the errors of the batch."""
    return ask(url, lambda store: failures.failed_refs(store, "b1"))


def chunk_in(url: str) -> lookup.Chunk:
    """Return the only chunk."""
    [chunk], _ = ask(url, lambda store: lookup.list_chunks(store, "b1"))
    return chunk


def in_french(form: dict[str, object]) -> str:
    """Return the sentence of a form."""
    message = Message.from_stored("", form)
    assert isinstance(message, Message)
    return translate("fr", message.code, **message.params)


def test_errors_of_refs_chunks_and_callbacks_have_codes(tmp_path: Path, url: str, images: Images) -> None:
    """A missing image, too many of them, and a receiver that is not there; the codes of rows outlive the register."""
    settings = settings_in(tmp_path)
    images.answers |= {f"/asset/0-0{variant}": [(404, b"")] for variant in ("", "/medium")}
    submit_new(url, settings, images.url, "http://127.0.0.1:9/callback", pis=1, refs=1)
    work(url, settings)
    chunk = chunk_in(url)
    assert chunk["callback"] is not None
    assert chunk["callback"]["status"] == "failed"
    assert "could not be reached" in (chunk["callback"]["error"] or "")
    assert chunk["callback"]["translatable"]["error"]["code"] == "delivery.unreachable"
    forget_attempts(url)
    [error] = errors_of(url)
    assert error["error"] == "there is no image at its URL"
    assert error["translatable"]["error"]["code"] == "batch.image_gone"
    chunk = chunk_in(url)
    assert chunk["error"] == "too many refs failed: 1 of 1"
    assert in_french(chunk["translatable"]["error"]) == "trop de références ont échoué\N{NO-BREAK SPACE}: 1 sur 1"


def test_the_error_of_an_entity_has_a_code(tmp_path: Path, url: str, images: Images) -> None:
    """With its refs, and as that of a chunk of which no other entity was published. A retry removes it."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, "http://127.0.0.1:9/callback", pis=1, refs=2)
    rows(url, "INSERT INTO batch_entities (pi, tip, version) VALUES ('pi0', 'moved', 4)")
    work(url, settings, deliver=False)
    [error], chunk = errors_of(url), chunk_in(url)
    french = "la version tip0 est inconnue ici, et son contenu ne dit pas qu’elle est plus récente que moved"
    assert error["refs"] == 2
    assert in_french(error["translatable"]["error"]) == french
    assert (chunk["phase"], chunk["error"], chunk["pi_error"]) == ("ERROR", error["error"], error["error"])
    assert {name: in_french(form) for name, form in chunk["translatable"].items()} == {
        "error": french, "pi_error": french
    }  # fmt: skip

    async def status(store: Store) -> lookup.ChunkProgress | None:
        return await lookup.chunk_status(store, "b1", "0")

    shown = ask(url, status)
    assert shown is not None
    assert shown["error"] == error["error"]
    assert ask(url, lambda store: changes.retry_failed(store, "b1")) == 1
    assert "translatable" not in chunk_in(url)
    stored = rows(
        url, "SELECT error_code FROM batch_pis UNION ALL SELECT error_code FROM batch_refs WHERE status = 'error'"
    )
    assert [one["error_code"] for one in stored] == [None]


def test_a_chunk_has_the_code_of_its_first_failed_ref(tmp_path: Path, url: str, images: Images) -> None:
    """If none of its refs was read, and no share of failed refs is too large."""
    settings = settings_in(tmp_path, Reader(always=Rejected("blurred")), most_failed=1.0)
    submit_new(url, settings, images.url, "http://127.0.0.1:9/callback", pis=1, refs=2)
    work(url, settings, deliver=False)
    forget_attempts(url)
    chunk = chunk_in(url)
    assert chunk["error"] is not None
    assert in_french(chunk["translatable"]["error"]).startswith("le modèle refuse l’image")


def test_the_error_of_a_file_that_is_gone_has_a_code(tmp_path: Path, url: str, images: Images) -> None:
    """It was found while publishing: no attempt has it."""
    settings = settings_in(tmp_path)
    submit_new(url, settings, images.url, "http://127.0.0.1:9/callback", pis=1)
    rows(url, "UPDATE batch_refs SET status = 'done', loaded = TRUE WHERE filename = '0-0.png.ref.json'")
    asyncio.run(settings.staging.lake.delete("refs/0-0.png.ref.json"))
    work(url, settings, deliver=False)
    [error] = errors_of(url)
    assert error["refs"] == 1
    assert error["translatable"]["error"] == {
        "code": "batch.staging_missing", "params": {"key": "refs/0-0.png.ref.json"}
    }  # fmt: skip


def test_a_chunk_that_ended_without_its_handler_has_the_code_of_its_attempt(
    tmp_path: Path, url: str, images: Images
) -> None:
    """Stored when its end is reported."""
    settings = settings_in(tmp_path)
    request = chunk_of(images.url, "http://127.0.0.1:9/callback", pis=1, refs=1)
    submit(url, settings, request)
    rows(url, "UPDATE batch_chunks SET phase = 'ERROR', fetching_error = 'timed out after 30 s'")
    rows(
        url,
        f"""INSERT INTO {REGISTER} (queue, key, n, token, attempt, crashes, deferrals, worker, first_at, claimed_at,
  lease_until, settled_at, outcome, error, error_code, error_params)
VALUES ('batch-fetching', 'ocr:b1:0', 1, $1, 1, 0, 0, 'w', {"now(), now(), now(), now()" if "postgres" in url else
  "1, 1, 1, 1"}, 'failed', 'timed out after 30 s', 'attempt.timed_out', $2)""",
        "00000000-0000-0000-0000-000000000001", '{"n": 30}',
    )  # fmt: skip
    expected = {"error": {"code": "attempt.timed_out", "params": {"n": 30}}}
    assert chunk_in(url)["translatable"] == expected
    work(url, settings, deliver=False)
    forget_attempts(url)
    assert chunk_in(url)["translatable"] == expected


def test_a_code_of_another_text_does_not_count() -> None:
    """The engine writes only texts: the code of an earlier error may still be beside a later one."""
    gone = Message("batch.image_gone")
    text, code, params = split_error(gone)
    restored = restore_error(text, code, params)
    assert isinstance(restored, Message)
    assert restored.form == gone.form
    assert type(restore_error("the disk is full", code, params)) is str
    nested = Message("attempt.deadline", detail=Message("waiting.configuration", detail="x"), n=60)
    restored = restore_error(*split_error(nested))
    assert isinstance(restored, Message)
    assert restored.form == nested.form


def test_rows_of_earlier_versions_are_read(tmp_path: Path, url: str, images: Images) -> None:
    """They have texts alone: with the code of their last attempt while the register has it, and without one after."""
    settings = settings_in(tmp_path, Reader(Rejected("blurred")))
    submit_new(url, settings, images.url, "http://127.0.0.1:9/callback", pis=1)
    work(url, settings, deliver=False)
    rows(url, "UPDATE batch_refs SET error_code = NULL, error_params = NULL")
    [error] = errors_of(url)
    assert error["translatable"]["error"]["code"] == "batch.image_rejected"
    forget_attempts(url)
    assert errors_of(url) == [{name: value for name, value in error.items() if name != "translatable"}]


def test_a_kind_is_a_code_with_the_codes_within_it() -> None:
    """Sentences of other systems count by their shape, other parameters not at all."""
    cut, blank = Message("batch.image_cut_off"), Message("batch.image_empty")
    unreadable = [Message("batch.image_unreadable", detail=detail) for detail in (cut, blank, "page 3", "page 4")]
    kinds = [kind(text, text.form) for text in unreadable]
    assert len(set(kinds)) == 3
    assert kinds[2] == kinds[3]
    tips = [Message("batch.tip_unknown", tip=tip, known="x") for tip in ("alpha", "omega")]
    assert len({kind(text, text.form) for text in tips}) == 1
    assert kind("page 3 of a", None) == kind("page 14 of a", None)
