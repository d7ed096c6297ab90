"""A worker process that delivers webhooks and may be killed: `python -m tests.pipelines.documents.deliverer URL`."""

from __future__ import annotations

import sys

from tabellion import Environment, Worker
from tabellion.delivery.outbox import webhooks_queue
from tabellion.net.guard import Rules
from tests.pipelines.documents.receiver import LOOPBACK

if __name__ == "__main__":
    Worker([Environment("prod", sys.argv[1])], [webhooks_queue(Rules.of(LOOPBACK))], poll=0.05, id="deliverer").run()
