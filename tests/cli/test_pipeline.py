"""The document pipeline as it is configured."""

from __future__ import annotations

from pathlib import Path

from tabellion.cli import pipeline
from tabellion.config import load

CONFIG = """
data = "{folder}/data"
lake = "{folder}/lake"
[environments]
prod = "sqlite:///{folder}/prod.db"
dev = "sqlite:///{folder}/dev.db"
[models.gemini]
key = "k"
gate = "google"
"""


def test_each_environment_has_folders_of_its_own(tmp_path: Path) -> None:
    """The first has those that are configured, another one a folder of its name in them."""
    (tmp_path / "tabellion.toml").write_text(CONFIG.format(folder=tmp_path))
    config = load(tmp_path / "tabellion.toml", {})
    first, second = (pipeline.settings_of(config, one) for one in config.environments)
    assert (first.blobs.root, str(first.lake.url)) == (tmp_path / "data" / "blobs", str(tmp_path / "lake"))
    assert (second.blobs.root, str(second.lake.url)) == (
        tmp_path / "data" / "dev" / "blobs",
        str(tmp_path / "lake" / "dev"),
    )


def test_every_model_has_a_queue_and_deliveries_have_theirs(tmp_path: Path) -> None:
    """Behind the gate that the configuration names."""
    (tmp_path / "tabellion.toml").write_text(CONFIG.format(folder=tmp_path))
    queues = {queue.name: queue for queue in pipeline.queues_of(load(tmp_path / "tabellion.toml", {}))}
    assert list(queues) == ["documents", "documents_gemini", "followers", "failures", "webhooks"]
    assert queues["documents_gemini"].uses == "google"
    assert all(queue.function is not None for queue in queues.values())
