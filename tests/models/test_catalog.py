"""From names and settings to models."""

from __future__ import annotations

import asyncio
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, get_args

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models import catalog
from tabellion.models.catalog import MODELS, make, names, variable
from tabellion.models.errors import Fault, KeyRefused, Rejected
from tests.models.echo import Echo

CANARY = "canary-key-1234567890"


@pytest.mark.parametrize("name", ["gemini", "openai", "deepinfra"])
def test_every_setting_has_a_variable(name: str) -> None:
    """Ours overrides the settings, and they the names that people already have."""
    for key, others in MODELS[name].variables.items():
        values = {"key": "k", "base_url": "http://127.0.0.1:1", "model": "m", "api_version": "v1beta"}
        ours, settings, theirs = ({"key": "k", key: values[key] + suffix} for suffix in ("/1", "/2", "/3"))
        for other in others:
            variables = {variable(name, key): ours[key], other: theirs[key]}
            assert shown(make(name, settings, variables), key) == ours[key]
            variables.pop(variable(name, key))
            assert shown(make(name, settings, variables), key) == settings[key]
            settings_without = {"key": "k"} if key != "key" else {}
            assert shown(make(name, settings_without, variables), key) == theirs[key]


def shown(model: Any, key: str) -> str:
    return str(model._key if key == "key" else getattr(model, key))


@pytest.mark.parametrize(
    ("name", "says"),
    [("gemini", "GEMINI_API_KEY"), ("openai", "OPENAI_API_KEY"), ("deepinfra", "DEEPINFRA_API_KEY")],
)
def test_a_missing_key_names_the_variable(name: str, says: str) -> None:
    """The message says what to set."""
    with pytest.raises(ConfigurationError, match=f"set {says}"):
        make(name, {}, {})


def test_a_local_server_needs_no_key() -> None:
    """vLLM or Ollama on this machine."""
    assert make("openai", {"base_url": "http://127.0.0.1:8000/v1"}, {}).model


def test_the_local_model_needs_nothing() -> None:
    """It is always available."""
    assert make("local", {}, {}).name == "local"


def test_unknown_names_and_keys_get_a_suggestion() -> None:
    """Typing errors get the name that was probably meant."""
    with pytest.raises(ConfigurationError, match="did you mean 'gemini'"):
        make("gemimi", {}, {})
    with pytest.raises(ConfigurationError, match="did you mean 'base_url'"):
        make("gemini", {"key": "k", "base_uri": "x"}, {})
    with pytest.raises(ConfigurationError, match="known: gemini"):
        make("zzz", {}, {})


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://x:port", ""])
def test_a_base_url_must_be_valid(url: str) -> None:
    """Anything that is not http or https with a host is rejected; an empty setting does not count."""
    if not url:
        assert make("gemini", {"key": "k", "base_url": url}, {})
        return
    with pytest.raises(ConfigurationError, match="base URL"):
        make("gemini", {"key": "k", "base_url": url}, {})


def test_keys_are_never_shown() -> None:
    """Not in repr, not in errors, not even a key that cannot be sent."""
    for name in ("gemini", "openai", "deepinfra"):
        model = make(name, {"key": CANARY, "base_url": f"http://me:{CANARY}@127.0.0.1:1"}, {})
        assert CANARY not in repr(model)
        assert CANARY not in str(model)
        with pytest.raises(ConfigurationError) as caught:
            make(name, {"key": f"{CANARY}\n{CANARY}"}, {})
        assert CANARY not in str(caught.value)


def test_a_third_party_model_by_its_class() -> None:
    """`package.module:Class` with its own settings and our variables."""
    model = make("tests.models.echo:Echo", {"model": "echo-2"}, {"TABELLION_ECHO_BASE_URL": "http://there"})
    assert isinstance(model, Echo)
    assert (model.model, model.base_url) == ("echo-2", "http://there")
    assert asyncio.run(model.call(["hello"])).text == "hello"
    assert asyncio.run(model.call(['{"a": 1}'], {"type": "object"})).object == {"a": 1}
    with pytest.raises(KeyRefused):
        asyncio.run(Echo("wrong").call(["hello"]))


def test_a_third_party_model_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package registers its own name."""
    found = EntryPoint("echo", "tests.models.echo:Echo", catalog.GROUP)
    monkeypatch.setattr(catalog, "entry_points", lambda group: [found] if group == catalog.GROUP else [])
    assert names()[-1] == "echo"
    assert isinstance(make("echo", {}, {}), Echo)


@pytest.mark.parametrize("target", ["no.such.module:Class", "tests.models.echo:Missing", "tests.models.echo:judge"])
def test_an_invalid_model_is_rejected(target: str) -> None:
    """A missing module, a missing class, and an unrelated object."""
    with pytest.raises(ConfigurationError):
        make(target, {}, {})


def test_the_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file in docs/reference/model.md works."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "model.md").read_text()
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "class Shouting" in block]
    (tmp_path / "shouting.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    model = make("shouting:Shouting", {}, {})
    reply = asyncio.run(model.call(["hello"]))
    assert reply.text == "HELLO"
    with pytest.raises(Rejected):
        asyncio.run(model.call([], None))


def test_every_variable_is_documented() -> None:
    """docs/reference/model.md names each setting's variables."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "model.md").read_text()
    for name, entry in MODELS.items():
        for key, others in entry.variables.items():
            for found in (variable(name, key), *others):
                assert f"`{found}`" in text, found


def test_every_error_and_fault_is_documented() -> None:
    """docs/reference/model.md names each class and each fault."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "model.md").read_text()
    for word in ("Rejected", "KeyRefused", "Throttled", "Unavailable", "BadOutput", *get_args(Fault)):
        assert f"`{word}`" in text, word


def test_a_key_in_a_variable_offers_its_model() -> None:
    """Ours or the usual one; an empty one does not count."""
    assert catalog.models_with_key({}) == []
    assert catalog.models_with_key({"GEMINI_API_KEY": "k", "OPENAI_API_KEY": ""}) == ["gemini"]
    assert catalog.models_with_key({"GOOGLE_API_KEY": "k", variable("deepinfra", "key"): "k"}) == [
        "gemini",
        "deepinfra",
    ]
