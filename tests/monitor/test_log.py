"""The log listener: which events are seen, and that no text can forge a line."""

from __future__ import annotations

import json

import pytest

from tabellion.engine.events import NAMES, Event
from tabellion.monitor.log import LEVELS, log_listener, printable


def test_every_level_belongs_to_an_event() -> None:
    """No level is given to an event that does not exist."""
    assert set(LEVELS) <= set(NAMES)


def test_everyday_events_are_not_seen_at_info(capsys: pytest.CaptureFixture[str]) -> None:
    """A finished job is debug, a failed one is a warning."""
    listen = log_listener("info", as_json=True)
    listen(Event("done", queue="ocr", key="1"))
    listen(Event("failed", queue="ocr", key="2", attempt=3, error="boom"))
    [line] = capsys.readouterr().err.splitlines()
    written = json.loads(line)
    assert (written["event"], written["key"], written["error"], written["level"]) == ("failed", "2", "boom", "warning")


def test_debug_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Every event there is becomes one line."""
    listen = log_listener("debug", as_json=True)
    for name in NAMES:
        listen(Event(name))
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == list(NAMES)


@pytest.mark.parametrize("as_json", [True, False])
def test_an_error_text_cannot_forge_a_line(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """Newlines and escapes are written out."""
    log_listener("info", as_json=as_json)(Event("failed", error="a\nfaked [info] line \x1b[31m"))
    out = capsys.readouterr().err
    assert len(out.splitlines()) == 1
    assert "\x1b[31m" not in out


def test_printable_keeps_what_people_read() -> None:
    """Letters of any language and signs stay."""
    assert printable("żółw 🐢 — ok") == "żółw 🐢 — ok"
    assert printable("a\tb\x00") == "a\\tb\\x00"
