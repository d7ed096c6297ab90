"""Renews the times in the rows with the lease, for other programs that judge a row by its age."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tabellion.engine.database import Database
from tabellion.engine.job import Job
from tabellion.engine.tables.declaration import Bound
from tabellion.errors import StoreError


async def renew_mirrors(database: Database, bound: Bound, jobs: Sequence[Job]) -> None:
    """Renews the times in the rows of these jobs, whose leases were just renewed, if the queue declares it."""
    if bound.queue.renew_mirrors and jobs:
        # Only the leases must succeed: a row that cannot be written now is written at the next renewal.
        with contextlib.suppress(StoreError):
            await database.renew_mirrors(bound, jobs)
