"""The configuration of OCR."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.config import load
from tabellion.errors import ConfigurationError
from tabellion.pipelines.ocr.pipeline import PIPELINE
from tabellion.pipelines.ocr.queues import queues_of
from tabellion.pipelines.ocr.settings import settings_of


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "tabellion.toml"
    file.write_text(f'data = "{tmp_path}"\n{text}')
    return file


def test_without_configuration_documents_are_read_locally(tmp_path: Path) -> None:
    """Without a model, four at once."""
    [queue] = queues_of(load(written(tmp_path, ""), {}))
    assert (queue.concurrency, queue.uses, queue.name) == (4, None, "ocr")
    assert "error_message" not in queue.columns()


def test_the_number_of_documents_read_at_once_is_configured(tmp_path: Path) -> None:
    """In each worker process."""
    [queue] = queues_of(load(written(tmp_path, "[ocr]\nworkers = 2\n"), {"TABELLION_OCR_WORKERS": "7"}))
    assert queue.concurrency == 7


def test_the_number_of_workers_is_a_number_of_processes(tmp_path: Path) -> None:
    """Each reads one document at a time, unless it is told otherwise."""
    for text, documents in (("", 1), ("[ocr]\nworkers = 2\n", 2)):
        config = load(written(tmp_path, text), {"OCR_WORKER_COUNT": "7"})
        assert PIPELINE.worker_defaults(config) == {"concurrency": documents, "processes": 7}
        assert queues_of(config)[0].concurrency == documents


def test_a_model_is_used_through_its_gate(tmp_path: Path) -> None:
    """While the gate is closed, nothing is claimed."""
    text = '[ocr]\nmodel = "gemini"\n[models]\ngemini = { key = "k", gate = "google" }\n'
    config = load(written(tmp_path, text), {})
    assert settings_of(config).gate == "google"
    assert queues_of(config)[0].uses == "google"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[ocr]\nmodel = "gpt9"\n', r"ocr\.model: unknown model 'gpt9'; known: local"),
        ('[extractions]\nopen = ["https://x"]\n', r"extractions\.open"),
    ],
)
def test_invalid_settings_are_rejected_before_anything_starts(tmp_path: Path, text: str, message: str) -> None:
    """An unknown model, and an invalid place for files."""
    config = load(written(tmp_path, text), {})
    with pytest.raises(ConfigurationError, match=message):
        PIPELINE.check(config)


@pytest.mark.parametrize("text", ['[ocr]\npages = "some"\n', '[ocr]\nboost = "yes"\n', "[ocr]\nworkers = 0\n"])
def test_invalid_values_are_rejected(tmp_path: Path, text: str) -> None:
    """The configuration rejects invalid values."""
    with pytest.raises(ConfigurationError, match=r"ocr\."):
        load(written(tmp_path, text), {})
