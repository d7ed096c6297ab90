"""The doctor's look at the broker."""

from __future__ import annotations

from tabellion.monitor.broker import examine_broker
from tests.servers import free_port, valkey


def test_a_broker_is_reachable_or_not() -> None:
    """The finding has the address without its password, and what to do."""
    with valkey() as url:
        assert examine_broker(url).level == "ok"
    for scheme in ("redis://:secret@", "amqp://guest:secret@"):
        finding = examine_broker(f"{scheme}127.0.0.1:{free_port()}/0")
        assert finding.level == "error"
        assert "127.0.0.1" in finding.what
        assert "secret" not in finding.what
        assert "celery.broker" in finding.fix
