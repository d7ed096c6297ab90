"""The API process of batches, to be killed, and the orchestrator's side of it: submits, and asks until all is done."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

from tests.cli.running import Service
from tests.pipelines.batches.material import SECRET

WITHOUT_ANSWER = (OSError, http.client.HTTPException, AssertionError)  #: of a process that was killed


class Api:
    """`tabellion up --workers 0`; each one that is killed is replaced."""

    def __init__(self, url: str, folder: Path, model_url: str, orchestrator_url: str) -> None:
        self._folder = folder
        self._config = folder / "tabellion.toml"
        self._config.write_text(
            f"""pipelines = ["batches"]
environments = {{ prod = "{url}" }}
[batches]
model = "openai"
staging = "{folder}/staging"
content = "{folder}/content"
[batches.orchestrators]
"{orchestrator_url.rpartition("/")[0]}" = "{SECRET}"
[models.openai]
base_url = "{model_url}"
key = "{"k" * 20}"
[server]
allow = ["127.0.0.0/8"]
"""
        )
        self.kills = 0
        self.service = self._start()

    def _start(self) -> Service:
        return Service(self._folder / "data", "--workers", "0", "--config", str(self._config))

    def kill(self) -> None:
        """Kill it with SIGKILL, and start another in its place."""
        self.service.close()  # first: it locks the data folder, and the next one would end at once
        self.service = self._start()
        self.kills += 1

    def close(self) -> None:
        """Kill it."""
        self.service.close()


class Client:
    """Submits batches in another thread, again and again until they are accepted, and asks until they have ended."""

    def __init__(self, api: Api, batches: dict[str, list[dict[str, Any]]], **options: Any) -> None:
        self.unanswered = 0
        self.ended: dict[str, str] = {}  #: statuses by batch
        self._api, self._batches, self._options = api, batches, options
        self._stopped = threading.Event()
        self._failure: AssertionError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether every batch has ended, as the API says; fails with what it refused, if anything."""
        if self._failure:
            raise self._failure
        return len(self.ended) == len(self._batches)

    def close(self) -> None:
        """Stop asking."""
        self._stopped.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            self._submit_and_follow()
        except AssertionError as failure:
            self._failure = failure

    def _submit_and_follow(self) -> None:
        for name, pis in self._batches.items():
            self._ask("POST", "/api/batches", json.dumps({"batch_id": name, "pis": pis, **self._options}).encode())
        for name in self._batches:
            while not self._stopped.is_set():
                answer = self._ask("GET", f"/api/batches/{name}")
                if answer.get("status") in ("complete", "incomplete"):
                    self.ended[name] = answer["status"]
                    break
                time.sleep(0.1)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        while not self._stopped.is_set():
            try:
                status, answer = self._api.service.ask(method, path, body, **{"Content-Type": "application/json"})
            except WITHOUT_ANSWER:
                self.unanswered += 1
                time.sleep(0.1)
                continue
            if status < 300:
                return dict(answer)
            if status < 500:
                raise AssertionError(f"{method} {path}: {status} {answer}")
            time.sleep(0.1)
        return {}
