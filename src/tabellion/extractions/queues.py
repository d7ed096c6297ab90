"""The queues on `extraction_queue`: each pipeline that works on the table registers its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExtractionQueue:
    """What the table's pages and routes need to know of a queue."""

    name: str
    pipeline: str  #: its name; `columns` in its section of the configuration may name columns with inputs
    error: str  #: the column of its errors


#: By name. All installed pipelines are in it: rows may be worked on elsewhere.
QUEUES: dict[str, ExtractionQueue] = {}


def register(queue: ExtractionQueue) -> None:
    """Adds a queue; called where a pipeline is declared."""
    QUEUES[queue.name] = queue
