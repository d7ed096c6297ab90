"""The files of deleted documents: outputs, the uploaded file and pictures of its pages, removed after the rows."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

from tabellion.engine import retention
from tabellion.engine.failpoints import failpoint
from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store
from tabellion.pipelines.documents.columns import moment
from tabellion.pipelines.documents.compact import forget, templates_of
from tabellion.pipelines.documents.daily import root_of
from tabellion.pipelines.documents.output_pointers import point_with
from tabellion.pipelines.documents.outputs import possible_paths
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.blobs import BlobsUnavailable
from tabellion.storage.files import Unwritable
from tabellion.storage.lake import LakeError
from tabellion.web.page_images import remove_pictures

RULE = "documents"  #: of leftovers


class FilesRow(TypedDict):
    """The columns of a document that lead to its files; its time is seconds since 1970."""

    id: str
    sha256: str
    created_at: float
    json_path: str | None
    parquet_path: str | None


@dataclass(frozen=True, slots=True)
class DeletedFiles:
    """What must be known of a deleted document to find its files."""

    id: str
    sha256: str
    created_at: float  #: seconds since 1970
    json_path: str | None
    parquet_path: str | None

    @staticmethod
    def of_row(row: FilesRow) -> DeletedFiles:
        """From the row of the document."""
        return DeletedFiles(row["id"], row["sha256"], row["created_at"], row["json_path"], row["parquet_path"])

    @staticmethod
    def parse(detail: str) -> DeletedFiles:
        """From a leftover."""
        return DeletedFiles(**json.loads(detail))

    def leave(self, dialect: Dialect) -> tuple[str, str, dict[str, Any]]:
        """The id and the statement that records them as a leftover, with the deletion of the document."""
        return retention.leave(RULE, json.dumps(asdict(self)), dialect)


async def remove_files(
    store: Store, settings: Settings, deleted: Sequence[DeletedFiles], pictures: Path | None = None
) -> None:
    """Removes the files of these documents, except contents that another document has; may be repeated.

    Outputs are removed from where they are or may be: an attempt that died after writing left no record. Raises
    BlobsUnavailable while they cannot be removed: the rows are gone, so they stay leftovers.
    """
    try:
        await _remove(store, settings, deleted, pictures)
    except (LakeError, Unwritable, OSError) as error:
        raise BlobsUnavailable(str(error)) from error


async def _remove(store: Store, settings: Settings, deleted: Sequence[DeletedFiles], pictures: Path | None) -> None:
    types = await asyncio.to_thread(settings.types.all)
    templates = templates_of(doctype.output.parquet for doctype in types)
    point = point_with(store.database.fetch, store.dialect)
    by_day: dict[date, list[DeletedFiles]] = defaultdict(list)
    paths: set[str | None] = set()
    for one in deleted:
        by_day[moment(one.created_at).date()].append(one)
        paths |= {one.json_path, one.parquet_path, *possible_paths(types, asdict(one))}
    # A daily file is shared: it is rewritten without these documents.
    await settings.lake.delete(*sorted(path for path in paths if path and root_of(path) is None))
    for of_day in by_day.values():
        await forget(settings.lake, of_day[0].created_at, [one.id for one in of_day], templates, point)
    failpoint("prune.mid_files")
    for sha256 in sorted({one.sha256 for one in deleted}):
        if await has_documents(store, sha256):
            continue
        await settings.blobs.remove(sha256, needed=lambda sha256=sha256: has_documents(store, sha256))  # type: ignore[misc]
        if pictures is not None and not await settings.blobs.has(sha256):
            await asyncio.to_thread(remove_pictures, pictures, sha256)


async def has_documents(store: Store, sha256: str) -> bool:
    """Whether any document has this content."""
    return bool(
        await store.database.fetch("SELECT 1 AS one FROM tabellion_documents WHERE sha256 = $1 LIMIT 1", sha256)
    )
