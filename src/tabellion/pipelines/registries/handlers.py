"""The handlers: fetch and store a document, look up a company, look up rights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabellion.engine.job import Job
from tabellion.engine.sql import NOW
from tabellion.engine.tables.table import Row
from tabellion.errors import Permanent
from tabellion.extractions.columns import warn_once
from tabellion.extractions.storage import ExtractionFiles
from tabellion.messages import Message, quote_value
from tabellion.pipelines.registries import tables
from tabellion.pipelines.registries.columns import EXTRACTION, NoSuchColumn
from tabellion.pipelines.registries.problems import SiteProblem
from tabellion.pipelines.registries.settings import RegistrySettings
from tabellion.pipelines.registries.states import DOCUMENT_TYPES

if TYPE_CHECKING:
    from tabellion.net.chromium import Chromium
    from tabellion.pipelines.registries.profile_runner import TaskResult
    from tabellion.pipelines.registries.visits import Visits

PDF = b"%PDF-"
SAVE_COMPANY = f"""INSERT INTO {tables.COMPANIES} (search_session_id, neq, name, data, names, found_at)
VALUES (:id, :neq, :name, :data, :names, {NOW}) ON CONFLICT (search_session_id) DO UPDATE
SET neq = excluded.neq, name = excluded.name, data = excluded.data, names = excluded.names,
  found_at = excluded.found_at"""
SAVE_STATEMENT = f"""INSERT INTO {tables.STATEMENTS} (rdprm_search_id, is_empty, storage_path, registrations, found_at)
VALUES (:id, :is_empty, :storage_path, :registrations, {NOW}) ON CONFLICT (rdprm_search_id) DO UPDATE
SET is_empty = excluded.is_empty, storage_path = excluded.storage_path, registrations = excluded.registrations,
  found_at = excluded.found_at"""


class RegistryHandlers:
    """The three handlers of a worker; its browser starts when the first job needs it."""

    def __init__(
        self, settings: RegistrySettings, files: Callable[[str], ExtractionFiles], chromium: Chromium | None = None
    ) -> None:
        self._settings, self._files = settings, files
        self._visits: dict[str, Visits] = {}
        self._chromium = chromium  #: shared by all sites

    async def extract(self, job: Job) -> Row:
        """Fetches a document from the land registry and stores it under its hash: equal files are stored once."""
        kind = str(job.get("document_type") or "index")
        if kind not in DOCUMENT_TYPES:
            known = ", ".join(DOCUMENT_TYPES)
            raise Permanent(Message("registry.document_type", value=quote_value(kind), known=known))
        address = self._require("storage_path", job)
        result = await self._run("extraction", job, kind, EXTRACTION)
        return {address: await self._store(job, result)}

    async def look_up_company(self, job: Job) -> Row:
        """Searches the enterprise register; the result is committed together with the session's new state."""
        result = await self._run("companies", job, "company", ("company",))
        company: Mapping[str, str] = result.values.get("company", {})
        names = _distinct([*result.values.get("names", []), {"name": company.get("name", ""), "state": ""}])
        job.also(
            SAVE_COMPANY, id=job.text_key, neq=company.get("neq"), name=company.get("name"),
            data=_dump(company), names=_dump(names),
        )  # fmt: skip
        return {}

    async def look_up_rights(self, job: Job) -> Row:
        """Searches the register of rights for a name and stores the statement; no result is a valid answer too."""
        from tabellion.pipelines.registries.visits import NothingFound

        task = self._settings.profiles["rights"].tasks.get("rights")
        try:
            result = await self._run("rights", job, "rights", ("name",))
        except NothingFound:
            if task is None or not task.empty_is_done:
                raise
            job.also(SAVE_STATEMENT, id=job.text_key, is_empty=True, storage_path=None, registrations="[]")
            return {}
        registrations = _dump(result.values.get("registrations", []))
        path = await self._store(job, result)
        job.also(SAVE_STATEMENT, id=job.text_key, is_empty=False, storage_path=path, registrations=registrations)
        return {}

    async def _run(self, queue: str, job: Job, task_name: str, names: Sequence[str]) -> TaskResult:
        """Runs a task with the inputs of these names that the row has."""
        profile = self._settings.profiles[queue]
        task = profile.tasks.get(task_name)
        if task is None:
            raise Permanent(Message("registry.no_task", file=profile.file, task=task_name))
        columns = self._settings.columns
        for name in names:
            if name in task.inputs:
                self._require(name, job)
        inputs = {name: columns.value(name, job.values) for name in names}
        return await self._visits_of(queue).run(job, task, inputs)

    def _require(self, name: str, job: Job) -> str:
        """The column of an input; raises NoSuchColumn, with which the row waits."""
        try:
            return self._settings.columns.require(name, job.values, job.queue.table)
        except NoSuchColumn as error:
            warn_once(job.queue.name, str(error))
            raise

    def _visits_of(self, queue: str) -> Visits:
        from tabellion.net.chromium import Chromium
        from tabellion.pipelines.registries.visits import Visits

        name = self._settings.profiles[queue].name
        if name not in self._visits:
            if self._chromium is None:
                self._chromium = Chromium()
            self._visits[name] = Visits(
                self._settings.profiles[queue], self._settings.accounts[name], self._settings.folder, self._chromium,
                self._settings.rules[name],
            )  # fmt: skip
        return self._visits[name]

    async def _store(self, job: Job, result: TaskResult) -> str:
        if result.file is None:
            raise Permanent(Message("registry.no_download"))
        with result.file.open("rb") as file:
            if not file.read(len(PDF)).startswith(PDF):
                # Sites often send an error page as the file; a retry usually helps.
                title = self._settings.profiles[job.queue.name].title
                raise SiteProblem(title, "retry", Message("registry.not_a_pdf"))
        job.note(Message("registry.note_storing"))
        return await self._files(job.environment).save(result.file)


def _distinct(names: list[Mapping[str, str]]) -> list[dict[str, str]]:
    """Each name once, with its first state."""
    found: dict[str, dict[str, str]] = {}
    for entry in names:
        if entry.get("name"):
            found.setdefault(entry["name"], dict(entry))
    return list(found.values())


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
