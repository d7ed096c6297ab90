"""Finds a real Chromium for the browser tests, installs one where allowed, and says clearly when there is none."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: The first one is Chromium without its windows: the same engine, for two thirds of the processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGES = NAMES[:2]  #: of Debian; others have only the second one
HOW = f"install it with `apt-get install {NAMES[0]}` or `{NAMES[1]}`, or name its program in TABELLION_CHROMIUM"
#: Nothing of the browser's own leaves this machine, and no name but loopback's means anything to it.
ARGUMENTS = (
    "--disable-background-networking", "--disable-component-update", "--disable-gpu", "--disable-quic",
    "--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)  # fmt: skip


@functools.cache
def find() -> str | None:
    """Return the program to start, if there is one that starts."""
    named = os.environ.get("TABELLION_CHROMIUM")
    found = [named] if named else [path for name in NAMES if (path := shutil.which(name))]
    return next((path for path in found if _answers(path)), None)


def why_not() -> str | None:
    """Return why the browser tests are skipped and how to run them, in one sentence; None when they run."""
    if find():
        return None
    if named := os.environ.get("TABELLION_CHROMIUM"):
        return f"The browser tests are skipped: TABELLION_CHROMIUM names {named}, which does not start."
    return f"The browser tests are skipped: no Chromium is on this machine; {HOW}."


@contextmanager
def launched() -> Iterator[Browser]:
    """Run a browser for the duration of a block. Until its end this thread has a running loop: no `asyncio.run`."""
    from playwright.sync_api import sync_playwright

    arguments = [*ARGUMENTS, "--no-sandbox"] if os.geteuid() == 0 else [*ARGUMENTS]  # its sandbox refuses root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def install() -> bool:
    """Install Chromium quietly where that is allowed; return whether there is one now.

    Where there is one with windows, the headless one is installed beside it if the package lists know it: no list is
    fetched for that, and where it is not available, the other is used.
    """
    if os.geteuid() == 0 and shutil.which("apt-get") and not os.environ.get("TABELLION_CHROMIUM"):
        wanted = [["install", "-y", "--no-install-recommends", name] for name in PACKAGES]
        if find() is None:
            for step in (*wanted, ["update"], *wanted):  # its lists may be older than what there is
                if _apt(step) and step in wanted:
                    break
        elif shutil.which(NAMES[0]) is None and _apt(["--simulate", *wanted[0]]):
            _apt(wanted[0])
        find.cache_clear()
    return find() is not None


def _apt(words: list[str]) -> bool:
    options = ["-qq", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "-o", "DPkg::Lock::Timeout=120"]
    try:
        done = subprocess.run(
            ["apt-get", *options, *words], env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, timeout=300,
            check=False, stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _answers(program: str) -> bool:
    """Return whether it is a browser and not a stub that asks for another package."""
    try:
        result = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0 and bool(result.stdout.strip())


if __name__ == "__main__":
    install()
    if sentence := why_not():
        print(sentence, file=sys.stderr)
