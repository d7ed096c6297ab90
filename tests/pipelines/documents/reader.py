"""A worker process that reads documents with a model and may be killed: `python -m … URL FOLDER`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tabellion import Environment, GateSettings, Worker
from tabellion.config import load, model
from tabellion.pipelines.documents.queues import documents_queues
from tests.pipelines.documents.papers import settings_in

FAST = {"gemini": GateSettings(rate=500, min_rate=500, max_rate=500)}

if __name__ == "__main__":
    url, folder = sys.argv[1], Path(sys.argv[2])
    config = load(variables={})
    settings = replace(
        settings_in(folder), models={"gemini": "gemini"}, model=lambda name: model(name, config), lease=2.0,
        retry_base=0.1,
    )  # fmt: skip
    Worker([Environment("prod", url)], documents_queues(settings), poll=0.1, concurrency=6, gates=FAST).run()
