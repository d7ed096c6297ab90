"""The HTTP listener of one worker process, from which Prometheus reads its metrics."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

from tabellion.errors import ConfigurationError
from tabellion.monitor.metrics.exposition import Exposition, require_client
from tabellion.monitor.metrics.metric import Sample

logger = logging.getLogger("tabellion.worker")


@contextlib.contextmanager
def metrics_listener(host: str, port: int, read: Callable[[], Iterable[Sample]]) -> Iterator[str]:
    """Serves the samples at http://HOST:PORT/metrics for the length of a block, whose value is that address.

    It has a thread of its own and no authentication: what it answers contains counts and the names of queues.
    """
    require_client()
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, Exposition().registry(read))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"metrics: cannot listen on {host}:{port}: {reason}; choose another port") from error
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{server.server_port}/metrics"
    logger.info("metrics at %s", address)
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join(1)
