"""Gives each node of a bench its own network namespace and a link to the servers, and removes all of them afterwards.

The addresses are from 198.18.0.0/15, which RFC 2544 reserves for benchmarks: no host of a real network has them.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIX = "tabellion-bench"
NAMESPACES = Path("/run/netns")


@dataclass(frozen=True)
class Link:
    """How one node reaches the servers: their address as it sees it, and what its command begins with."""

    host: str = "127.0.0.1"
    command: tuple[str, ...] = ()


def why_not() -> str | None:
    """Return why nodes cannot have network namespaces here; None when they can."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not shutil.which("ip"):
        return "iproute2 is not installed"
    try:
        with separate_links(1):
            return None
    except subprocess.CalledProcessError as error:
        return str(error.stderr).strip() or str(error)


@contextlib.contextmanager
def separate_links(count: int) -> Iterator[list[Link]]:
    """Make namespaces for the duration of a block; raise CalledProcessError where the system makes none."""
    remove_leftovers()
    network = _free_network()
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_link(network, number)) for number in range(count)]


@contextlib.contextmanager
def _link(network: str, number: int) -> Iterator[Link]:
    name, device = f"{PREFIX}-{os.getpid()}-{number}", f"tb{os.getpid()}n{number}"
    host, node = (f"{network}.{number * 4 + last}" for last in (1, 2))
    try:
        _ip("netns", "add", name)
        _ip("link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("addr", "add", f"{host}/30", "dev", device)
        _ip("link", "set", device, "up")
        _ip("-n", name, "addr", "add", f"{node}/30", "dev", "eth0")
        for inside in ("lo", "eth0"):
            _ip("-n", name, "link", "set", inside, "up")
        yield Link(host, ("ip", "netns", "exec", name))
    finally:
        _remove(name, device)


def remove_leftovers() -> None:
    """Remove what a bench that was killed has left: a namespace has the id of its process in its name."""
    for path in NAMESPACES.glob(f"{PREFIX}-*") if NAMESPACES.exists() else ():
        pid, number = path.name.removeprefix(f"{PREFIX}-").split("-")
        if not Path(f"/proc/{pid}").exists():
            _remove(path.name, f"tb{pid}n{number}")


def _free_network() -> str:
    """Return the first three parts of a network in which this machine has no address."""
    taken = subprocess.run(["ip", "-4", "addr"], check=True, capture_output=True, text=True).stdout
    while True:
        network = f"198.{random.choice((18, 19))}.{random.randrange(256)}"
        if f" {network}." not in taken:
            return network


def _remove(name: str, device: str) -> None:
    for words in (["link", "del", device], ["netns", "del", name]):
        # In a session of its own: a second Ctrl-C must not end it halfway.
        subprocess.run(["ip", *words], check=False, capture_output=True, start_new_session=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def allow(links: Sequence[Link], folder: Path) -> dict[str, str]:
    """Return settings with which PostgreSQL listens at every link and trusts the nodes behind it."""
    hosts = sorted({"127.0.0.1", *(link.host for link in links)})
    access = folder / "pg_hba.conf"
    access.write_text("".join(f"host all all {host}/{32 if host == '127.0.0.1' else 30} trust\n" for host in hosts))
    folder.chmod(0o755)
    return {"listen_addresses": ",".join(hosts), "hba_file": str(access)}
