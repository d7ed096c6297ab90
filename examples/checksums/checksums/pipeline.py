"""A pipeline of your own: texts are sent in, a worker computes their SHA-256, people see the list on a page.

Install it beside tabellion (`pip install ./examples/checksums`), then

    tabellion up --with checksums
    tabellion checksum "some text"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tabellion import Pipeline, Queue
from tabellion.engine.schema import Schema

from .queues import checksums_queue
from .tables import SCHEMA

if TYPE_CHECKING:
    from tabellion.web.blueprint import Blueprint


class Checksums(Pipeline):
    """A table, a queue, an event, two routes of the API, a page with its place in the header, and a command."""

    name = "checksums"
    title = "Checksums"
    catalogues = ("checksums",)
    events = ("checksum.computed",)
    commands: Mapping[str, str] = {"checksum": "checksums.commands"}

    def schemas(self) -> Sequence[Schema]:
        """One table."""
        return (SCHEMA,)

    def queues(self, config: object, environment: object = None) -> Sequence[Queue]:
        """One queue."""
        return (checksums_queue(),)

    def blueprint(self) -> Blueprint:
        """Imported here: a worker needs no web framework."""
        from tabellion.web.blueprint import Blueprint

        from . import api, pages

        return Blueprint(
            routers=(api.router, pages.router),
            policy=api.POLICY,
            pages=pages.POLICY,
            places=pages.PLACES,
            package="checksums",
            problems=("checksum_empty",),
            main_queue="checksums",
        )


PIPELINE = Checksums()
