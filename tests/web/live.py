"""A running application: a server on loopback in its own thread, environments, and a key for every role."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from fastapi import FastAPI

from tabellion.accounts import keys
from tabellion.accounts.roles import ROLES
from tabellion.config import Config
from tabellion.engine.environment import Environment
from tabellion.engine.store import Store
from tabellion.pipeline import Pipeline
from tabellion.pipelines.documents.pipeline import PIPELINE
from tabellion.pipelines.documents.served import ServedDocuments
from tabellion.pipelines.documents.settings import Settings, settings_of
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import Lake
from tabellion.web.app import make_app, serve_environment
from tabellion.web.limits import RequestLimits
from tabellion.web.server import serve
from tests.workers import ask

Value = TypeVar("Value")
HOME = "127.0.0.0/8"


class Live:
    """An application that answers at `url`; `folders` and `urls` by environment, `keys` by environment and role."""

    def __init__(self, folder: Path, urls: Mapping[str, str], **changes: Any) -> None:
        self.folder, self.urls = folder, dict(urls)
        limits = changes.pop("limits", None)
        self.pipelines: list[Pipeline] = changes.pop("pipelines", [PIPELINE])
        given: dict[str, Any] = {"data": folder / "data", "lake": str(folder / "lake"), "allow": (HOME,)}
        unserved: Mapping[str, str] = changes.pop("unserved", {})  # of the same configuration
        self.config = Config(
            environments=tuple(Environment(name, url) for name, url in (*urls.items(), *unserved.items())),
            **(given | changes),
        )
        # Tests ask as fast as they can.
        self.limits = limits or RequestLimits(upload_bytes=self.config.upload_bytes, rate=0)
        self.keys: dict[tuple[str, str], str] = {}
        self.url = ""
        self.app: FastAPI
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        forgetful = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # tests say which cookies they send
        self._client = httpx2.Client(
            trust_env=False, verify=False, timeout=30, cookies=forgetful
        )  # certificates take long to load

    def start(self) -> Live:
        """Create the keys and wait until the server answers."""
        for name in self.urls:
            for role, key in zip(ROLES, self.store(name, functools.partial(_keys_of_roles, name)), strict=True):
                self.keys[(name, role)] = key
        self._thread.start()
        self._ready.wait(30)
        if self._failure is not None:
            raise self._failure
        assert self.url
        return self

    def stop(self) -> None:
        """Stop the server as a signal would."""
        self._client.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.app.state.server.stop)
            self._thread.join(20)
            assert not self._thread.is_alive(), "the server did not stop"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        environments = []
        for name, url in self.urls.items():
            environment = serve_environment(self.config, self.pipelines, name, Store(url, durable=False))
            documents = environment.served.get("documents")
            if isinstance(documents, ServedDocuments):
                environment.served = {
                    **environment.served,
                    "documents": replace(documents, settings=self.settings(name)),
                }
            environments.append(environment)
        self.app = make_app(self.config, environments, self.pipelines, limits=self.limits)
        try:
            await serve(self.app, "127.0.0.1", 0, started=self._started, signals=False)
        finally:
            for one in environments:
                await one.store.close()

    def _started(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def settings(self, environment: str = "prod") -> Settings:
        """Return the documents settings, with the folders that tests look into."""
        blobs, lake = Blobs(self.blobs(environment)), Lake(str(self.folder / environment / "lake"))
        return replace(settings_of(self.config), blobs=blobs, lake=lake)

    def blobs(self, environment: str) -> Path:
        """Return the folder of an environment's files."""
        return self.folder / environment / "blobs"

    def make_key(self, role: str, environment: str, **options: Any) -> str:
        """Create a key, named after its role unless a name is given."""
        return self.store(environment, lambda store: _key_of_role(store, environment, role, **options))

    def store(self, environment: str, question: Callable[[Store], Awaitable[Value]]) -> Value:
        """Query an environment's database directly."""

        return ask(self.urls[environment], question, durable=False)

    def sql(self, text: str, *values: Any, environment: str = "") -> list[dict[str, Any]]:
        """Run one statement in an environment's database."""
        return self.store(environment or next(iter(self.urls)), lambda store: store.database.fetch(text, *values))

    def key(self, role: str = "admin", environment: str = "") -> str:
        """Return a valid key."""
        return self.keys[(environment or next(iter(self.urls)), role)]

    def ask(
        self, method: str, path: str, *, key: str | None = "", headers: Mapping[str, str] | None = None, **options: Any
    ) -> httpx2.Response:
        """Send one request, by default as the first environment's admin; with `key=None` without a key."""
        sent = dict(headers or {})
        if key is not None:
            sent.setdefault("Authorization", f"Bearer {key or self.key()}")
        return self._client.request(method, self.url + path, headers=sent, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """Send a GET request."""
        return self.ask("GET", path, **options)

    def upload(self, content: bytes, name: str = "bill.pdf", media: str = "application/pdf", **options: Any) -> Any:
        """Upload one file as a form; return the created document."""
        answer = self.ask("POST", "/api/documents", files={"file": (name, content, media)}, **options)
        assert answer.status_code == 202, answer.text
        return answer.json()["documents"][0]


async def _keys_of_roles(environment: str, store: Store) -> list[str]:
    """Create a key for each role."""
    return [await _key_of_role(store, environment, role) for role in ROLES]


async def _key_of_role(store: Store, environment: str, role: str, **options: Any) -> str:
    """Create a key, named after its role unless a name is given."""
    try:
        return (await keys.create(store, environment, role, role, **options))[1]
    except keys.NameTaken:
        return (await keys.create(store, environment, role, **options))[1]


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Return the problem in a response, after checking its shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.text)
    assert body["code"] == code, body
    assert body["status"] == status
    assert body["detail"]
    assert body["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return body


@contextlib.contextmanager
def live(folder: Path, urls: Mapping[str, str], **changes: Any) -> Iterator[Live]:
    """Run an application for the duration of a block."""
    one = Live(folder, urls, **changes)
    try:
        yield one.start()
    finally:
        one.stop()
