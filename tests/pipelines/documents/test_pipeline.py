"""The document pipeline as configured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.cli.installation import Installation
from tabellion.config import load
from tabellion.errors import ConfigurationError
from tabellion.pipelines.documents.pipeline import PIPELINE
from tabellion.pipelines.documents.queues import queues_of, views_of
from tabellion.pipelines.documents.settings import gates_of, settings_of
from tabellion.web.app import serve_environment
from tests.pipelines.documents.papers import settings_in

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


def test_each_environment_has_its_own_folders(tmp_path: Path) -> None:
    """The first has the configured ones, another one a folder of its name in them."""
    (tmp_path / "tabellion.toml").write_text(CONFIG.format(folder=tmp_path))
    config = load(tmp_path / "tabellion.toml", {})
    first, second = (settings_of(config, one) for one in config.environments)
    assert (first.blobs.root, str(first.lake.url)) == (tmp_path / "data" / "blobs", str(tmp_path / "lake"))
    assert (second.blobs.root, str(second.lake.url)) == (
        tmp_path / "data" / "dev" / "blobs",
        str(tmp_path / "lake" / "dev"),
    )


def test_every_model_has_a_queue_and_deliveries_have_theirs(tmp_path: Path) -> None:
    """Behind the gate that the configuration names."""
    (tmp_path / "tabellion.toml").write_text(CONFIG.format(folder=tmp_path))
    queues = {queue.name: queue for queue in queues_of(load(tmp_path / "tabellion.toml", {}))}
    assert list(queues) == [
        "documents", "documents_gemini", "followers", "failures", "reviewed", "superseded",
    ]  # fmt: skip
    assert queues["documents_gemini"].uses == "google"
    assert all(queue.function is not None for queue in queues.values())


def test_own_queues_are_listed(tmp_path: Path) -> None:
    """Beside those of the document service, under other names; without a module there are only those."""
    (tmp_path / "own.py").write_text(
        "from tabellion import Queue\nmine = Queue('mine', ready=1, running=2, done=3, failed=4)\n"
    )
    (tmp_path / "tabellion.toml").write_text(f'queues = "{tmp_path}/own.py"\n' + CONFIG.format(folder=tmp_path))
    config = load(tmp_path / "tabellion.toml", {})
    installation = Installation(config, config.environments, [PIPELINE], host="", port=0)
    assert [view.name for view in installation.own_queues()] == ["mine"]
    plain = Installation(replace(config, queues=None), config.environments, [PIPELINE], host="", port=0)
    assert plain.own_queues() == []
    (tmp_path / "own.py").write_text(
        "from tabellion import Queue\nmine = Queue('mine', name='webhooks', ready=1, running=2, done=3, failed=4)\n"
    )
    with pytest.raises(ConfigurationError, match="two queues are named 'webhooks'"):
        serve_environment(config, [PIPELINE], "prod", Store("sqlite://"), own=installation.own_queues())


def test_every_queue_is_listed(tmp_path: Path) -> None:
    """One per model, review in each of its endings, and the follow-up queues."""
    views = views_of(settings_in(tmp_path, models={"gemini": "gate"}))
    assert [view.name for view in views][:3] == ["documents", "documents_gemini", "review"]
    assert {view.name for view in views if view.chore} == {"followers", "failures", "reviewed", "superseded"}
    [review] = [view for view in views if view.people]
    assert review.words("done") == "status = 'approved' or status = 'corrected' or status = 'rejected'"
    assert review.page == "/review/{}"


def test_a_model_with_a_key_in_a_variable_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key need not be repeated in a file; the configured gate stays."""
    (tmp_path / "tabellion.toml").write_text(CONFIG.format(folder=tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    config = load(tmp_path / "tabellion.toml", {})
    assert settings_of(config).gates() == {"local": None, "gemini": "google", "openai": "openai"}


def test_a_type_that_names_its_model_sets_the_breaker_of_its_gate(tmp_path: Path) -> None:
    """The strictest setting wins; the configuration of a gate overrides it."""
    types = tmp_path / "types"
    types.mkdir()
    for name, threshold, recovery in (("one", 3, 30), ("two", 9, 90)):
        (types / f"{name}.yaml").write_text(
            f"""name: {name}
version: "1"
fields:
  title: {{type: text}}
processing:
  model: gemini
  circuit_breaker: {{failure_threshold: {threshold}, recovery_timeout: {recovery}}}
"""
        )
    text = f'types = ["{types}"]\n' + CONFIG.format(folder=tmp_path)
    (tmp_path / "tabellion.toml").write_text(text)
    gates = gates_of(load(tmp_path / "tabellion.toml", {}))
    assert (gates["google"].threshold, gates["google"].recovery) == (3, 90)
    (tmp_path / "tabellion.toml").write_text(text + "\n[gates.google]\nthreshold = 7\n")
    assert "google" not in gates_of(load(tmp_path / "tabellion.toml", {}))


def test_settings_follow_the_configuration(tmp_path: Path) -> None:
    """The default model, OCR, times and pages; an unknown model is rejected."""
    text = CONFIG.format(folder=tmp_path) + (
        '[documents]\nmodel = "gemini"\nocr = "always"\nsla = 60\ntimeout = 5\nmodel_deadline = 7\npages_sent = 2\n'
    )
    (tmp_path / "tabellion.toml").write_text(text)
    settings = settings_of(load(tmp_path / "tabellion.toml", {}))
    assert settings.choose_model(None, None) == "gemini"
    assert (settings.ocr, settings.sla, settings.timeout) == ("always", 60.0, 5.0)
    assert (settings.model_deadline, settings.pages_sent) == (7.0, 2)
    (tmp_path / "tabellion.toml").write_text(text.replace('model = "gemini"', 'model = "gemniy"'))
    with pytest.raises(ConfigurationError, match=r"documents\.model: unknown model 'gemniy'; known: local, gemini"):
        settings_of(load(tmp_path / "tabellion.toml", {}))


def test_an_unavailable_configured_model_is_rejected_at_the_start(tmp_path: Path) -> None:
    """Not by every document in turn."""
    text = CONFIG.format(folder=tmp_path) + '[models]\ngpt = { model = "gpt-5" }\n[documents]\nmodel = "gpt"\n'
    (tmp_path / "tabellion.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"models\.gpt: unknown model 'gpt'; known: gemini, "):
        settings_of(load(tmp_path / "tabellion.toml", {}))
