"""Space on disks, and files with secrets that others may read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabellion.monitor.doctor import Finding
from tabellion.monitor.machine import examine_machine, find_secrets


def warnings(*given: Any) -> list[Finding]:
    """Return the warnings among the findings."""
    return [one for one in examine_machine(*given) if one.level == "warning"]


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files on the disk of the data folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A private data folder."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def disk(free: int, size: int, files: int = 10**9) -> Any:
    """Return a disk as the system describes it."""
    return lambda _: SimpleNamespace(
        f_bavail=free // 4096, f_frsize=4096, f_blocks=size // 4096, f_files=10**9, f_favail=files
    )


@pytest.mark.parametrize(
    ("free", "size", "little"),
    [(10**8, 10**9, True), (2 * 10**9, 10**10, False), (2 * 10**9, 10**12, True), (30 * 10**9, 10**12, False)],
)
def test_space(data: Path, monkeypatch: pytest.MonkeyPatch, free: int, size: int, little: bool) -> None:
    """Less than a gigabyte, or a twentieth of the disk unless that is plenty; the data folder and lake on one disk are
    reported once."""
    monkeypatch.setattr(os, "statvfs", disk(free, size))
    found = [one for one in examine_machine(None, data, str(data)) if "free space" in one.what]
    assert [one.level for one in found] == ["warning" if little else "ok"]
    assert str(data) in found[0].what


def test_every_disk_that_is_written_to(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake, the blobs and temporary files may have disks of their own, also before their folders exist."""
    folders = {name: tmp_path / name for name in ("lake", "blobs", "temp")}
    disks = {str(folder): number for number, folder in enumerate(folders.values(), 1000)}
    for folder in folders.values():
        folder.mkdir()
    stat = Path.stat

    def stat_disk(path: Path, **options: Any) -> Any:
        found = stat(path, **options)
        return os.stat_result((*found[:2], disks.get(str(path), found.st_dev), *found[3:]))

    monkeypatch.setattr(Path, "stat", stat_disk)
    monkeypatch.setattr(tempfile, "tempdir", str(folders["temp"]))
    places = str(folders["lake"]), (), f"file://{folders['blobs']}/new/folder"
    found = [one.what for one in examine_machine(None, data, *places) if "free space" in one.what]
    assert [what.partition(" has ")[0] for what in found] == [
        f"the data folder {data}", f"the lake {folders['lake']}", f"the folder of blobs {folders['blobs']}/new/folder",
        f"the folder of temporary files {folders['temp']}",
    ]  # fmt: skip


def test_temporary_files_need_less_space(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their folder is often in memory."""
    for free, level in ((10**8, "warning"), (5 * 10**8, "ok")):
        monkeypatch.setattr(os, "statvfs", disk(free, 10**9))
        monkeypatch.setattr(tempfile, "tempdir", str(data))
        [found] = [one for one in examine_machine(None, Path("/dev/none"), "s3://lake") if str(data) in one.what]
        assert found.level == level


def test_no_folder_for_temporary_files(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error with its fix, and everything else is examined."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    error, *others = examine_machine(None, data, str(data))
    assert (error.level, error.where, "TMPDIR" in error.fix) == ("error", "machine", True)
    assert error.what == "there is no folder for temporary files: No usable temporary directory found in ['/proc/none']"
    assert any("free space" in one.what for one in others)


def test_no_room_for_files(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk can be full of small files."""
    monkeypatch.setattr(os, "statvfs", disk(10**12, 10**12, 50))
    [found] = warnings(None, data, "s3://bucket")
    assert "50 more files" in found.what


def test_secrets_in_the_configuration(data: Path, tmp_path: Path) -> None:
    """Only if there are some, they are not from variables, and others may read the file."""
    file = tmp_path / "tabellion.toml"
    file.write_text('[models.gemini]\nkey = "abc"\n[environments]\nprod = "postgresql://me:pw@db/x"\n')
    file.chmod(0o600)
    assert warnings(file, data, str(data)) == []
    file.chmod(0o640)
    assert warnings(file, data, str(data)) == []
    file.chmod(0o644)
    [found] = warnings(file, data, str(data))
    assert "models.gemini.key, environments.prod" in found.what
    assert found.fix.startswith(f"chmod 600 {file}")
    file.write_text('[models.gemini]\nkey = "${KEY}"\n[environments]\nprod = "postgresql://me@db/x"\n')
    assert warnings(file, data, str(data)) == []


def test_what_is_a_secret() -> None:
    """By the name of the key, or a password in a URL; never an empty value."""
    settings = {"key": "a", "api_key": "b", "keys": "c", "monkey": "d", "password": "", "n": {"token": "e", "key": 5}}
    assert list(find_secrets(settings)) == ["key", "api_key", "n.token"]
    assert list(find_secrets({"url": "redis://:pw@host", "other": "https://host/a:b@c"})) == ["url"]
    urls = {
        "a": "postgresql://host/db?user=me&password=pw",
        "b": "postgresql://host/db?sslpassword=pw",
        "c": "whsec_Zm9v",
    }
    harmless = {"d": "https://host/?password=", "e": "https://host/?password=${PW}", "f": "the whsec_ prefix"}
    assert list(find_secrets(urls | harmless)) == ["a", "b", "c"]
    assert list(find_secrets({"hooks": [{"signing": "whsec_Zm9v"}], "urls": ["redis://:pw@host"]})) == [
        "hooks.signing", "urls",
    ]  # fmt: skip


def test_the_data_folder(data: Path) -> None:
    """Private: nobody reaches what is in it. Open: each open file and folder in it is named."""
    (data / "admin.key").write_text("k")
    (data / "blobs").mkdir(mode=0o755)
    (data / "private").mkdir(mode=0o700)
    (data / "admin.key").chmod(0o644)
    (data / "tabellion.db").touch(0o600)
    assert warnings(None, data, str(data)) == []
    data.chmod(0o755)
    found = warnings(None, data, str(data))
    assert [one.fix for one in found] == [f"chmod 600 {data}/admin.key", f"chmod 700 {data}/blobs"]
    data.chmod(0o777)
    [found_one] = warnings(None, data, str(data))
    assert found_one.fix == f"chmod 700 {data}"


def test_a_database_elsewhere(data: Path, tmp_path: Path) -> None:
    """Its owner is told, who may want it so."""
    file = tmp_path / "work.db"
    file.touch(0o644)
    file.chmod(0o644)
    [found] = [one for one in examine_machine(None, data, str(data), [file]) if one.level == "note"]
    assert found.fix == f"chmod 600 {file}"


def test_folders_that_do_not_exist_yet(tmp_path: Path) -> None:
    """Only the space of the disk is known, and nothing is created."""
    [found] = examine_machine(tmp_path / "none.toml", tmp_path / "none", "s3://bucket/prefix")
    assert "free space" in found.what
    assert list(tmp_path.iterdir()) == []
