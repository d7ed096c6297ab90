"""A machine without a network: every address in the world is its own loopback, and whoever writes to it is overheard.

`python -m tests.browser.island` prints as JSON which addresses were written to while a person used every page. It needs
a network namespace of its own (`unshare --net`, with `--map-root-user` for whom is not root), because there alone all
addresses can be made to lead nowhere without anybody noticing.
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

from tests.working import ROOT

EVERY_PROTOCOL = 0x0003
OUTGOING = 4  #: how the kernel marks a packet that is being sent; on loopback each is seen twice
ELSEWHERE = "192.0.2.1"  #: for examples in texts: nobody has it
SETUP = (
    "ip link set lo up",
    "ip route add local 0.0.0.0/0 dev lo",
    "ip -6 route add local ::/0 dev lo",
)


class Ear:
    """Hears every packet of the namespace and counts whom each was for."""

    def __init__(self) -> None:
        self.heard: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(EVERY_PROTOCOL))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            packet, address = self._socket.recvfrom(128)
            if address[2] != OUTGOING:
                continue
            place = packet[16:20] if packet[0] >> 4 == 4 else packet[24:40]
            self.heard[str(ipaddress.ip_address(place))] += 1

    def outside(self) -> dict[str, int]:
        """The addresses that are not loopback's own."""
        return {place: count for place, count in self.heard.items() if not ipaddress.ip_address(place).is_loopback}

    def proves_itself(self) -> bool:
        """Whether a packet to somebody else is heard at all."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((ELSEWHERE, 0))  # somebody is there: a refusal would be one more packet, at any time
            sender.sendto(b"hello", sender.getsockname())
        deadline = time.monotonic() + 10
        while ELSEWHERE not in self.heard and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.heard.pop(ELSEWHERE, 0) > 0


def why_not() -> str | None:
    """Why there can be no such machine here; None when there can."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return "overhearing all packets needs `unshare` and `ip`: install util-linux and iproute2"
    steps = " && ".join(SETUP)
    done = subprocess.run([*_apart(), "sh", "-c", steps], capture_output=True, text=True, check=False, timeout=30)
    return f"this system makes no network namespace: {done.stderr.strip()}" if done.returncode else None


def _apart() -> list[str]:
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


def visited(within: float) -> dict[str, dict[str, int]]:
    """What was written to whom, by a service and a browser on a machine without a network."""
    command = [*_apart(), sys.executable, "-m", "tests.browser.island"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=within, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Uses every page and tells whom that wrote to."""
    from tests.browser.chromium import launched
    from tests.browser.site import opened

    for step in SETUP:
        subprocess.run(step.split(), check=True)
    ear = Ear()
    assert ear.proves_itself()
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "data") as site, launched() as browser:
        site.documents = site.fill()
        with site.visitor(browser) as visitor:
            for page in visitor.stroll():
                assert page.title()
        assert site.service.stop() == 0
    loopback = sum(ear.heard.values()) - sum(ear.outside().values())
    print(json.dumps({"outside": ear.outside(), "loopback": {"packets": loopback}}))


if __name__ == "__main__":
    main()
