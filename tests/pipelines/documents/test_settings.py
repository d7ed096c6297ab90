"""Types as they are now, and which model an upload gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tabellion.errors import ConfigurationError
from tabellion.pipelines.documents.settings import Settings, Unknown
from tests.pipelines.documents.papers import write_type


def test_a_type_is_compiled_again_when_its_file_changes(settings: Settings) -> None:
    """The same object while the file is the same; another key once it is not."""
    write_type(settings, "slip")
    first = settings.types.get("slip")
    assert settings.types.get("slip") is first
    write_type(settings, "slip", "  tax: money\n")
    assert "tax" in settings.types.get("slip")
    assert settings.types.get("slip").key != first.key


def test_the_key_of_no_type_is_that_of_all(settings: Settings) -> None:
    """Another type, or a changed one, may be the one a document turns out to be."""
    before = settings.types.key(None)
    assert before.startswith("auto/")
    assert settings.types.key(None) == before
    write_type(settings, "slip")
    assert settings.types.key(None) != before


def test_a_broken_type_file_stops_only_its_own_documents(settings: Settings) -> None:
    """Asked for by name it says what is wrong; the others go on."""
    write_type(settings, "slip", "  what is: this\n")
    assert "invoice" in [one.name for one in settings.types.all()]
    with pytest.raises(ConfigurationError, match=r"slip\.yaml"):
        settings.types.get("slip")


def test_whoever_starts_is_told_every_mistake(settings: Settings) -> None:
    """Of every file, with line and column; files without one are not named."""
    for name in ("slip", "slop"):
        write_type(settings, name, "  what is: this\n")
    write_type(settings, "fine")
    with pytest.raises(ConfigurationError) as caught:
        settings.types.check()
    assert [line for line in str(caught.value).splitlines() if "slip.yaml:6:3: " in line]
    assert [line for line in str(caught.value).splitlines() if "slop.yaml:6:3: " in line]
    assert "fine" not in str(caught.value)


def test_unknown_names_are_told_with_those_there_are(settings: Settings) -> None:
    """Types and models alike."""
    with pytest.raises(Unknown, match=r"unknown document type 'bill'; known: deed, invoice, receipt"):
        settings.types.get("bill")
    with pytest.raises(Unknown, match=r"unknown model 'gemini'; known: local") as caught:
        settings.choose_model("gemini", None)
    assert (caught.value.field, caught.value.known) == ("model", ("local",))


def test_the_model_is_the_upload_s_then_the_type_s_then_the_default(settings: Settings) -> None:
    """The nearest wish wins."""
    rich = replace(settings, models={"gemini": "gemini", "openai": "shared"}, default_model="openai")
    write_type(rich, "slip", "processing: {model: gemini}\n")
    slip = rich.types.get("slip")
    assert rich.choose_model("local", slip) == "local"
    assert rich.choose_model(None, slip) == "gemini"
    assert rich.choose_model(None, rich.types.get("invoice")) == "openai"
    assert rich.gates() == {"local": None, "gemini": "gemini", "openai": "shared"}
