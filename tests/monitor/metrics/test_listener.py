"""The listener of a worker process."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from tabellion.errors import ConfigurationError
from tabellion.monitor.metrics.listener import metrics_listener
from tabellion.monitor.metrics.metric import Metric

ROWS = Metric("tabellion_rows", "gauge", "Rows.")


def test_it_serves_what_is_read_at_each_scrape() -> None:
    """On loopback, and not after its block."""
    numbers = iter((1, 2))
    with metrics_listener("127.0.0.1", 0, lambda: [ROWS.sample(next(numbers))]) as address:
        assert address.startswith("http://127.0.0.1:")
        for number in (1, 2):
            with urllib.request.urlopen(address) as answer:
                assert f"tabellion_rows {number}.0" in answer.read().decode()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address)


def test_a_port_in_use_is_named() -> None:
    """The error says which port, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}.*choose another port"),
            metrics_listener("127.0.0.1", port, list),
        ):
            pass


def test_a_port_beyond_the_last_one_is_named() -> None:
    """A process of a pool can come to have one: it must not die of it."""
    with (
        pytest.raises(ConfigurationError, match=r"127.0.0.1:65536.*choose another port"),
        metrics_listener("127.0.0.1", 65536, list),
    ):
        pass
