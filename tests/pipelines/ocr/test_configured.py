"""OCR as it is configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.config import load
from tabellion.errors import ConfigurationError
from tabellion.pipelines.ocr.configured import queues_of, settings_of
from tabellion.pipelines.ocr.pipeline import PIPELINE


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "tabellion.toml"
    file.write_text(f'data = "{tmp_path}"\n{text}')
    return file


def test_without_configuration_documents_are_read_here(tmp_path: Path) -> None:
    """By no model, four at once."""
    [queue] = queues_of(load(written(tmp_path, ""), {}))
    assert (queue.concurrency, queue.uses, queue.name) == (4, None, "ocr")
    assert "error_message" not in queue.columns()


@pytest.mark.parametrize("variable", ["OCR_WORKER_COUNT", "TABELLION_OCR_WORKERS"])
def test_the_number_of_workers_is_how_many_documents_are_read_at_once(tmp_path: Path, variable: str) -> None:
    """In each worker process."""
    [queue] = queues_of(load(written(tmp_path, "[ocr]\nworkers = 2\n"), {variable: "7"}))
    assert queue.concurrency == 7


def test_a_model_is_used_through_its_gate(tmp_path: Path) -> None:
    """While the gate is closed nothing is claimed."""
    text = '[ocr]\nmodel = "gemini"\n[models]\ngemini = { key = "k", gate = "google" }\n'
    config = load(written(tmp_path, text), {})
    assert settings_of(config).gate == "google"
    assert queues_of(config)[0].uses == "google"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[ocr]\nmodel = "gpt9"\n', r"ocr\.model: unknown model 'gpt9'; known: local"),
        ('[extractions]\nopen = ["https://x"]\n', r"extractions\.open"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(tmp_path: Path, text: str, told: str) -> None:
    """A model that nobody provides, and files in places that are none."""
    config = load(written(tmp_path, text), {})
    with pytest.raises(ConfigurationError, match=told):
        PIPELINE.check(config)


@pytest.mark.parametrize("text", ['[ocr]\npages = "some"\n', '[ocr]\nboost = "yes"\n', "[ocr]\nworkers = 0\n"])
def test_values_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    """By the configuration itself."""
    with pytest.raises(ConfigurationError, match=r"ocr\."):
        load(written(tmp_path, text), {})
