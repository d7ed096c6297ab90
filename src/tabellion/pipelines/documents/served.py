"""Documents in one served environment: files, settings, watchers, and whether files can be written."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from starlette.requests import Request

from tabellion.answers import Answer, Doc
from tabellion.engine.store import Store
from tabellion.pipelines.documents.routes.review_changes import ReviewChanges
from tabellion.pipelines.documents.routes.updates import Updates
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage import files
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import Lake
from tabellion.web.blueprint import PipelineHealth
from tabellion.web.page_images import Pictures

SECONDS = 5.0  #: to wait for the lake
KEPT = 5.0  #: seconds that a check of a lake is reused: probes are frequent, and every request to a bucket costs


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
    _look: LakeLook = field(init=False)

    def __post_init__(self) -> None:
        self.updates, self.review_changes = Updates(self.store), ReviewChanges(self.store)
        self._look = LakeLook(self.settings.lake)

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
        lake_ok, free, blobs_ok = await asyncio.gather(
            self._look.well(), asyncio.to_thread(_free, self.blobs.root, self.settings.lake),
            asyncio.to_thread(_takes_files, self.blobs.root),
        )  # fmt: skip
        reasons = []
        if not blobs_ok:
            reasons.append("the upload folder is not writable: nothing can be uploaded")
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


class LakeLook:
    """Checks whether a lake accepts files, in a thread that does not delay the end of the process."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._look: asyncio.Future[bool] | None = None
        self._at = float("-inf")

    async def well(self) -> bool:
        """Whether outputs can be written; False if the lake does not answer."""
        if self._look is None or (self._look.done() and time.monotonic() - self._at > KEPT):
            self._look = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._ask, args=(self._look,), name="lake look", daemon=True).start()
        await asyncio.wait({self._look}, timeout=SECONDS)
        return self._look.done() and self._look.result()

    def _ask(self, look: asyncio.Future[bool]) -> None:
        try:
            self._lake.check()
            well = True
        except Exception:
            well = False
        self._at = time.monotonic()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            look.get_loop().call_soon_threadsafe(look.set_result, well)


def _free(blobs: Path, lake: Lake) -> int:
    """Free bytes where uploads and outputs go; for a folder that does not exist yet, where it will be created."""
    free = []
    for folder in (blobs, *([Path(lake.url.removeprefix("file://")).absolute()] if lake.is_local else [])):
        there = next((parent for parent in (folder, *folder.parents) if parent.is_dir()), Path("/"))
        status = os.statvfs(there)
        free.append(status.f_bavail * status.f_frsize)
    return min(free)


def _takes_files(folder: Path) -> bool:
    """Whether a file can be written in a folder; the test file never gets a name."""
    try:
        unnamed = files.Unnamed(folder, folder, files.PRIVATE_FILE)
    except (OSError, files.Unwritable):
        return False
    try:
        unnamed.write(b"?")
        return True
    except (OSError, files.Unwritable):
        return False
    finally:
        unnamed.discard()
