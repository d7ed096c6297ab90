"""Gemini's Files API: resumable upload, get, list, delete; files are stored in memory up to a limit."""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tabellion.models.fake.gemini_request import build_refusal, check_key, get, json_body
from tabellion.models.fake.log import RequestRecord
from tabellion.models.fake.wire import dump_json, read_body

ROOM = 512 * 1024 * 1024  # bytes in all; the oldest files are dropped
LIFE = timedelta(hours=48)


@dataclass(slots=True)
class File:
    """One uploaded file."""

    name: str  #: files/…
    type: str
    display_name: str = ""
    data: bytes = b""
    received: bytearray = field(default_factory=bytearray)
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Files:
    """The uploaded files."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._uploads: dict[str, File] = {}
        self._numbers = itertools.count(1)

    def at(self, uri: str) -> File:
        """The file with this URI."""
        name = uri.rpartition("/files/")[2] if "/files/" in uri else uri.removeprefix("files/")
        file = self._files.get(f"files/{name}")
        if file is None:
            raise build_refusal(403, f"You do not have permission to access the File {name} or it may not exist.")
        return file

    async def upload(self, request: Request, entry: RequestRecord) -> Response:
        """POST upload: `start` returns a URL, `upload` sends bytes to it, `finalize` creates the file."""
        commands = {word.strip() for word in request.headers.get("x-goog-upload-command", "").lower().split(",")}
        if "start" in commands:
            return await self._start(request)
        file = self._uploads.get(request.query_params.get("upload_id", ""))
        if file is None:
            raise build_refusal(404, "There is no such upload.")
        if "query" in commands:
            size = str(len(file.received))
            return Response(headers={"x-goog-upload-status": "active", "x-goog-upload-size-received": size})
        if int(request.headers.get("x-goog-upload-offset") or 0) != len(file.received):
            raise build_refusal(400, f"This upload goes on at byte {len(file.received)}.")
        file.received += await read_body(request)
        if "finalize" not in commands:
            return Response(headers={"x-goog-upload-status": "active"})
        file.data, file.received = bytes(file.received), bytearray()
        self._uploads.pop(request.query_params["upload_id"])
        self._keep(file)
        return _json({"file": _serialize_file(file, request)}, {"x-goog-upload-status": "final"})

    async def _start(self, request: Request) -> Response:
        check_key(request)
        metadata = (await json_body(request)).get("file")
        metadata = metadata if isinstance(metadata, dict) else {}
        number = next(self._numbers)
        name = str(metadata.get("name") or f"files/fake{number:08x}")
        type_ = get(metadata, "mimeType") or request.headers.get("x-goog-upload-header-content-type")
        identity = f"upload{number}"
        self._uploads[identity] = File(
            name, str(type_ or "application/octet-stream"), str(get(metadata, "displayName") or "")
        )
        address = request.url.replace(query=f"upload_id={identity}&upload_protocol=resumable")
        headers = {"x-goog-upload-status": "active", "x-goog-upload-url": str(address)}
        return Response(headers=headers | {"x-goog-upload-chunk-granularity": "262144"})

    def _keep(self, file: File) -> None:
        self._files[file.name] = file
        while len(self._files) > 1 and sum(len(stored.data) for stored in self._files.values()) > ROOM:
            del self._files[next(iter(self._files))]

    async def show(self, request: Request, entry: RequestRecord) -> Response:
        """GET files/NAME."""
        return _json(_serialize_file(self._get_file(request), request))

    async def list(self, request: Request, entry: RequestRecord) -> Response:
        """GET files."""
        check_key(request)
        return _json({"files": [_serialize_file(file, request) for file in self._files.values()]})

    async def delete(self, request: Request, entry: RequestRecord) -> Response:
        """DELETE files/NAME."""
        del self._files[self._get_file(request).name]
        return _json({})

    def _get_file(self, request: Request) -> File:
        check_key(request)
        return self.at(request.path_params["name"])


def _json(value: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(dump_json(value), headers=headers, media_type="application/json")


def _serialize_file(file: File, request: Request) -> dict[str, Any]:
    version = request.path_params.get("version", "v1beta")
    stamp = file.created_at.isoformat().replace("+00:00", "Z")
    data = {
        "name": file.name,
        "mimeType": file.type,
        "sizeBytes": str(len(file.data)),
        "createTime": stamp,
        "updateTime": stamp,
        "expirationTime": (file.created_at + LIFE).isoformat().replace("+00:00", "Z"),
        "sha256Hash": base64.b64encode(sha256(file.data).hexdigest().encode()).decode(),
        "uri": f"{request.url.scheme}://{request.url.netloc}/{version}/{file.name}",
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    return data | {"displayName": file.display_name} if file.display_name else data
