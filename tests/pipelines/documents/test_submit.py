"""One file, one original: however often, from however many processes at once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabellion.pipelines.documents.settings import Settings, Unknown
from tabellion.pipelines.documents.submit import AlreadyThere, FileGone, SubmittedDocument, clean_name, submit
from tests.pipelines.documents.papers import put, submit_bills, write_type
from tests.table_owner import owning
from tests.workers import ROOT, ask

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from tabellion import Store
from tabellion.pipelines.documents.submit import submit
from tabellion.storage.blobs import StoredBlob
from tests.pipelines.documents.papers import settings_in

async def main(url, folder, sha256, count):
    settings = settings_in(Path(folder))
    content = StoredBlob(sha256, 1, settings.blobs.path(sha256), "bill.pdf", "application/pdf")
    async with Store(url) as store:
        made = await asyncio.gather(*(submit(store, settings, content, type="invoice") for _ in range(count)))
    print(json.dumps([[one.id, one.status, one.duplicate_of] for one in made]))

asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
"""


def row(url: str, key: str) -> dict[str, Any]:
    with owning(url, create=False) as owner:
        return owner("SELECT * FROM tabellion_documents WHERE id = $1", key)[0]


def end(url: str, key: str, status: str) -> None:
    with owning(url, create=False) as owner:
        owner("UPDATE tabellion_documents SET status = $1 WHERE id = $2", status, key)


def test_the_first_upload_is_queued(url: str, settings: Settings) -> None:
    """The row has the hash of the bytes, the current type, the model and a unique key."""
    [one] = submit_bills(url, settings, 0, type="invoice", webhook="we_1")
    assert (one.status, one.duplicate_of) == ("queued", None)
    found = row(url, one.id)
    content = put(settings, 0)
    assert (found["sha256"], found["bytes"], found["name"]) == (content.sha256, content.bytes, "bill.pdf")
    assert (found["type"], found["type_key"]) == ("invoice", settings.types.get("invoice").key)
    assert (found["model"], found["webhook"], found["max_attempts"], found["version"]) == ("local", "we_1", 4, 1)
    assert found["blob"] == f"{content.sha256[:2]}/{content.sha256[2:4]}/{content.sha256}"
    assert found["created_at"] is not None


def test_fifty_concurrent_submissions_make_one_original(url: str, settings: Settings, tmp_path: Path) -> None:
    """From several processes: one is queued, 49 follow it; no process gets an error."""
    content = put(settings, 0)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), url, str(tmp_path), content.sha256, "10"]
    environ = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": ""}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, cwd=tmp_path) for _ in range(5)]
    body = [one for process in running for one in json.loads(process.communicate(timeout=60)[0])]
    originals = [key for key, _, duplicate_of in body if duplicate_of is None]
    assert len(body) == 50
    assert len(originals) == 1
    assert Counter(duplicate_of for _, _, duplicate_of in body if duplicate_of) == {originals[0]: 49}
    with owning(url, create=False) as owner:
        assert owner("SELECT document_id FROM tabellion_processed_documents")[0]["document_id"] == originals[0]
        chores = Counter(found["chore"] for found in owner("SELECT chore FROM tabellion_documents"))
    assert chores == {None: 1, "follow": 49}


def test_another_type_version_or_model_is_another_document(url: str, settings: Settings) -> None:
    """The same bytes with another request are not a duplicate."""
    rich = replace(settings, models={"gemini": "gemini"})
    write_type(rich, "slip")
    submitted = submit_bills(url, rich, 0, type="slip") + submit_bills(url, rich, 0, type="invoice")
    submitted += submit_bills(url, rich, 0, type="slip", model="gemini") + submit_bills(url, rich, 0)
    write_type(rich, "slip", "  tax: money\n")
    submitted += submit_bills(url, rich, 0, type="slip") + submit_bills(url, rich, 0)
    assert [one.duplicate_of for one in submitted] == [None] * 6
    again = submit_bills(url, rich, 0, type="slip") + submit_bills(url, rich, 0)
    assert [one.duplicate_of for one in again] == [submitted[4].id, submitted[5].id]


