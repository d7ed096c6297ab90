"""/healthz and /readyz: is the process alive, and will work that is given now be done."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.engine import register
from tabellion.engine.values import json_text
from tabellion.engine.worker import heartbeat as roster
from tabellion.errors import NotMigrated, StoreError, Unreachable
from tabellion.pipelines.documents import tables as documents
from tabellion.storage import files
from tabellion.storage.lake import Lake
from tabellion.web import shapes, tables
from tabellion.web.office import Office
from tabellion.web.routing import Guarded

router = APIRouter(route_class=Guarded, tags=["health"])
SECONDS = 5.0  #: for one environment's answer
QUEUE = "documents"
KEPT = 5.0  #: seconds that an answer about a lake is good for: probes ask often, and buckets cost by the question


class LakeLook:
    """Looks whether a lake takes files, in a thread that the end of the process does not wait for."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._look: asyncio.Future[bool] | None = None
        self._at = float("-inf")

    async def well(self) -> bool:
        """Whether outputs can be written; a lake that does not answer is none that takes them."""
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


@router.get("/healthz", response_model=shapes.Health, summary="Is the process alive?")
async def healthz() -> Response:
    """Always, when it can answer at all."""
    return Response(json_text({"status": "alive"}), media_type="application/json")


@router.get(
    "/readyz", response_model=shapes.Readiness, summary="Will work be done?",
    responses={503: {"model": shapes.Readiness, "description": "Not now; the reasons are told."}},
)  # fmt: skip
async def readyz(request: Request) -> Response:
    """200 when every database answers, has its tables and a worker, and files can be written; 503 with the reasons when
    not."""
    state = request.app.state
    offices: dict[str, Office] = state.door.offices
    stations = await asyncio.gather(*(_whole(office, state.lake_looks, state.limits.upload_bytes)
                                      for office in offices.values()))  # fmt: skip
    reasons = [f"{one['name']}: {reason}" for one, found in stations for reason in found]
    if request.app.state.closing.is_set():
        reasons.append("the server is going down")
    told = {
        "status": "not_ready" if reasons else "ready", "reasons": reasons, "environments": [one for one, _ in stations],
    }  # fmt: skip
    return Response(json_text(told), 503 if reasons else 200, media_type="application/json")


async def _whole(office: Office, looks: dict[str, LakeLook], needed: int) -> tuple[dict[str, Any], list[str]]:
    look = looks.setdefault(office.name, LakeLook(office.settings.lake))
    (told, reason), well, free, kept = await asyncio.gather(
        station(office), look.well(), asyncio.to_thread(_free, office.blobs.root, office.settings.lake),
        asyncio.to_thread(_takes_files, office.blobs.root),
    )  # fmt: skip
    reasons = [reason] if reason else []
    if not kept:
        reasons.append("the folder of uploads takes no files: nothing can be uploaded")
    if not well:
        reasons.append("the lake takes no files: documents wait until outputs can be written")
    if free < needed:
        reasons.append(f"the disk is nearly full: a file may have {needed:,} bytes, and there is less room than that")
    told |= {"blobs": "ok" if kept else "unwritable"}
    return told | {"lake": "ok" if well else "unwritable", "disk": "ok" if free >= needed else "full"}, reasons


def _free(blobs: Path, lake: Lake) -> int:
    """Bytes that are left where uploads and outputs go; a folder that is not there yet is made where its parent is."""
    free = []
    for folder in (blobs, *([Path(lake.url.removeprefix("file://")).absolute()] if lake.is_local else [])):
        there = next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/"))
        about = os.statvfs(there)
        free.append(about.f_bavail * about.f_frsize)
    return min(free)


def _takes_files(folder: Path) -> bool:
    """Whether a file can be written in a folder; one that never gets a name."""
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


async def station(office: Office) -> tuple[dict[str, Any], str]:
    """One environment, and why it is not ready; nothing of addresses or errors is told to strangers."""
    told: dict[str, Any] = {"name": office.name, "database": "ok", "workers": None, "state": "unreachable"}
    try:
        async with asyncio.timeout(SECONDS):
            await _migrated(office)
            workers = [one for one in await roster.members(office.store) if QUEUE in one["queues"]]
            is_paused = await _is_paused(office)
    except NotMigrated:
        return told | {
            "database": "not_migrated"
        }, "the database is not migrated: run `tabellion migrate --with documents`"
    except (StoreError, TimeoutError):
        return told | {"database": "unreachable"}, "the database does not answer"
    busy = any(one["busy"] for one in workers)
    told |= {"workers": len(workers), "state": "working" if busy else "idle" if workers else "no_worker"}
    if workers and is_paused:
        return told | {
            "state": "paused"
        }, f"the queue {QUEUE} is paused: run `tabellion resume {QUEUE} --with documents`"
    missing = "no worker for documents was seen: run `tabellion up`, or `tabellion worker --with documents`"
    return told, "" if workers else missing


async def _is_paused(office: Office) -> bool:
    rows = await office.store.database.fetch(
        "SELECT queue FROM tabellion_queues WHERE queue = $1 AND paused_at IS NOT NULL", QUEUE
    )
    return bool(rows)


async def _migrated(office: Office) -> None:
    """Looks without making anything."""
    database = office.store.database
    await database.open()
    path = getattr(database, "path", None)  # of SQLite: a file that was deleted answers as long as it is open
    if path is not None and not str(path).startswith(":") and not await asyncio.to_thread(os.path.exists, path):
        raise Unreachable("the file of the database is gone")
    there = await office.store.version() >= register.CURRENT and await documents.version(database) >= documents.CURRENT
    if not there or not await tables.exist(office.store):
        raise NotMigrated()
