"""The current types, and which model an upload gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tabellion.errors import ConfigurationError
from tabellion.pipelines.documents.settings import Settings, Unknown
from tests.pipelines.documents.papers import write_type


def test_a_type_is_compiled_again_when_its_file_changes(settings: Settings) -> None:
    """The same object while the file is unchanged; another key once it has changed."""
    write_type(settings, "slip")
    first = settings.types.get("slip")
    assert settings.types.get("slip") is first
    write_type(settings, "slip", "  tax: money\n")
    assert "tax" in settings.types.get("slip")
    assert settings.types.get("slip").key != first.key


def test_without_a_type_the_key_depends_on_all_types(settings: Settings) -> None:
    """A new or changed type may be the one a document is detected as."""
    before = settings.types.key(None)
    assert before.startswith("auto/")
    assert settings.types.key(None) == before
    write_type(settings, "slip")
    assert settings.types.key(None) != before


def test_a_broken_type_file_stops_only_its_own_documents(settings: Settings) -> None:
    """Requested by name it reports the error; the others continue."""
    write_type(settings, "slip", "  what is: this\n")
    assert "invoice" in [one.name for one in settings.types.all()]
    with pytest.raises(ConfigurationError, match=r"slip\.yaml"):
        settings.types.get("slip")


def test_all_errors_are_reported_at_start(settings: Settings) -> None:
    """Of every file, with line and column; valid files are not named."""
    for name in ("slip", "slop"):
        write_type(settings, name, "  what is: this\n")
    write_type(settings, "fine")
    with pytest.raises(ConfigurationError) as caught:
        settings.types.check()
    assert [line for line in str(caught.value).splitlines() if "slip.yaml:6:3: " in line]
    assert [line for line in str(caught.value).splitlines() if "slop.yaml:6:3: " in line]
    assert "fine" not in str(caught.value)


def test_unknown_names_are_reported_with_the_known_ones(settings: Settings) -> None:
    """Types and models alike."""
    with pytest.raises(Unknown, match=r"unknown document type 'bill'; known: deed, invoice, receipt"):
        settings.types.get("bill")
    with pytest.raises(Unknown, match=r"unknown model 'gemini'; known: local") as caught:
        settings.choose_model("gemini", None)
    assert (caught.value.field, caught.value.known) == ("model", ("local",))


def test_the_model_is_that_of_the_upload_then_the_type_then_the_default(settings: Settings) -> None:
    """The most specific choice wins."""
    rich = replace(settings, models={"gemini": "gemini", "openai": "shared"}, default_model="openai")
    write_type(rich, "slip", "processing: {model: gemini}\n")
    slip = rich.types.get("slip")
    assert rich.choose_model("local", slip) == "local"
    assert rich.choose_model(None, slip) == "gemini"
    assert rich.choose_model(None, rich.types.get("invoice")) == "openai"
    assert rich.gates() == {"local": None, "gemini": "gemini", "openai": "shared"}
