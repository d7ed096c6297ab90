"""A machine without a network: every address is its own loopback, and every packet is recorded.

`python -m tests.browser.isolated_network` prints as JSON the destinations of all packets while every page is used. It
needs its own network namespace (`unshare --net`, with `--map-root-user` if not root), because only there can all
addresses be routed to loopback without side effects.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.workers import ROOT

EVERY_PROTOCOL = 0x0003
OUTGOING = 4  #: how the kernel marks a packet that is being sent; on loopback each is seen twice
ELSEWHERE = "192.0.2.1"  #: reserved for documentation: nobody has it
SETUP = (
    "ip link set lo up",
    "ip route add local 0.0.0.0/0 dev lo",
    "ip -6 route add local ::/0 dev lo",
)


class PacketRecorder:
    """Records every packet of the namespace and counts its destinations."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(EVERY_PROTOCOL))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            packet, address = self._socket.recvfrom(128)
            if address[2] != OUTGOING:
                continue
            place = packet[16:20] if packet[0] >> 4 == 4 else packet[24:40]
            self.counts[str(ipaddress.ip_address(place))] += 1

    def outside(self) -> dict[str, int]:
        """Return the addresses that are not loopback."""
        return {place: count for place, count in self.counts.items() if not ipaddress.ip_address(place).is_loopback}

    def records_packets(self) -> bool:
        """Return whether a packet to another address is recorded at all."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((ELSEWHERE, 0))  # a bound socket: a refusal would be one more packet, at any time
            sender.sendto(b"hello", sender.getsockname())
        deadline = time.monotonic() + 10
        while ELSEWHERE not in self.counts and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.counts.pop(ELSEWHERE, 0) > 0


def why_not() -> str | None:
    """Return why there can be no such machine here; None when there can."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return "overhearing all packets needs `unshare` and `ip`: install util-linux and iproute2"
    steps = " && ".join(SETUP)
    done = subprocess.run([*_apart(), "sh", "-c", steps], capture_output=True, text=True, check=False, timeout=30)
    return f"this system makes no network namespace: {done.stderr.strip()}" if done.returncode else None


def _apart() -> list[str]:
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


def record_visit(within: float) -> dict[str, dict[str, int]]:
    """Return the destinations of all packets of a service and a browser on a machine without a network."""
    command = [*_apart(), sys.executable, "-m", "tests.browser.isolated_network"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=within, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Use every page and print where packets went."""
    from tests.browser.chromium import launched
    from tests.browser.installation import open_installation

    for step in SETUP:
        subprocess.run(step.split(), check=True)
    recorder = PacketRecorder()
    assert recorder.records_packets()
    with (
        tempfile.TemporaryDirectory() as folder,
        open_installation(Path(folder) / "data") as installation,
        launched() as browser,
    ):
        installation.documents = installation.fill()
        with installation.visitor(browser) as visitor:
            for page in visitor.visit_all():
                assert page.title()
        assert installation.service.stop() == 0
    loopback = sum(recorder.counts.values()) - sum(recorder.outside().values())
    print(json.dumps({"outside": recorder.outside(), "loopback": {"packets": loopback}}))


if __name__ == "__main__":
    main()
