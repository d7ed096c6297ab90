"""Documents in one served environment: files, settings, watchers, and whether files can be written."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from starlette.requests import Request

from tabellion.answers import Answer, Doc
from tabellion.engine.store import Store
from tabellion.pipelines.documents.routes.review_changes import ReviewChanges
from tabellion.pipelines.documents.routes.updates import Updates
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import Lake
from tabellion.web.blueprint import PipelineHealth
from tabellion.web.page_images import Pictures
from tabellion.web.storage_check import StorageCheck


class StorageFacts(Answer, total=False):
    """What documents report in /readyz about an environment."""

    blobs: Annotated[Literal["ok", "unwritable"], Doc("Whether uploads can be stored.")]
    lake: Annotated[Literal["ok", "unwritable"], Doc("Whether outputs can be written.")]
    disk: Annotated[Literal["ok", "full"], Doc("Whether the disk has room for another upload.")]


@dataclass(slots=True)
class ServedDocuments:
    """What the routes of documents need in one environment."""

    name: str
    store: Store
    settings: Settings
    pictures: Pictures
    upload_bytes: int  #: the size limit of one file
    updates: Updates = field(init=False)
    review_changes: ReviewChanges = field(init=False)
    _lake: StorageCheck = field(init=False)
    _blobs: StorageCheck = field(init=False)

    def __post_init__(self) -> None:
        self.updates, self.review_changes = Updates(self.store), ReviewChanges(self.store)
        self._lake, self._blobs = StorageCheck(self.settings.lake.check), StorageCheck(self.settings.blobs.check)

    @property
    def blobs(self) -> Blobs:
        """The original files."""
        return self.settings.blobs

    def titles(self) -> dict[str, str]:
        """The titles of fields whose types set one."""
        specs = (field for kind in self.settings.types.all() for spec in kind for field in (spec, *spec.items))
        return {spec.name: spec.title for spec in specs if spec.title != spec.name.replace("_", " ").capitalize()}

    async def close(self) -> None:
        """Stops the watchers and the drawing of pages."""
        await self.updates.close()
        await self.review_changes.close()
        await self.pictures.close()

    async def health(self) -> PipelineHealth:
        """Whether uploads and outputs can be written."""
        lake_ok, blobs_ok, free = await asyncio.gather(
            self._lake.is_writable(),
            self._blobs.is_writable(),
            asyncio.to_thread(_free, self.blobs.root, self.settings.lake),
        )
        reasons = []
        if not blobs_ok:
            reasons.append("the storage of uploads is not writable: nothing can be uploaded")
        if not lake_ok:
            reasons.append("the lake is not writable: documents wait until outputs can be written")
        if free < self.upload_bytes:
            reasons.append(
                f"the disk is nearly full: a file may have {self.upload_bytes:,} bytes, "
                "and there is less room than that"
            )
        facts: StorageFacts = {
            "blobs": "ok" if blobs_ok else "unwritable", "lake": "ok" if lake_ok else "unwritable",
            "disk": "ok" if free >= self.upload_bytes else "full",
        }  # fmt: skip
        return PipelineHealth(facts, reasons)


def served_documents(request: Request) -> ServedDocuments:
    """Documents in the environment of this request."""
    served: ServedDocuments = request.state.environment.served["documents"]
    return served


def _free(blobs: Path, lake: Lake) -> int:
    """Free bytes where uploads and outputs go; for a folder that does not exist yet, where it will be created."""
    free = []
    for folder in (blobs, *([Path(lake.url.removeprefix("file://")).absolute()] if lake.is_local else [])):
        there = next((parent for parent in (folder, *folder.parents) if parent.is_dir()), Path("/"))
        status = os.statvfs(there)
        free.append(status.f_bavail * status.f_frsize)
    return min(free)
