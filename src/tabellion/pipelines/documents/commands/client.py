"""The clients of `submit`: a running server, or the database itself on the same machine."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from tabellion.cli import pipeline_tables
from tabellion.engine.worker_rows import read_workers
from tabellion.errors import ConfigurationError
from tabellion.pipelines.documents.local_files import FileRejected, submit_local
from tabellion.pipelines.documents.lookup import problem
from tabellion.pipelines.documents.pipeline import PIPELINE
from tabellion.pipelines.documents.settings import settings_of

if TYPE_CHECKING:
    from tabellion.config import Config

PATIENCE = 60.0  #: seconds for one request
TRIES = 5  #: attempts at a request that a busy server deferred


class Client(Protocol):
    """Submits documents and reports their status."""

    async def __aenter__(self) -> Client:
        """Connects."""

    async def __aexit__(self, *_: object) -> None:
        """Disconnects."""

    async def submit(self, path: Path, type: str | None, model: str | None) -> dict[str, Any]:  # noqa: A002
        """The outcome of one file: id and status, or `rejected` and an error."""

    async def states(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        """Status and error of these documents."""

    async def warning(self) -> str:
        """Why waiting may never end; empty if it should."""


class DirectClient:
    """Direct access to the database and the data folder."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = settings_of(config)
        self._store = config.environments[0].store()
        self._waiting: set[tuple[str, str | None]] = set()  #: the model and type of what was submitted

    async def __aenter__(self) -> DirectClient:
        await pipeline_tables.prepare_own(self._store, self._config, PIPELINE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def submit(self, path: Path, type: str | None, model: str | None) -> dict[str, Any]:  # noqa: A002
        """Copies the file and inserts its row."""
        try:
            submitted = await submit_local(
                self._store, self._settings, path, type=type, model=model, limit=self._config.upload_bytes,
            )  # fmt: skip
        except FileRejected as error:
            return {"status": "rejected", "error": {"code": error.code, "message": str(error)}}
        doctype = self._settings.types.get(type) if type is not None else None
        self._waiting.add((self._settings.choose_model(model, doctype), type))
        return {"id": submitted.id, "status": submitted.status, "duplicate_of": submitted.duplicate_of}

    async def states(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        """Queries the database, a few hundred at a time."""
        states: dict[str, dict[str, Any]] = {}
        for start in range(0, len(ids), 500):
            batch = ids[start : start + 500]
            marks = ", ".join(f"${number}" for number in range(1, len(batch) + 1))
            rows = await self._store.database.fetch(
                f"SELECT id, status, error, attempts, duplicate_of FROM tabellion_documents WHERE id IN ({marks})",
                *batch,
            )
            for row in rows:
                error = problem(row["error"], row["attempts"]) if row["status"] == "failed" else None
                states[row["id"]] = {"status": row["status"], "duplicate_of": row["duplicate_of"], "error": error}
        return states

    async def warning(self) -> str:
        """A warning if no worker serves the queue of a submitted document."""
        from tabellion.pipelines.documents.queues import queue_name, type_queue_name

        served = {queue for worker in await read_workers(self._store.database) for queue in worker["queues"].split(",")}
        for model, type_name in self._waiting:
            own = {type_queue_name(model, type_name)} if type_name is not None else set()
            if not served & {queue_name(model), *own}:
                fix = "start `tabellion up`, or `tabellion worker --with documents`"
                return f"no worker serves the queue {queue_name(model)}: {fix}"
        return ""


class RemoteClient:
    """Access over HTTP."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"--url {url}: write it like http://127.0.0.1:8080")
        self._parts, self._key, self._base = parts, key, parts.path.rstrip("/")

    async def __aenter__(self) -> RemoteClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def submit(self, path: Path, type: str | None, model: str | None) -> dict[str, Any]:  # noqa: A002
        """Streams the file."""
        if not path.is_file():  # opening a pipe would block until something writes to it
            return {"status": "rejected", "error": {"code": "file_missing", "message": "file not found"}}
        options = {"name": path.name, "type": type, "model": model}
        query = urlencode({name: value for name, value in options.items() if value is not None}, errors="replace")
        for attempt in range(1, TRIES + 1):
            try:
                status, answer, retry_after = await asyncio.to_thread(
                    self._send, "POST", f"/api/documents?{query}", path
                )
            except (FileNotFoundError, PermissionError) as error:
                return {"status": "rejected", "error": {"code": "file_missing", "message": str(error.strerror)}}
            if status not in (429, 503) or attempt == TRIES:
                break
            await asyncio.sleep(min(retry_after, PATIENCE))
        if status == 202:
            document = answer["documents"][0]
            return {"id": document["id"], "status": document["status"], "duplicate_of": document.get("duplicate_of")}
        self._check(status, answer)
        return {
            "status": "rejected",
            "error": {"code": answer.get("code", str(status)), "message": answer.get("detail", "")},
        }

    async def states(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        """Waits for the first of them, then queries the others."""
        states = {}
        for place, id_ in enumerate(ids[:50]):
            wait = "?wait=20" if place == 0 else ""
            path = f"/api/documents/{quote(id_)}{wait}"
            status, answer, _ = await asyncio.to_thread(self._send, "GET", path, None)
            self._check(status, answer)
            if status == 200:
                states[id_] = {name: answer.get(name) for name in ("status", "duplicate_of", "error")}
            elif status == 404:
                states[id_] = {"status": "failed", "error": {"code": "not_found", "message": "deleted"}}
        return states

    async def warning(self) -> str:
        """The server's own reasons for not being ready."""
        status, answer, _ = await asyncio.to_thread(self._send, "GET", "/readyz", None)
        return "" if status == 200 else "the server is not ready: " + "; ".join(map(str, answer.get("reasons", [])))

    def _check(self, status: int, answer: dict[str, Any]) -> None:
        if status in (401, 403):
            raise ConfigurationError(f"the server rejected the key ({answer.get('code', status)})")
        if status >= 500:
            raise ConfigurationError(f"server error ({answer.get('code', status)})")

    def _send(self, method: str, path: str, file: Path | None) -> tuple[int, dict[str, Any], float]:
        host, port = str(self._parts.hostname), self._parts.port
        connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=ssl.create_default_context())
            if self._parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=PATIENCE)
        )
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json"}
        body = None if file is None else file.open("rb")
        try:
            if body is not None and file is not None:
                headers |= {
                    "Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size),
                }  # fmt: skip
            connection.request(method, f"{self._base}{path}", body, headers)
            response = connection.getresponse()
            content = response.read()
            wait = response.getheader("Retry-After", "1")
        except (FileNotFoundError, PermissionError):
            raise
        except (OSError, http.client.HTTPException) as error:
            where = f"{self._parts.scheme}://{self._parts.netloc}"
            raise ConfigurationError(
                f"no server responds at {where} ({error}): start one with `tabellion up`"
            ) from None
        finally:
            if body is not None:
                body.close()
            connection.close()
        try:
            answer = json.loads(content) if content else {}
        except ValueError:
            answer = {}
        return response.status, answer if isinstance(answer, dict) else {}, float(wait) if wait.isdigit() else 1.0
