"""A worker of one phase, to be killed: python -m tests.flows.website_worker URL FOLDER PHASE [hang]

With `hang`, the handler writes a file when it begins and never ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tabellion import Environment, Job, Queue, Worker
from tabellion.pipelines.websites.queues import website_queues
from tests.pipelines.websites.sites import settings_in


def main() -> None:
    """Works one phase until it is killed."""
    url, folder, phase, *rest = sys.argv[1:]
    settings = settings_in(Path(folder), lease=1.0)
    [queue] = [queue for queue in website_queues(settings) if queue.name == phase]
    Worker([Environment("prod", url)], [hanging(queue, Path(folder)) if rest else queue], poll=0.05).run()


def hanging(queue: Queue, folder: Path) -> Queue:
    """The same queue with a handler that never ends."""

    async def hang(job: Job) -> None:
        (folder / f"hanging-{queue.name}").write_text(f"{os.getpid()} {job.text_key}")
        await asyncio.Event().wait()

    queue.function = hang
    return queue


if __name__ == "__main__":
    main()
