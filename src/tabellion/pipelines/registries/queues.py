"""The queues of registries: documents to fetch, companies and rights to look up."""

from __future__ import annotations

from collections.abc import Collection

from tabellion.engine.queue import Queue
from tabellion.extractions import tables as extractions
from tabellion.pipelines.registries import states, tables
from tabellion.pipelines.registries.account_files import WAIT_SECONDS
from tabellion.pipelines.registries.handlers import RegistryHandlers
from tabellion.pipelines.registries.settings import RegistrySettings

#: Seconds that one visit of a site may take. The wait for an account before it is added, so that it costs no visit.
TIMEOUT = 900.0 + WAIT_SECONDS
LEASE = 60.0
#: Seconds that a row waits for a closed gate or a maintenance page before it fails.
DEADLINE = 7 * 86_400.0
#: Seconds after which a row that another program left running is taken over. `rdprm_searches` has no column to tell
#: its age by: use `tabellion release` for its rows.
STALE_AFTER = 300.0
MOST_DEFERRALS = 100_000  #: never reached: the deadline comes first


def registry_queues(settings: RegistrySettings, handlers: RegistryHandlers) -> list[Queue]:
    """The three queues with their handlers, in the order in which a worker checks them."""
    extraction, companies, rights = extraction_queue(settings), companies_queue(settings), rights_queue(settings)
    extraction.handler(handlers.extract)
    companies.handler(handlers.look_up_company)
    rights.handler(handlers.look_up_rights)
    companies.prepare = rights.prepare = tables.SCHEMA.prepare
    return [extraction, companies, rights]


def extraction_queue(settings: RegistrySettings) -> Queue:
    """Documents of the land registry."""
    queue = Queue(
        extractions.TABLE, name="extraction", status="status_id", **states.EXTRACTION,
        worker="worker_id", started_at="processing_started_at", error="error_message",
        updated_at="updated_at", updated_at_optional=True,
        keep_error=True, renew_mirrors=True, stale_after=STALE_AFTER,
        uses=_gate(settings, "extraction"), concurrency=_visits(settings, "extraction"),
        lease=LEASE, timeout=TIMEOUT, retry_base=settings.retry_base, deadline=DEADLINE, max_deferrals=MOST_DEFERRALS,
    )  # fmt: skip
    return _with_columns(queue, settings, _extraction_inputs(settings))


def companies_queue(settings: RegistrySettings) -> Queue:
    """Companies of the enterprise register."""
    queue = Queue(
        tables.SESSIONS, name="companies", **states.COMPANIES,
        updated_at="updated_at", renew_mirrors=True, stale_after=STALE_AFTER,
        uses=_gate(settings, "companies"), concurrency=_visits(settings, "companies"),
        lease=LEASE, timeout=TIMEOUT, retry_base=settings.retry_base, deadline=DEADLINE, max_deferrals=MOST_DEFERRALS,
    )  # fmt: skip
    return _with_columns(queue, settings, ("company",))


def rights_queue(settings: RegistrySettings) -> Queue:
    """Names to look up in the register of rights."""
    queue = Queue(
        tables.RIGHTS, name="rights", **states.RIGHTS, done_at="completed_at",
        uses=_gate(settings, "rights"), concurrency=_visits(settings, "rights"),
        lease=LEASE, timeout=TIMEOUT, retry_base=settings.retry_base, deadline=DEADLINE, max_deferrals=MOST_DEFERRALS,
    )  # fmt: skip
    return _with_columns(queue, settings, ("name",))


def _extraction_inputs(settings: RegistrySettings) -> set[str]:
    """The column for the file, and the inputs that every task of the land registry requires."""
    inputs = [set(task.inputs) for task in settings.profiles["extraction"].tasks.values()]
    return {"storage_path", *set.intersection(*inputs)}


def _with_columns(queue: Queue, settings: RegistrySettings, names: Collection[str]) -> Queue:
    """The queue, which reports to `doctor` the inputs that its table has no column for."""
    queue.check_columns = lambda there: settings.columns.lacks(sorted(names), there, queue.table)
    return queue


def _gate(settings: RegistrySettings, queue: str) -> str | None:
    """The gate of claims: that of the account if there is only one; of several, one may be closed and another open."""
    accounts = settings.accounts_of(queue)
    return accounts[0].gate if len(accounts) == 1 else None


def _visits(settings: RegistrySettings, queue: str) -> int:
    """How many jobs may run: an account has one session, so more jobs than accounts would only wait."""
    return max(1, len(settings.accounts_of(queue)))
