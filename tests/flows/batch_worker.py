"""A worker of batches, to be killed: python -m tests.flows.batch_worker URL FOLDER MODEL_URL"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from tabellion.config import Config
from tabellion.config import model as configured_model
from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.gates.state import GateSettings
from tabellion.pipelines.batches.queues import batch_queues
from tabellion.pipelines.batches.settings import BatchSettings
from tests.pipelines.batches.material import LOOPBACK, settings_in
from tests.workers import make_worker

LEASE = 1.0  #: seconds
SLOTS = 8  #: refs that one worker reads at once
GATES = {"openai": GateSettings(rate=500, max_rate=1000)}


def settings_of(folder: Path, model_url: str) -> BatchSettings:
    """Settings with the fake model behind its gate; waits are short, leases too."""
    config = Config(data=folder / "data", models={"openai": {"base_url": model_url, "key": "k" * 20}})
    return replace(
        settings_in(folder), model="openai", gate="openai", make_model=partial(configured_model, config=config),
        lease=LEASE, slots=SLOTS,
    )  # fmt: skip


def main() -> None:
    """Works until it is killed; a callback is tried again and again, as over days."""
    url, folder, model_url = sys.argv[1:]
    webhooks = webhooks_queue(LOOPBACK)
    webhooks.waits, webhooks.max_attempts, webhooks.lease, webhooks.max_crashes = (0.2,), 1000, LEASE, 5
    make_worker(url, *batch_queues(settings_of(Path(folder), model_url)), webhooks, gates=GATES, concurrency=40).run()


if __name__ == "__main__":
    main()