def test_a_completed_document_makes_the_next_a_duplicate_at_once(url: str, settings: Settings) -> None:
    """There is nothing to wait for."""
    [first] = submit_bills(url, settings, 0, type="invoice")
    end(url, first.id, "completed")
    [second] = submit_bills(url, settings, 0, type="invoice")
    assert second == SubmittedDocument(second.id, "duplicate", first.id)
    assert row(url, second.id)["completed_at"] is not None


def test_an_upload_after_a_failure_replaces_it(url: str, settings: Settings) -> None:
    """The key goes to the new upload, and later ones follow that."""
    [first] = submit_bills(url, settings, 0, type="invoice")
    end(url, first.id, "failed")
    second, third = submit_bills(url, settings, 0, 0, type="invoice")
    assert (second.status, second.duplicate_of) == ("queued", None)
    assert third.duplicate_of == second.id


def test_a_type_may_reject_duplicates(url: str, settings: Settings) -> None:
    """The error names the original, and nothing is stored."""
    write_type(settings, "slip", "idempotency: {policy: reject}\n")
    [first] = submit_bills(url, settings, 0, type="slip")
    with pytest.raises(AlreadyThere, match=first.id) as caught:
        submit_bills(url, settings, 0, type="slip")
    assert caught.value.original == first.id
    end(url, first.id, "failed")
    [second] = submit_bills(url, settings, 0, type="slip")
    assert second.status == "queued"
    with owning(url, create=False) as owner:
        assert owner("SELECT count(*) AS n FROM tabellion_documents")[0]["n"] == 2


def test_a_type_may_keep_every_upload(url: str, settings: Settings) -> None:
    """Each is a separate document."""
    write_type(settings, "slip", "idempotency: {policy: keep}\n")
    submitted = submit_bills(url, settings, 0, 0, type="slip")
    assert [(one.status, one.duplicate_of) for one in submitted] == [("queued", None)] * 2
    assert row(url, submitted[0].id)["created_at"] is not None


def test_a_result_may_expire(url: str, settings: Settings) -> None:
    """After the type's cache_ttl the same file is read again."""
    write_type(settings, "slip", "idempotency: {cache_ttl: 3600}\n")
    first, second = submit_bills(url, settings, 0, 0, type="slip")
    assert second.duplicate_of == first.id
    with owning(url, create=False) as owner:
        earlier = "created_at - 3601" if owner.dialect == "sqlite" else "created_at - interval '3601 seconds'"
        owner(f"UPDATE tabellion_processed_documents SET created_at = {earlier}")
    [third] = submit_bills(url, settings, 0, type="slip")
    assert (third.status, third.duplicate_of) == ("queued", None)


def test_retries_come_from_the_type(url: str, settings: Settings) -> None:
    """One attempt and as many more as the type says."""
    write_type(settings, "slip", "processing: {retries: 7}\n")
    [one] = submit_bills(url, settings, 0, type="slip")
    assert row(url, one.id)["max_attempts"] == 8


def test_an_unknown_type_or_model_is_rejected(url: str, settings: Settings) -> None:
    """Nothing is stored."""
    for how in ({"type": "bill"}, {"model": "gemini"}):
        with pytest.raises(Unknown):
            submit_bills(url, settings, 0, **how)


def test_a_file_deleted_meanwhile_is_requested_again(url: str, settings: Settings) -> None:
    """Deleted with its last document at the same moment: no row is left without its file."""
    content = put(settings, 0)
    asyncio.run(settings.blobs.remove(content.sha256))
    with pytest.raises(FileGone):
        ask(url, lambda store: submit(store, settings, content, type="invoice"))
    with owning(url, create=False) as owner:
        assert owner("SELECT id FROM tabellion_documents") == []
        assert owner("SELECT key FROM tabellion_processed_documents") == []


@pytest.mark.parametrize(
    ("name", "shown"),
    [("bill.pdf", "bill.pdf"), ("a\x00b\nc", "a\\u0000b\\u000ac"), ("x\u202etxt", "x\\u202etxt"), ("", "unnamed"),
     ("\udcff", "\\udcff"), ("é" * 300, "é" * 255), ("../../etc/passwd", "../../etc/passwd")],
)  # fmt: skip
def test_names_are_stored_printable(name: str, shown: str) -> None:
    """Unprintable characters are escaped; a name is limited, and never a path."""
    assert clean_name(name) == shown
