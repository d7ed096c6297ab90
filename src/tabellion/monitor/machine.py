"""Checks the machine: space on the disks that files are written to, and who may read files with secrets."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabellion.monitor.doctor import CheckLevel, Finding

GIGABYTE = 1_000_000_000
LITTLE = GIGABYTE  #: bytes; less free space than that is a problem on any disk
#: Bytes for temporary files: a few documents at once. Often they are in memory, where a gigabyte is much.
LITTLE_TEMP = 200_000_000
SHARE, ENOUGH = 0.05, 20 * GIGABYTE  #: of the disk that should be free, unless there is that much anyway
TEMP = "the folder of temporary files"
FEW_FILES = 10_000  #: that can still be created
OTHERS = stat.S_IROTH | stat.S_IWOTH
_SECRET = re.compile(r"(?i)(?:^|[_.-])(?:key|password|secret|token)$")
#: A URL with a password, before the host or as a parameter, or the secret of a webhook endpoint, whatever its key.
_VALUE = re.compile(r"(?i)^[a-z][a-z0-9+.-]*://(?:[^/@:]*:[^/@]+@|[^#]*[?&](?:ssl)?password=[^&#])|^whsec_.")


def examine_machine(
    file: Path | None, data: Path, lake: str, databases: Sequence[Path] = (), blobs: str = ""
) -> list[Finding]:
    """Findings about the configuration file, the data folder, lake and blobs if they are folders, SQLite files and
    the folder of temporary files."""
    folders = {"the data folder": data}
    for name, place in (("the lake", lake), ("the folder of blobs", blobs)):
        if place and ("://" not in place or place.startswith("file://")):
            folders[name] = Path(place.removeprefix("file://"))
    folders |= {f"the database {path.name}": path.parent for path in databases}
    findings: list[Finding] = []
    try:
        folders[TEMP] = Path(tempfile.gettempdir())  # children that read documents use it, too
    except FileNotFoundError as error:
        fix = "set TMPDIR to a folder that may be written to"
        findings.append(Finding("error", "machine", f"there is no folder for temporary files: {error.strerror}", fix))
    seen: set[int] = set()
    for name, folder in folders.items():
        disk = next(
            (one for one in (folder, *folder.absolute().parents) if one.is_dir()), None
        )  # it may be created later
        if disk is not None and (device := disk.stat().st_dev) not in seen:
            seen.add(device)
            findings += _check_disk(name, folder, disk)
    findings += _check_configuration(file) if file is not None else []
    findings += _check_data(data) if data.is_dir() else []
    for path in databases:
        if path.parent != data and path.is_file() and _is_open_to_others(path):
            # A database of the user's own: who may read it is their decision.
            findings.append(_open_file(path, "a database", 0o600, "note"))
    return findings


def _check_disk(name: str, folder: Path, disk: Path) -> list[Finding]:
    status = os.statvfs(disk)
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    share = free / size if size else 1.0
    what = f"{name} {folder} has {free / GIGABYTE:,.1f} GB of free space, {share:.0%} of its disk"
    if free < (LITTLE_TEMP if name == TEMP else LITTLE) or (share < SHARE and free < ENOUGH):
        fix = (
            "free some space, or name another disk (`data`, `lake`, `blobs`, TMPDIR); `[retention]` removes what is old"
        )
        return [Finding("warning", "machine", what, fix)]
    if status.f_files and status.f_favail < FEW_FILES:
        what = f"the disk of {name} {folder} has room for {status.f_favail:,} more files only"
        return [Finding("warning", "machine", what, "remove files, or use a file system with more inodes")]
    return [Finding("ok", "machine", what)]


def _check_configuration(file: Path) -> list[Finding]:
    try:
        settings = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return []  # reported when the configuration was read
    names = list(find_secrets(settings))
    if not names or not _is_open_to_others(file):
        return []
    what = f"{file} has secrets ({', '.join(names)}) and every user of this machine may read or change it"
    fix = f"chmod 600 {file}, or take them from variables: ${{NAME}}"
    return [Finding("warning", "machine", what, fix)]


def find_secrets(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The keys whose values are secrets: keys, passwords, and URLs with a password; not those from variables."""
    for name, value in settings.items():
        key = f"{prefix}{name}"
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Mapping):
                yield from find_secrets(one, f"{key}.")
            elif isinstance(one, str) and one and "${" not in one and (_SECRET.search(name) or _VALUE.match(one)):
                yield key


def _check_data(data: Path) -> list[Finding]:
    """The data folder, and what is directly in it: others cannot reach anything in a private folder."""
    mode = data.stat().st_mode
    if mode & stat.S_IWOTH:
        what = f"every user of this machine may write to the data folder {data}"
        return [Finding("warning", "machine", what, f"chmod 700 {data}")]
    if not mode & (stat.S_IROTH | stat.S_IXOTH):
        return [Finding("ok", "machine", f"the data folder {data} is private")]
    findings = []
    for path in sorted(data.iterdir()):
        if path.is_file() and not path.is_symlink() and _is_open_to_others(path):
            findings.append(_open_file(path, "a file of the data folder", 0o600))
        elif path.is_dir() and not path.is_symlink() and path.stat().st_mode & OTHERS:
            findings.append(_open_file(path, "a folder of the data folder", 0o700))
    return findings or [Finding("ok", "machine", f"what is in the data folder {data} is private")]


def _open_file(path: Path, name: str, mode: int, level: CheckLevel = "warning") -> Finding:
    what = f"every user of this machine may read or change {path}, {name}"
    return Finding(level, "machine", what, f"chmod {mode:o} {path}")


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & OTHERS)
