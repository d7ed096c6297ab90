"""The guides to deployment and backups: their commands exist, and files they name are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.command_lines import check, check_variable
from tests.workers import ROOT

GUIDES = [ROOT / "docs" / "how-to" / name for name in ("deploy.md", "backup.md")]
FILES = [path for path in (ROOT / "deploy").rglob("*") if path.suffix in (".yml", ".yaml", ".service", ".conf")]


def command_lines() -> Iterator[str]:
    """Return every command line of tabellion in the guides, and in the comments of the files."""
    for path in (*GUIDES, *FILES):
        text = path.read_text()
        blocks = re.findall(r"(?s)```sh\n(.*?)```", text) if path.suffix == ".md" else [text]
        lines = [line for block in blocks for line in block.splitlines()]
        lines += re.findall(r"`(tabellion [^`\n]*)`", text)
        for line in (re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"\1", line) for line in lines):
            if match := re.search(r"(?:^|/| exec \S+ | -- )(tabellion (?:--|[a-z]).*)", line.strip().lstrip("# ")):
                yield match[1]


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_a_command_line_exists(line: str) -> None:
    """With its options, as our own parser sees it."""
    words = shlex.split(line, comments=True)[1:]
    check(words)


@pytest.mark.parametrize("path", [*GUIDES, *FILES], ids=lambda path: path.name)
def test_variables_and_files_exist(path: Path) -> None:
    """Those that begin with our name, and paths below deploy/."""
    text = path.read_text()
    for variable in re.findall(r"\bTABELLION_[A-Z_]+\b", text):
        if variable != "TABELLION_DATABASE_PASSWORD":  # of the compose files themselves
            check_variable(variable)
    for name in re.findall(r"\bdeploy/[\w./@-]+[\w/]", text):
        assert (ROOT / name).exists(), name


def test_enough_is_checked() -> None:
    """The pattern finds the lines."""
    found = set(command_lines())
    assert len(found) > 12
    assert "tabellion audit verify" in found
