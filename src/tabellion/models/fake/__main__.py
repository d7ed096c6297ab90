"""The process that `serving` starts: a fake model that ends when its standard input is closed."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TYPE_CHECKING

from tabellion.errors import ConfigurationError
from tabellion.models.fake.server import Options, run

if TYPE_CHECKING:
    import uvicorn

    from tabellion.models.fake.address import ServerAddress


def main(arguments: list[str]) -> int:
    """Serves with the options in the only argument."""
    try:
        run(Options(**json.loads(arguments[0])), _on_started)
    except ConfigurationError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    return 0


def _on_started(address: ServerAddress, server: uvicorn.Server) -> None:
    threading.Thread(target=_watch, args=[server], daemon=True).start()
    sys.stdout.write(json.dumps(address.as_json()) + "\n")
    sys.stdout.flush()


def _watch(server: uvicorn.Server) -> None:
    """Waits for the end of standard input, unbuffered: a thread in a buffered read would hold its lock at exit."""
    while os.read(0, 1024):
        pass
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
