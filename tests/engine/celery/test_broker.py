"""The broker as the sender of hints uses it."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from kombu import Connection
from kombu.common import ignore_errors

from tabellion.engine.celery import app as celery_app
from tabellion.engine.celery import broker as celery_broker
from tabellion.engine.celery.app import make_app
from tabellion.engine.celery.broker import Broker, BrokerUnreachable, QuickConnection, name_queues
from tabellion.errors import ConfigurationError
from tests import brokers


def app_at(url: str, *queues: str, **options: Any) -> Any:
    """An application with these queues, which starts nothing."""
    lanes = name_queues("tabellion", ["prod"], ["prod"], queues)
    return make_app(
        url, lanes, lambda: pytest.fail("no worker is needed"), [], prefix="tabellion", grace=0.0, **options
    )


@pytest.mark.parametrize("kind", brokers.BROKERS)
def test_hints_wait_until_they_are_fetched_or_lost(kind: str, request: pytest.FixtureRequest) -> None:
    """They are counted; after a loss of everything the next are sent as before; the broker may also be restarted."""
    server: brokers.Broker = request.getfixturevalue(f"{kind}_broker")
    broker = Broker(app_at(server.url, "jobs"))
    assert broker.count_waiting("prod", "jobs") == 0
    broker.send("prod", "jobs", ["1", "2", "3"])
    assert broker.count_waiting("prod", "jobs") == 3
    server.flush()
    assert broker.count_waiting("prod", "jobs") == 0
    broker.send("prod", "jobs", ["4"])
    with Connection(server.url) as connection:
        message = connection.SimpleQueue("tabellion.jobs").get(timeout=10)
        message.ack()
    assert message.content_type == "application/json"
    assert json.loads(message.body)[0] == ["prod", "jobs", "4"]
    server.kill()
    with pytest.raises(BrokerUnreachable):
        broker.count_waiting("prod", "jobs")
    with pytest.raises(BrokerUnreachable):
        broker.send("prod", "jobs", ["5"])
    server.start()
    broker.send("prod", "jobs", ["6"])
    assert broker.count_waiting("prod", "jobs") == 1
    broker.close()


def test_a_lost_connection_ends_without_breaking_its_node() -> None:
    """Celery closes it twice and acknowledges hints afterwards: all that may fail there is the connection."""
    with brokers.broker("valkey") as server:
        connection = QuickConnection(server.url)
        connection.ensure_connection()
        hints = connection.SimpleQueue("tabellion.jobs")
        hints.put("hint")
        message = hints.get(timeout=10)
        commands = connection.SimpleQueue("commands", channel=connection.channel())
        with pytest.raises(commands.Empty):
            commands.get(timeout=0.1)  # both channels wait for more now
        server.kill()
        connection.collect(socket_timeout=1)
        ignore_errors(connection, connection.close)
        with pytest.raises(connection.connection_errors):
            message.ack()


def test_each_environment_has_its_own_queues() -> None:
    """With several configured, the names have the environment, also where a node serves only one of them."""
    queues = ["jobs", "mails"]
    assert name_queues("t", ["prod"], ["prod"], queues) == {"t.jobs": ("prod", "jobs"), "t.mails": ("prod", "mails")}
    both = name_queues("t", ["prod", "dev"], ["prod", "dev"], queues)
    assert list(both) == ["t.prod.jobs", "t.prod.mails", "t.dev.jobs", "t.dev.mails"]
    assert name_queues("t", ["prod", "dev"], ["dev"], ["jobs"]) == {"t.dev.jobs": ("dev", "jobs")}


def test_two_queues_with_one_name_are_refused() -> None:
    """Names may contain dots, also those of an environment that this node does not serve."""
    with pytest.raises(ConfigurationError, match=r"queue 'b.c' of environment 'a' and queue 'c' of environment 'a.b'"):
        name_queues("t", ["a", "a.b"], ["a"], ["b.c", "c"])
    assert len(name_queues("t", ["a"], ["a"], ["b.c", "c"])) == 2


@pytest.mark.parametrize("scheme", ["redis", "rediss", "amqp", "amqps"])
def test_a_broker_that_does_not_answer_is_unreachable(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that accepts connections and says nothing, as after a failover or at a wrong port, is left after a while."""
    for module in (celery_broker, celery_app):
        monkeypatch.setattr(module, "ANSWER", 0.3)
    monkeypatch.setitem(celery_app.REDIS_OPTIONS, "socket_timeout", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://:secret@127.0.0.1:{silent.getsockname()[1]}/0"
        broker = Broker(app_at(url, "jobs", settings={"broker_connection_timeout": 0.3}))
        with pytest.raises(BrokerUnreachable):
            broker.count_waiting("prod", "jobs")
        monkeypatch.setattr(celery_broker, "CONNECT", 0.3)
        with pytest.raises(BrokerUnreachable):
            celery_broker.check_broker(url)


@pytest.mark.parametrize("url", ["redis://:secret@127.0.0.1:1/0", "amqp://guest:secret@127.0.0.1:1//"])
def test_an_address_has_no_password(url: str) -> None:
    """Neither the address nor the error of an unreachable broker contains the password."""
    broker = Broker(app_at(url, "jobs"))
    assert "secret" not in broker.address
    with pytest.raises(BrokerUnreachable) as caught:
        broker.count_waiting("prod", "jobs")
    assert "secret" not in str(caught.value)
