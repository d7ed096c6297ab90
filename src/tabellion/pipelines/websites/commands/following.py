"""Submits websites and follows them until they have ended, with a worker of its own if none serves the database."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tabellion.cli import pipeline_tables
from tabellion.cli.own_worker import own_worker
from tabellion.errors import ConfigurationError, TabellionError
from tabellion.net.guard import STANDARD, Blocked, Rules
from tabellion.pipelines.websites import lookup
from tabellion.pipelines.websites.lookup import WebsiteDetail
from tabellion.pipelines.websites.pipeline import PIPELINE
from tabellion.pipelines.websites.queues import website_queues
from tabellion.pipelines.websites.report import WebsiteReport, build_report
from tabellion.pipelines.websites.report_file import load_image, render_report
from tabellion.pipelines.websites.settings import UnknownName, settings_of
from tabellion.pipelines.websites.states import ENDED, PHASES
from tabellion.pipelines.websites.submit import AlreadyOpen, BacklogFull, submit
from tabellion.pipelines.websites.urls import complete_url
from tabellion.storage import files

if TYPE_CHECKING:
    from tabellion.config import Config

POLL = 0.2  #: seconds between two looks at the jobs
Progress = Callable[[str, str, str], None]


@dataclass(slots=True)
class Outcome:
    """What became of one URL."""

    url: str
    id: str = ""
    error: str = ""
    website: WebsiteDetail | None = None
    report: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The outcome as JSON."""
        if self.website is None:
            return {"url": self.url, "status": "rejected", "error": self.error}
        return {**self.website, "error": self.error or None, "report": self.report or None}


class WebsiteFollower:
    """Websites from their submission to their end."""

    def __init__(
        self, config: Config, urls: Sequence[str], type_name: str | None, models: Sequence[str], language: str
    ) -> None:
        self._config, self._type, self._models, self._language = config, type_name, models, language
        self._outcomes = [Outcome(url) for url in urls]
        self._rules = local_rules(Rules.of(config.allow), urls)
        self._settings = settings_of(config, rules=self._rules)
        self._store = config.environments[0].store()

    async def __aenter__(self) -> WebsiteFollower:
        self._settings.check_types()
        await pipeline_tables.prepare_own(self._store, self._config, PIPELINE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def run(self, progress: Progress) -> list[Outcome]:
        """Submits every URL, and returns when each has ended."""
        for outcome in self._outcomes:
            await self._submit(outcome, progress)
        open_ids = [outcome.id for outcome in self._outcomes if outcome.id]
        if open_ids:
            async with self._workers(open_ids):
                await self._wait(progress)
        return self._outcomes

    async def write_report(self, outcome: Outcome, path: Path, *, several: bool) -> Path:
        """Writes a website's report to a file, or into a folder if there are several."""
        if several or path.is_dir() or not path.suffix:
            host = re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(complete_url(outcome.url)).netloc)
            path = path / f"{host}-{self._kind_of(outcome)}.html"
        row = await lookup.get_row(self._store, outcome.id)
        blobs = self._settings.blobs
        screenshot = await load_image(blobs, row["screenshot_file"] if row else None, "image/jpeg")
        favicon = await load_image(blobs, row["favicon_file"] if row else None, "image/png")
        text = render_report(self.build_report(outcome, self._language), screenshot, favicon)
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.translate_errors(path):
            path.write_text(text, encoding="utf-8")
        return path

    def build_report(self, outcome: Outcome, language: str) -> WebsiteReport:
        """The report of a website that has ended."""
        assert outcome.website is not None  # noqa: S101 - the caller checked
        return build_report(outcome.website, self._settings.get_type(outcome.website["type"]), language)

    def _kind_of(self, outcome: Outcome) -> str:
        return outcome.website["type"] if outcome.website is not None else "report"

    async def _submit(self, outcome: Outcome, progress: Progress) -> None:
        try:
            outcome.id = await submit(
                self._store, self._settings, outcome.url, type=self._type, models=self._models,
                language=self._language, by="tabellion website",
            )  # fmt: skip
        except AlreadyOpen as error:
            outcome.id = error.job.id  # somebody else's, or ours of a command that was interrupted
            progress(outcome.url, str(error), "following it")
        except UnknownName as error:
            raise ConfigurationError(str(error)) from None
        except (Blocked, BacklogFull) as error:
            outcome.error = str(error)

    def _workers(self, ids: Sequence[str]) -> contextlib.AbstractAsyncContextManager[None]:
        """Leaves the work to the workers of the database, or runs one for these jobs alone."""
        return own_worker(
            self._config, PIPELINE, self._store, [phase.queue for phase in PHASES],
            lambda: website_queues(self._settings, only=ids), poll=POLL, name="website",
        )  # fmt: skip

    async def _wait(self, progress: Progress) -> None:
        said: dict[str, tuple[str, str]] = {}
        waiting = [outcome for outcome in self._outcomes if outcome.id]
        while waiting:
            for outcome in list(waiting):
                website = await lookup.get(self._store, outcome.id)
                if website is None:
                    outcome.error = "the job was deleted"
                    waiting.remove(outcome)
                    continue
                state = _state_of(website)
                if said.get(outcome.id) != state:
                    said[outcome.id] = state
                    progress(outcome.url, *state)
                if website["status"] in ENDED:
                    outcome.website = website
                    outcome.error = next((phase["error"] for phase in website["phases"] if phase["error"]), None) or ""
                    waiting.remove(outcome)
            if waiting:
                await asyncio.sleep(POLL)


def _state_of(website: WebsiteDetail) -> tuple[str, str]:
    running = next((phase for phase in website["phases"] if phase["state"] in ("running", "ready")), None)
    if running is None:
        return website["status"], ""
    retried = f"attempt {running['attempts']} failed: {running['error']}" if running["error"] else ""
    return running["name"], running["note"] or retried


def local_rules(rules: Rules, urls: Sequence[str]) -> Rules:
    """The rules for visits that this process makes: an address of this machine that the person named is allowed.

    Only that address and port, so that a page of another site cannot lead there; and only the loopback interface.
    """
    services = set(rules.services)
    for url in urls:
        with contextlib.suppress(ValueError, TabellionError):
            parts = urlsplit(complete_url(url))
            host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
            address = ipaddress.ip_address(host)
            if address.is_loopback:
                services.add((address, parts.port or STANDARD.get(parts.scheme, 80)))
    return replace(rules, services=frozenset(services))
