"""Named places in the code where a test may make the process die, fail or stall."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tabellion
from tabellion.engine.failpoints import NAMES, failpoint, parse
from tabellion.errors import Unreachable

Arm = Callable[[str], None]


def test_an_unarmed_failpoint_does_nothing(arm: Arm) -> None:
    """It is passed without effect."""
    arm("")
    for place in NAMES:
        failpoint(place)


def test_raise_at_the_nth_pass_only(arm: Arm) -> None:
    """`raise@3` raises at the third pass, not before and not after."""
    arm("settle.drop_ack:raise@3")
    failpoint("settle.drop_ack")
    failpoint("settle.drop_ack")
    failpoint("claim.drop_ack")
    with pytest.raises(Unreachable, match=r"settle\.drop_ack"):
        failpoint("settle.drop_ack")
    failpoint("settle.drop_ack")


def test_several_failpoints(arm: Arm) -> None:
    """A comma separates them; without a number the first pass counts."""
    arm("claim.pre_commit:raise, renew.drop:raise@2")
    with pytest.raises(Unreachable):
        failpoint("claim.pre_commit")
    failpoint("renew.drop")
    with pytest.raises(Unreachable):
        failpoint("renew.drop")


@pytest.mark.parametrize("text", ["claim.nowhere:kill", "claim.pre_commit:explode", "claim.pre_commit", "nonsense"])
def test_an_unknown_failpoint_or_action_is_an_error(text: str) -> None:
    """A misspelled failpoint would test nothing, so it is rejected with the list of valid ones."""
    with pytest.raises(ValueError, match=r"places: .*claim\.pre_commit.*actions: kill, raise, stop"):
        parse(text)


def test_kill_kills_the_process() -> None:
    """`kill` in the environment variable ends the process as kill -9 would."""
    code = "from tabellion.engine.failpoints import failpoint; failpoint('claim.post_commit'); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"TABELLION_FAILPOINTS": "claim.post_commit:kill@1"}, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


def test_every_failpoint_is_in_the_code() -> None:
    """Each listed name is passed somewhere in the package, and no unlisted name is."""
    folder = Path(tabellion.__file__).parent
    passed = {
        place for file in folder.rglob("*.py") for place in re.findall(r'failpoint\("([\w.]+)"\)', file.read_text())
    }
    assert passed == set(NAMES)
