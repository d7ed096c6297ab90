"""Files of deleted documents: what cannot be removed now is removed later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.engine import retention
from tabellion.pipelines.documents.lookup import get
from tabellion.pipelines.documents.reprocess import delete
from tabellion.pipelines.documents.retention import DocumentsRule
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.files import Unwritable
from tabellion.storage.lake import Lake, LakeError
from tests.models.bills import bill
from tests.pipelines.documents.papers import process_all, rows, submit_file
from tests.workers import ask


@pytest.mark.parametrize("error", [LakeError("timeout"), Unwritable("/srv/x"), PermissionError("/srv/x")])
def test_a_document_is_deleted_although_its_files_cannot_be(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The deletion is committed and succeeds; a worker removes the files once the storage answers."""
    key = submit_file(url, settings, bill("Acme Tools Ltd", "12 High Street"), type="invoice")
    process_all(url, settings)

    async def fail(*_: object) -> int:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Lake, "delete", fail)
        ask(url, lambda store: delete(store, settings, key))
    assert ask(url, lambda store: get(store, key)) is None
    assert len(rows(url, "SELECT id FROM tabellion_leftovers")) == 1
    past = "0" if url.startswith("sqlite") else "to_timestamp(0)"
    rows(url, f"UPDATE tabellion_leftovers SET due_at = {past} RETURNING id")
    assert ask(url, lambda store: retention.clear_leftovers(store, [DocumentsRule(settings, None)])) == 1
    for folder in (settings.blobs.root, Path(settings.lake.url)):
        assert [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")] == []
