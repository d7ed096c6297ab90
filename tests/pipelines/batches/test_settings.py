"""The settings of batches: stores, secrets and bounds, and errors that name the key."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from tabellion.config import load
from tabellion.errors import ConfigurationError
from tabellion.pipelines.batches.content import IpfsContent, LakeContent
from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.queues import fetching_queue, publishing_queue
from tabellion.pipelines.batches.settings import origin_of, settings_of
from tabellion.storage.cid import cid_of
from tests.pipelines.batches.kubo import running_node
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
    assert settings.configured_secret("https://o.example/callback/b/ocr") == SECRET
    assert settings.configured_secret("https://other.example/") is None
    assert SECRET not in repr(settings)


def test_one_entry_is_for_all_other_orchestrators(tmp_path: Path) -> None:
    """A star; an entry of one's own comes first."""
    other = "whsec_" + base64.b64encode(b"sixteen bytes or more").decode()
    text = f'[batches.orchestrators]\n"https://o.example" = "{SECRET}"\n"*" = "{other}"\n'
    settings = configured(tmp_path, text)
    assert settings.configured_secret("https://o.example/x") == SECRET
    assert settings.configured_secret("https://other.example/x") == other


def test_an_empty_store_is_the_default_one(tmp_path: Path) -> None:
    """Compose files pass variables that are not set as empty texts; the current folder would be a surprise."""
    settings = configured(tmp_path, '[batches]\nstaging = ""\ncontent = ""\n')
    assert settings.staging.lake.url == configured(tmp_path, "").staging.lake.url
    cid = asyncio.run(settings.content.put(b"x"))
    assert asyncio.run(configured(tmp_path, "").content.get(cid)) == b"x"


def test_an_ipfs_node_may_be_on_this_machine(tmp_path: Path) -> None:
    """It is configured, so its own host and port are allowed, by address and by name."""
    for host in ("127.0.0.1", "localhost"):
        with running_node() as node:
            url = node.url.replace("127.0.0.1", host)
            settings = configured(tmp_path, f'[batches]\ncontent = "ipfs+{url}"\n')
            assert isinstance(settings.content, IpfsContent)
            assert asyncio.run(settings.content.put(b"x")) == cid_of(b"x")


def test_a_chunk_is_retried_for_longer_than_a_restart_takes(tmp_path: Path) -> None:
    """Five times, as the description says, and over ten minutes and more."""
    settings = configured(tmp_path, "")
    assert (len(settings.chunk_waits), sum(settings.chunk_waits) > 600) == (settings.global_retries, True)
    for queue in (fetching_queue(settings), publishing_queue(settings)):
        assert (queue.waits, queue.max_attempts) == (settings.chunk_waits, 6)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('model = "nonesuch"', r"batches\.model"),
        ('secret = "short"', r"batches\.secret"),
        ('networks = ["everywhere"]', r"batches\.networks"),
        ('unknown_tip = "begin"', r"batches\.unknown_tip"),
        ("most_failed = 2", r"batches\.most_failed"),
        ('content = "ftp://host"', r"batches\.content"),
        ('orchestrators = { "o.example" = "whsec_x" }', r"batches\.orchestrators"),
        ('orchestrators = { "https://o.example" = "plain" }', r"batches\.orchestrators.*whsec_"),
        ('orchestrators = { "https://o.example" = "whsec_" }', r"batches\.orchestrators.*bytes"),
        ('orchestrators = { "https://o.example" = "whsec_not-base64-not-base64!" }', r"batches\.orchestrators.*base64"),
        ('orchestrators = { "https://o.example:99999" = "whsec_x" }', r"batches\.orchestrators.*99999"),
        ('orchestrators = { "https://" = "whsec_x" }', r"batches\.orchestrators"),
        (
            f'orchestrators = {{ "https://o.example" = "{SECRET}", "https://o.example:443" = "{SECRET}" }}',
            r"batches\.orchestrators.*twice",
        ),
        ('secret = "sixteen characters é"', r"batches\.secret.*ASCII"),
        ('content = "ipfs+http://"', r"batches\.content"),
        ('content = "ipfs+http://node:99999"', r"batches\.content"),
        ('content = "ipfs+http://[::1"', r"batches\.content"),
        ('content = "ipfs+http://node:5001/api/v0"', r"batches\.content.*api/v0"),
        ('content = "s3://"', r"batches\.content"),
        ('staging = "s3://"', r"batches\.staging"),
        ('staging = "ftp://host"', r"batches\.staging"),
        ("chunk_size = 0", r"batches\.chunk_size"),
        ('chunk_sise = "1"', r"did you mean 'batches\.chunk_size'"),
    ],
)
def test_a_wrong_setting_names_its_key(tmp_path: Path, text: str, key: str) -> None:
    """Before anything starts."""
    with pytest.raises(ConfigurationError, match=key):
        configured(tmp_path, f"[batches]\n{text}\n")


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", True),
        ('content = "s3://bucket/content"', True),
        ('content = "ipfs+http://127.0.0.1:5001"', False),
        ('content = "ipfs+http://127.0.0.1:5001"\nunknown_tip = "start"', True),
        ('unknown_tip = "reject"', False),
    ],
)
def test_an_unknown_tip_starts_an_entity_except_on_an_ipfs_node(tmp_path: Path, text: str, starts: bool) -> None:
    """An IPFS node should have the tips of others, a folder of ours cannot; the setting decides otherwise."""
    assert configured(tmp_path, f"[batches]\n{text}\n").starts == starts


def test_an_origin_has_no_standard_port_and_no_path() -> None:
    """So that one entry stands for every callback of an orchestrator."""
    assert origin_of("https://O.example:443/callback/1/ocr?x=1") == "https://o.example"
    assert origin_of("http://o.example:8080/x") == "http://o.example:8080"
    assert origin_of("http://[::1]:80/") == "http://[::1]"
