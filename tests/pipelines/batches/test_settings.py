"""The settings of batches: stores, secrets and bounds, and errors that name the key."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tabellion.config import load
from tabellion.errors import ConfigurationError
from tabellion.pipelines.batches.content import IpfsContent, LakeContent
from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.settings import origin_of, settings_of
from tests.pipelines.batches.material import SECRET


def configured(folder: Path, text: str, **variables: str) -> Any:
    """Return the settings of a configuration file."""
    file = folder / "tabellion.toml"
    file.write_text(f'data = "{folder}/data"\n{text}')
    config = load(file, variables)
    PIPELINE.check(config)
    return settings_of(config)


def test_the_defaults_are_those_of_the_description(tmp_path: Path) -> None:
    """Ten entities a chunk, three retries of a ref, five of a chunk."""
    settings = configured(tmp_path, "")
    assert (settings.chunk_size, settings.retries_per_ref, settings.global_retries) == (10, 3, 5)
    assert isinstance(settings.content, LakeContent)
    assert settings.secret is None


def test_secrets_come_from_variables(tmp_path: Path) -> None:
    """`${NAME}` keeps them out of the file; each orchestrator has its own."""
    text = '[batches]\nsecret = "${CALLER}"\n[batches.orchestrators]\n"https://o.example:443/" = "${ORCHESTRATOR}"\n'
    settings = configured(tmp_path, text, CALLER="a secret of 20 chars", ORCHESTRATOR=SECRET)
    assert settings.secret == "a secret of 20 chars"
    assert settings.secret_for("https://o.example/callback/b/ocr") == SECRET
    assert SECRET not in repr(settings)


def test_other_orchestrators_get_the_secret_of_the_installation(tmp_path: Path) -> None:
    """It is made once, and only its owner can read the file."""
    settings = configured(tmp_path, "")
    secret = settings.secret_for("https://elsewhere.example/x")
    assert secret.startswith("whsec_")
    assert configured(tmp_path, "").secret_for("https://third.example/") == secret
    assert stat.S_IMODE((tmp_path / "data" / "callbacks.secret").stat().st_mode) == 0o600


def test_an_ipfs_node_may_be_on_this_machine(tmp_path: Path) -> None:
    """It is configured, so its own address and port are allowed."""
    settings = configured(tmp_path, '[batches]\ncontent = "ipfs+http://127.0.0.1:5001"\n')
    assert isinstance(settings.content, IpfsContent)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('model = "nonesuch"', r"batches\.model"),
        ('secret = "short"', r"batches\.secret"),
        ('networks = ["everywhere"]', r"batches\.networks"),
        ("most_failed = 2", r"batches\.most_failed"),
        ('content = "ftp://host"', r"batches\.content"),
        ('orchestrators = { "o.example" = "whsec_x" }', r"batches\.orchestrators"),
        ('orchestrators = { "https://o.example" = "plain" }', r"batches\.orchestrators.*whsec_"),
        ("chunk_size = 0", r"batches\.chunk_size"),
        ('chunk_sise = "1"', r"did you mean 'batches\.chunk_size'"),
    ],
)
def test_a_wrong_setting_names_its_key(tmp_path: Path, text: str, key: str) -> None:
    """Before anything starts."""
    with pytest.raises(ConfigurationError, match=key):
        configured(tmp_path, f"[batches]\n{text}\n")


def test_an_origin_has_no_standard_port_and_no_path() -> None:
    """So that one entry stands for every callback of an orchestrator."""
    assert origin_of("https://O.example:443/callback/1/ocr?x=1") == "https://o.example"
    assert origin_of("http://o.example:8080/x") == "http://o.example:8080"
    assert origin_of("http://[::1]:80/") == "http://[::1]"
