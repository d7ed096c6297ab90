"""Which addresses a model may have."""

from __future__ import annotations

import socket

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.address import check
from tabellion.models.catalog import make
from tabellion.net.guard import Rules


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of names that needs no network."""
    known = {"api.example.com": "93.184.215.14", "llm.example.com": "10.0.0.7", "sly.example.com": "169.254.169.254"}

    def look(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if host not in known:
            raise socket.gaierror("unknown")
        return [(0, 0, 0, "", (known[host], port))]

    monkeypatch.setattr(socket, "getaddrinfo", look)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1", "https://93.184.215.14", "http://127.0.0.1:11434/v1", "http://localhost:8000",
        "http://[::1]:8000", "http://10.1.2.3/v1", "http://192.168.0.9:8000", "http://ollama:11434",
        "http://vllm.models.svc/v1", "http://llm.example.com", "http://nobody.example.com", "http://me:pass@127.0.0.1:1",
    ],
)  # fmt: skip
def test_a_model_may_be_local_or_behind_https(url: str) -> None:
    """On this machine, in a private network, or anywhere with TLS."""
    check("openai", url)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://169.254.169.254/v1", "credentials"), ("https://169.254.169.254/v1", "credentials"),
        ("https://metadata.google.internal/v1", "credentials"), ("http://sly.example.com", "credentials"),
        ("http://[fd00:ec2::254]/", "credentials"), ("http://api.example.com/v1", "unencrypted"),
        ("http://93.184.215.14:8000", "unencrypted"),
    ],
)  # fmt: skip
def test_an_address_that_would_leak_the_key_is_rejected(url: str, why: str) -> None:
    """A metadata server, and plain HTTP over the internet; when the model is created."""
    with pytest.raises(ConfigurationError, match=why) as caught:
        make("openai", {"key": "canary", "base_url": url}, {})
    assert "canary" not in str(caught.value)


@pytest.mark.usefixtures("names")
def test_an_allowed_network_may_use_plain_http() -> None:
    """But never a metadata server."""
    rules = Rules.of(["93.184.215.0/24", "169.254.0.0/16"])
    check("openai", "http://api.example.com/v1", rules)
    with pytest.raises(ConfigurationError):
        check("openai", "http://169.254.169.254", rules)
