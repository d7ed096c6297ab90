"""The broker as the sender of hints uses it: how many hints wait in a queue, and send more."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from kombu import Connection
from kombu.exceptions import ChannelError, OperationalError

from tabellion.errors import ConfigurationError, TabellionError

CONNECT = 4  # seconds for the broker to accept a connection
ANSWER = 10  # seconds for it to answer; one that has vanished without closing its connections never does
AMQP = ("amqp", "amqps", "pyamqp")  #: transports of brokers that have queues themselves
TASK = "tabellion.work"  #: the name of the task whose messages are hints


class BrokerUnreachable(TabellionError):  # noqa: N818 - what happened
    """The broker cannot be reached."""


class QuickConnection(Connection):  # type: ignore[misc]
    """A connection that is tried again every second or two, as kombu's pauses grow to half a minute.

    Losing it does not end its node, also while messages are not acknowledged.
    """

    def ensure_connection(
        self, errback: Any = None, max_retries: Any = None, interval_start: float = 0.5, interval_step: float = 0.5,
        interval_max: float = 2.0, **options: Any,
    ) -> Any:  # fmt: skip
        """Connects, and tries again until it succeeds."""
        return super().ensure_connection(errback, max_retries, interval_start, interval_step, interval_max, **options)

    def _do_close_transport(self) -> None:
        # Celery closes a lost connection twice, and acknowledges messages after that. Without the address, which kombu
        # removes from the transport here, a channel for Redis then raises an AttributeError, and Celery gives up.
        self._transport = None


class Broker:
    """One connection to the broker, for one thread; any error closes it, and the next call opens another."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._names = {lane: name for name, lane in app.node_plan.lanes.items()}
        self._connection: Any = None
        self._declared: set[str] = set()

    @property
    def address(self) -> str:
        """Its URL without the password."""
        return str(self._app.connection_for_write().as_uri())

    def count_waiting(self, environment: str, queue: str) -> int:
        """How many hints of a queue in this environment wait to be fetched; raises BrokerUnreachable."""
        name = self._names[environment, queue]
        with self._translate_errors():
            channel = self._connect().default_channel
            self._declare(channel, name)
            try:
                return int(channel.queue_declare(queue=name, passive=True).message_count)
            except ChannelError:
                # An empty list is no list for Redis; RabbitMQ has lost the queue, and the channel with it.
                if not self._is_virtual:
                    self.close()
                return 0

    def send(self, environment: str, queue: str, keys: Sequence[str]) -> None:
        """Sends a hint for each of these rows; raises BrokerUnreachable."""
        name = self._names[environment, queue]
        task = self._app.tasks[TASK]
        with self._translate_errors():
            connection = self._connect()
            self._declare(connection.default_channel, name)
            producer = self._app.amqp.Producer(connection.default_channel, auto_declare=False)
            for key in keys:
                # A lost hint is sent again, so the broker need not write it to a disk.
                task.apply_async((environment, queue, key), queue=name, producer=producer, retry=False, delivery_mode=1)

    def close(self) -> None:
        """Closes the connection."""
        connection, self._connection = self._connection, None
        self._declared.clear()
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.release()

    @property
    def _is_virtual(self) -> bool:
        """Whether kombu imitates queues here, as with Redis."""
        return self._connection.transport_cls not in AMQP

    def _connect(self) -> Any:
        if self._connection is None:
            connection = self._app.connection_for_write()
            connection.transport_options = answer_options(connection) | (connection.transport_options or {})
            self._connection = connection  # set before it is open, so that an error closes it
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
        return self._connection

    def _declare(self, channel: Any, name: str) -> None:
        if name not in self._declared:
            self._app.amqp.queues[name](channel).declare()
            self._declared.add(name)

    @contextlib.contextmanager
    def _translate_errors(self) -> Any:
        try:
            yield
        except Exception as error:
            known: tuple[Any, ...] = (OSError, OperationalError)
            if self._connection is not None:
                known += (*self._connection.connection_errors, *self._connection.channel_errors)
            self.close()
            if isinstance(error, known) or type(error).__module__.startswith(("redis.", "amqp.", "kombu.")):
                raise BrokerUnreachable(str(error) or type(error).__name__) from error
            raise


def name_queues(
    prefix: str, environments: Sequence[str], served: Collection[str], queues: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """The names of Celery's queues, in polling order, with the environment and the queue that each is for.

    With several configured `environments` each has its own, so that nodes which serve some of them get no hints of the
    others. The prefix keeps them apart from those of other configurations at the same broker. Raises ConfigurationError
    if two would have the same name.
    """
    several = len(environments) > 1
    lanes: dict[str, tuple[str, str]] = {}
    for place in environments:
        for queue in queues:
            name = f"{prefix}.{place}.{queue}" if several else f"{prefix}.{queue}"
            if name in lanes:
                other, of_other = lanes[name]
                raise ConfigurationError(
                    f"queue {of_other!r} of environment {other!r} and queue {queue!r} of environment {place!r} have "
                    f"the same name in Celery, {name!r}: rename one of the environments"
                )
            lanes[name] = place, queue
    return {name: (place, queue) for name, (place, queue) in lanes.items() if place in served}


def check_broker(url: str) -> str:
    """Connects once and returns the address without the password; raises BrokerUnreachable."""
    connection = Connection(url, connect_timeout=CONNECT)
    connection.transport_options = answer_options(connection)
    try:
        connection.connect()
        connection.default_channel.close()
        return str(connection.as_uri())
    except Exception as error:
        raise BrokerUnreachable(f"{connection.as_uri()}: {str(error) or type(error).__name__}") from error
    finally:
        connection.release()


def answer_options(connection: Any) -> dict[str, float]:
    """How long a connection that blocks waits for the broker, in the words of its transport."""
    if connection.transport_cls in AMQP:
        return {"read_timeout": ANSWER, "write_timeout": ANSWER}
    return {"socket_connect_timeout": CONNECT, "socket_timeout": ANSWER}
