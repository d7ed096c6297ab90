"""Settings of websites: what the configuration says, and what it must not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabellion.config import Config
from tabellion.engine.environment import Environment
from tabellion.errors import ConfigurationError
from tabellion.pipelines.websites.pipeline import PIPELINE
from tabellion.pipelines.websites.queues import website_queues
from tabellion.pipelines.websites.settings import settings_of


def configured(tmp_path: Path, **section: Any) -> Config:
    places = (Environment("prod", "sqlite:///a.db"), Environment("dev", "sqlite:///b.db"))
    return Config(data=tmp_path, environments=places, sections={"websites": section})


def test_ten_slots_a_phase_and_no_throttle_by_default(tmp_path: Path) -> None:
    """Claims are immediate; four attempts, the first and three retries."""
    for queue in website_queues(settings_of(configured(tmp_path))):
        assert (queue.concurrency, queue.pace, queue.max_attempts, queue.health) == (10, (), 4, 30.0)


def test_the_pace_of_the_seed_can_be_set(tmp_path: Path) -> None:
    """Three per cycle of five seconds, ten per minute; slots by phase."""
    config = configured(tmp_path, per_cycle=3, scan_limit=10, scan_interval=60, visit_slots=4, model_slots=7)
    queues = {queue.name: queue for queue in website_queues(settings_of(config))}
    assert {queue.pace for queue in queues.values()} == {((3, 5.0), (10, 60.0))}
    slots = {name: queue.concurrency for name, queue in queues.items()}
    assert slots == {"website-analysis": 4, "prompt-forming": 10, "model-analysis": 7, "website-models": 7}


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"scan_limit": 10}, "set together"),
        ({"model": "gpt-9"}, "unknown model 'gpt-9'"),
        ({"types": [1]}, "websites.types"),
        ({"user_agent": " "}, "user_agent"),
    ],
)
def test_what_cannot_work_is_refused_with_its_key(tmp_path: Path, section: dict[str, Any], sentence: str) -> None:
    """Before anything starts."""
    with pytest.raises(ConfigurationError, match=sentence):
        PIPELINE.check(configured(tmp_path, **section))


def test_a_broken_type_stops_the_start(tmp_path: Path) -> None:
    """With all its mistakes."""
    folder = tmp_path / "analyses"
    folder.mkdir()
    (folder / "broken.yaml").write_text("name: broken\ncolour: red\n")
    with pytest.raises(ConfigurationError, match="unknown key 'colour'"):
        PIPELINE.check(configured(tmp_path, types=[str(folder)]))


def test_each_environment_has_its_own_files(tmp_path: Path) -> None:
    """The first one in the data folder itself."""
    config = configured(tmp_path)
    folders = [settings_of(config, place).blobs.root for place in config.environments]
    assert folders == [tmp_path / "websites", tmp_path / "dev" / "websites"]
