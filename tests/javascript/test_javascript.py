"""The check of the pages' scripts: without its checkers, and when they find something."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.javascript import __main__ as checks


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where nothing is installed yet."""
    folder = tmp_path / "node_modules"
    monkeypatch.setattr(checks, "MODULES", folder)
    return folder


def npm(*lines: str, code: int = 1) -> tuple[list[str], list[str]]:
    """A node, and an npm that prints this and ends with this code."""
    text = "\n".join(lines)
    return ["node"], [sys.executable, "-c", f"import sys; print({text!r}, file=sys.stderr); sys.exit({code})"]


def test_without_a_registry_nothing_is_checked_and_nothing_fails(
    modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, and why."""
    text = ("npm error code ECONNREFUSED", "npm error FetchError: request failed, reason: connect ECONNREFUSED")
    monkeypatch.setattr(checks, "node_commands", lambda: npm(*text))
    monkeypatch.setattr(checks, "check", lambda node: pytest.fail("there is nothing to check with"))
    assert checks.main() == 0
    output = capsys.readouterr().err
    assert output.startswith("JavaScript was not checked: ")
    assert "connect ECONNREFUSED" in output
    assert not modules.exists()


def test_an_invalid_lock_file_fails(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network works and returned something else than the file says: that must not be ignored."""
    monkeypatch.setattr(checks, "node_commands", lambda: npm("npm error code EINTEGRITY"))
    with pytest.raises(SystemExit, match="EINTEGRITY"):
        checks.main()


def test_findings_of_a_checker_fail(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either is enough, and packages installed for this lock file are not installed again."""
    modules.mkdir()
    monkeypatch.setattr(checks, "node_commands", lambda: npm(code=0))
    monkeypatch.setattr(checks, "check", lambda node: 1)
    assert checks.main() == 1
    monkeypatch.setattr(checks, "node_commands", lambda: npm("asked twice"))
    monkeypatch.setattr(checks, "check", lambda node: 0)
    assert checks.main() == 0


def test_the_lock_file_names_no_registry() -> None:
    """Everyone uses their own registry."""
    assert '"resolved"' not in (checks.HERE / "package-lock.json").read_text()
