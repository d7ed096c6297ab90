"""What pipelines declare for their worker: used where nothing is configured, and never against another pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.cli.worker_defaults import with_worker_defaults
from tabellion.config import Config, load
from tabellion.installed_pipelines import find_pipelines
from tests.cli.project import Project
from tests.cli.test_worker import ids_of, stop
from tests.waiting import eventually


def configured(tmp_path: Path, *pipelines: str, text: str = "", **variables: str) -> Config:
    """Return the configuration of a worker of these pipelines."""
    file = tmp_path / "tabellion.toml"
    file.write_text(f'data = "{tmp_path}"\n{text}')
    return with_worker_defaults(load(file, variables), find_pipelines(pipelines))


def test_a_worker_of_registries_has_its_own_defaults(tmp_path: Path) -> None:
    """Three jobs at once, a poll every five seconds, and a name; OCR beside it has its own slots."""
    alone, both = configured(tmp_path, "registries"), configured(tmp_path, "registries", "ocr")
    assert (alone.worker_name, alone.concurrency, alone.poll) == ("unified-worker", 3, 5.0)
    assert (both.worker_name, both.concurrency, both.poll) == ("unified-worker", 7, 5.0)


def test_configured_values_are_kept(tmp_path: Path) -> None:
    """Even where they equal the general default; variables count as configuration."""
    text = '[worker]\nname = "mine"\nconcurrency = 100\n'
    config = configured(tmp_path, "registries", text=text, TABELLION_POLL="1")
    assert (config.worker_name, config.concurrency, config.poll) == ("mine", 100, 1.0)


@pytest.mark.parametrize("pipelines", [(), ("registries", "documents")])
def test_another_pipeline_keeps_the_general_defaults(tmp_path: Path, pipelines: tuple[str, ...]) -> None:
    """Documents declare nothing: they get all the slots they would have without registries."""
    config = configured(tmp_path, *pipelines)
    assert (config.worker_name, config.concurrency, config.poll) == (None, Config.concurrency, Config.poll)


def test_the_command_uses_these_defaults(lite: Project) -> None:
    """`tabellion worker --with registries` alone: its id and its slots."""
    (lite.folder / "tabellion.toml").write_text(
        f'data = "{lite.folder}/data"\npipelines = ["registries"]\n[environments]\nprod = "{lite.url}"\n'
    )
    assert lite.run("migrate", "--with", "registries").exit_code == 0
    process = lite.start("worker")
    try:
        eventually(lambda: len(ids_of(lite)) == 1, within=30)
    finally:
        stop(process)
    [worker] = lite.sql("SELECT id, slots FROM tabellion_workers")
    assert worker["id"].startswith("unified-worker-")
    assert worker["slots"] == 3
