"""Runs axe-core, fetched from the npm registry and checked against its hash, on a page."""

from __future__ import annotations

import base64
import functools
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = "4.14.0"
INTEGRITY = "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="
MEMBER = "package/axe.min.js"
KEPT = Path(sys.prefix) / "npm"  #: in the virtual environment, which git does not see
GRAVE = ("serious", "critical")

#: What is worth telling of each finding, and where it is.
QUESTION = """async (impacts) => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter(found => impacts.includes(found.impact))
    .flatMap(found => found.nodes.map(node => `${found.impact} ${found.id} at ${node.target.join(" ")}: ` +
        `${node.failureSummary.replace(/\\s+/g, " ")}`))"""


class UnavailableError(Exception):
    """axe-core is not available; the text says why and how to get it."""


@functools.cache
def source() -> str:
    """Return the program's text."""
    package = KEPT / f"axe-core-{VERSION}.tgz"
    if not package.exists():
        _fetch(package)
    content = package.read_bytes()
    if f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}" != INTEGRITY:
        package.unlink()
        raise AssertionError(f"what npm gave as axe-core {VERSION} is not what was published under that name")
    with tarfile.open(package) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None
        return member.read().decode()


def _fetch(package: Path) -> None:
    how = f"axe-core {VERSION} comes from the npm registry; install npm, or put axe-core-{VERSION}.tgz into {KEPT}"
    if not shutil.which("npm"):
        raise UnavailableError(f"npm is not on this machine: {how}.")
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        command = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", folder]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"the npm registry did not answer: {how}.") from None
        if done.returncode:
            raise UnavailableError(
                f"the npm registry gave nothing ({done.stderr.strip()[:200] or 'no reason'}): {how}."
            )
        (Path(folder) / package.name).replace(package)  # whole or not at all, whoever else fetches it now


def findings(page: Page) -> list[str]:
    """Return the serious accessibility violations of the page as it is now, one line each."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(source())
    return [str(one) for one in page.evaluate(QUESTION, list(GRAVE))]
