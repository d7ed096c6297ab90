"""A watched folder: which files are taken and when, where they end up, and that none is lost."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents import consume
from tabellion.pipelines.documents import inbox as moving
from tabellion.pipelines.documents.consume import Consumer
from tabellion.pipelines.documents.submit import FileGone
from tests.pipelines.documents.consuming import consumer
from tests.pipelines.documents.papers import paper
from tests.pipelines.documents.samples import many
from tests.table_owner import Owner, owning
from tests.waiting import eventually
from tests.workers import ROOT, ask

Told = list[tuple[str, str, str]]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


def watch(
    inbox: Path, url: str, story: Callable[[Consumer, Owner], Awaitable[None]], **options: Any
) -> Told:  # fmt: skip
    """Run a consumer; return what it reported."""
    reported: Told = []

    async def go(store: Store) -> None:
        with owning(url, create=False) as owner:
            one = consumer(inbox, store, inbox.parent, listen=lambda *what: reported.append(what), **options)
            try:
                await story(one, owner)
            finally:
                one.close()

    ask(url, go)
    return reported


def list_files(folder: Path) -> set[str]:
    """Every file below a folder, by its path."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.name != ".lock"}


def end(owner: Owner, status: str, error: dict[str, str] | None = None) -> None:
    """End every document as a worker would."""
    owner("UPDATE tabellion_documents SET status = $1, error = $2", status, json.dumps(error) if error else None)


def test_a_file_is_taken_once_it_is_stable(inbox: Path, sqlite_url: str) -> None:
    """At the second check that finds it unchanged; it waits for its document, then is in consumed."""

    async def story(one: Consumer, owner: Owner) -> None:
        (inbox / "a.pdf").write_bytes(paper())
        assert await one.look() == 0
        (inbox / "a.pdf").write_bytes(paper(1) + b"\n")
        assert await one.look() == 0
        assert await one.look() == 1
        [row] = owner("SELECT id, name, media, bytes, status FROM tabellion_documents")
        assert (row["name"], row["media"], row["bytes"]) == ("a.pdf", "application/pdf", len(paper(1)) + 1)
        assert list_files(inbox) == {f".waiting/{row['id']}/a.pdf"}
        assert await one.look() == 0
        end(owner, "completed")
        assert await one.look() == 1

    reported = watch(inbox, sqlite_url, story)
    assert list_files(inbox) == {"consumed/a.pdf"}
    assert [what for what, _, _ in reported] == ["taken", "consumed"]


def test_a_file_open_for_writing_is_left(inbox: Path, sqlite_url: str) -> None:
    """However long it is unchanged; being read does not matter."""
    if not Path("/proc/self/fdinfo").exists():
        pytest.skip("only /proc tells who writes")

    async def story(one: Consumer, owner: Owner) -> None:
        with (inbox / "a.pdf").open("wb") as writing:
            writing.write(paper())
            writing.flush()
            for _ in range(4):
                assert await one.look() == 0
        with (inbox / "a.pdf").open("rb"):
            assert await one.look() == 1

    watch(inbox, sqlite_url, story)


def test_files_with_special_names_are_left(inbox: Path, sqlite_url: str) -> None:
    """Hidden ones, partial downloads, pipes and folders stay; so do our own."""
    left = [".hidden.pdf", "a.pdf.part", "b.crdownload", "c.tmp", "~d.pdf~"]
    for name in left:
        (inbox / name).write_bytes(paper())
    (inbox / "folder").mkdir()
    (inbox / "folder" / "e.pdf").write_bytes(paper())
    os.mkfifo(inbox / "pipe.pdf")

    async def story(one: Consumer, owner: Owner) -> None:
        for _ in range(3):
            assert await one.look() == 0

    watch(inbox, sqlite_url, story)
    assert list_files(inbox) == {*left, "folder/e.pdf", "pipe.pdf"}


def test_subfolders_on_request(inbox: Path, sqlite_url: str) -> None:
    """Their files keep their path wherever they are moved."""
    (inbox / "2026" / "march").mkdir(parents=True)
    (inbox / "2026" / "march" / "a.pdf").write_bytes(paper())

    async def story(one: Consumer, owner: Owner) -> None:
        await one.look()
        assert await one.look() == 1
        end(owner, "completed")
        await one.look()

    watch(inbox, sqlite_url, story, deep=True)
    assert list_files(inbox) == {"consumed/2026/march/a.pdf"}


def test_an_unsupported_file_is_moved_to_failed_with_the_reason(
    inbox: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text, empty, too large, a link: each with a code and a sentence beside it."""
    monkeypatch.setattr(consume, "EMPTY_FOR", -1.0)
    (inbox / "notes.pdf").write_text("just notes")
    (inbox / "empty.pdf").touch()
    (inbox / "huge.pdf").write_bytes(paper() + b" " * 100_000)
    (inbox / "link.pdf").symlink_to("/etc/hostname")

    async def story(one: Consumer, owner: Owner) -> None:
        await one.look()
        assert await one.look() == 4
        assert await one.look() == 0

    watch(inbox, sqlite_url, story, limit=50_000)
    codes = {
        path.name.removesuffix(".reason.json"): json.loads(path.read_text())["code"]
        for path in (inbox / "failed").glob("*.reason.json")
    }
    assert codes == {
        "notes.pdf": "type_unsupported", "empty.pdf": "empty_file", "huge.pdf": "too_large", "link.pdf": "not_a_file",
    }  # fmt: skip
    assert (inbox / "failed" / "link.pdf").is_symlink()
    assert (inbox / "failed" / "notes.pdf").read_text() == "just notes"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_moved_to_failed(inbox: Path, sqlite_url: str) -> None:
    """It is moved as it is, and the reason says that it cannot be opened."""
    (inbox / "a.pdf").write_bytes(paper())
    (inbox / "a.pdf").chmod(0)

    async def story(one: Consumer, owner: Owner) -> None:
        await one.look()
        await one.look()

    watch(inbox, sqlite_url, story)
    assert json.loads((inbox / "failed" / "a.pdf.reason.json").read_text())["code"] == "file_missing"


def test_a_document_that_fails_later_moves_its_file_to_failed(inbox: Path, sqlite_url: str) -> None:
    """With the document's error; a second file of the same name overwrites nothing."""
    error = {"code": "pdf_encrypted", "message": "requires a password"}

    async def story(one: Consumer, owner: Owner) -> None:
        for number in (1, 2):
            (inbox / "a.pdf").write_bytes(paper(number))
            await one.look()
            await one.look()
        end(owner, "failed", error)
        assert await one.look() == 2

    watch(inbox, sqlite_url, story)
    assert list_files(inbox) == {f"failed/{name}" for name in (
        "a.pdf", "a.pdf.reason.json", "a-2.pdf", "a-2.pdf.reason.json")}  # fmt: skip
    body = json.loads((inbox / "failed" / "a.pdf.reason.json").read_text())
    assert (body["file"], body["code"], body["message"]) == ("a.pdf", "pdf_encrypted", "requires a password")
    assert len(body["document"]) == 26
    assert {(inbox / "failed" / name).read_bytes() for name in ("a.pdf", "a-2.pdf")} == {paper(1), paper(2)}


def test_a_file_that_vanishes_or_grows_meanwhile(inbox: Path, sqlite_url: str) -> None:
    """A missing one is ignored; one written to while it was taken stays where it was."""

    async def story(one: Consumer, owner: Owner) -> None:
        (inbox / "gone.pdf").write_bytes(paper())
        (inbox / "grows.pdf").write_bytes(paper())
        await one.look()
        (inbox / "gone.pdf").unlink()
        original = one._submit

        async def growing(path: Path, name: str) -> str:
            created = await original(path, name)
            with path.open("ab") as late:
                late.write(b"% more")
            return created

        one._submit = growing
        assert await one.look() == 0
        assert list_files(inbox) == {"grows.pdf"}
        one._submit = original
        await one.look()
        assert await one.look() == 1

    watch(inbox, sqlite_url, story)
    [waiting] = list_files(inbox)
    assert (inbox / waiting).read_bytes() == paper() + b"% more"


def test_without_a_database_files_stay_where_they_are(inbox: Path, tmp_path: Path) -> None:
    """It is reported once, and nothing is lost or moved."""
    (inbox / "a.pdf").write_bytes(paper())
    reported: Told = []

    async def go() -> None:
        store = Store("postgresql://127.0.0.1:1/nowhere", deadline=0.5)
        one = consumer(inbox, store, tmp_path, listen=lambda *what: reported.append(what))
        for _ in range(4):
            assert await one.look() == 0
        one.close()
        await store.close()

    import asyncio

    asyncio.run(go())
    assert list_files(inbox) == {"a.pdf"}
    assert [what for what, _, _ in reported] == ["trouble"]


def test_a_file_deleted_meanwhile_is_taken_later(inbox: Path, sqlite_url: str) -> None:
    """The file stays where it was, and the folder is still watched."""

    async def story(one: Consumer, owner: Owner) -> None:
        (inbox / "a.pdf").write_bytes(paper())
        await one.look()
        original = one._submit

        async def gone(path: Path, name: str) -> str:
            raise FileGone

        one._submit = gone
        assert await one.look() == 0
        assert list_files(inbox) == {"a.pdf"}
        one._submit = original
        await one.look()
        assert await one.look() == 1

    assert [what for what, _, _ in watch(inbox, sqlite_url, story)] == ["trouble", "taken"]


def test_a_file_that_cannot_be_moved_is_named_once(
    inbox: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is reported says which file, where to and why, without another sentence before it."""

    def refuse(*_: object) -> bool:
        raise OSError(errno.EROFS, "read-only")

    async def story(one: Consumer, owner: Owner) -> None:
        (inbox / "a.pdf").write_bytes(paper())
        await one.look()
        with monkeypatch.context() as patch:
            patch.setattr(moving, "_try_move", refuse)
            assert await one.look() == 0
            one.close()

    [first, second] = [said for what, _, said in watch(inbox, sqlite_url, story) if what == "trouble"]
    assert re.fullmatch(r"a\.pdf cannot be moved to \.waiting/\w+: read-only", first)
    assert second == "a.pdf cannot be moved back to the inbox: read-only"


def test_files_of_a_dead_process_are_released(inbox: Path, sqlite_url: str) -> None:
    """Its lock is free: the file is back in the folder and taken by another."""
    dead = inbox / ".taking" / "1-dead"
    dead.mkdir(parents=True)
    (dead / ".lock").touch()
    (dead / "a.pdf").write_bytes(paper())

    async def story(one: Consumer, owner: Owner) -> None:
        await one.look()
        assert list_files(inbox) == {"a.pdf"}
        assert not dead.exists()
        assert await one.look() == 1

    assert [what for what, _, _ in watch(inbox, sqlite_url, story)] == ["back", "taken"]


def test_two_processes_on_one_folder_killed_at_random_lose_nothing(inbox: Path, url: str, tmp_path: Path) -> None:
    """Every file is submitted at least once, twice only where a process died in between, and no byte is lost."""
    contents = {one.name: one.content for one in many(40) if one.ending == "completed"}
    chance = random.Random(5)
    command = [sys.executable, "-m", "tests.pipelines.documents.consuming", str(inbox), url, str(tmp_path)]
    running = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    kills = 0
    try:
        for number, (name, content) in enumerate(contents.items()):
            (inbox / name).write_bytes(content)
            if number % 12 == 11:
                eventually(lambda: list_files(inbox / ".waiting") or list_files(inbox / ".taking"))
                victim = running.pop(chance.randrange(2))
                victim.send_signal(signal.SIGKILL)
                victim.wait(10)
                kills += 1
                running.append(subprocess.Popen(command, cwd=ROOT))
        eventually(lambda: len(list_files(inbox / ".waiting")) == len(contents), within=60)
        with owning(url, create=False) as owner:
            owner("UPDATE tabellion_documents SET status = 'completed'")
            eventually(lambda: len(list_files(inbox / "consumed")) == len(contents), within=60)
            counts = Counter(row["name"] for row in owner("SELECT name FROM tabellion_documents"))
    finally:
        for process in running:
            process.terminate()
        for process in running:
            assert process.wait(20) == 0
    assert kills == 3
    assert {path.name: path.read_bytes() for path in (inbox / "consumed").iterdir()} == contents
    assert set(counts) == set(contents)
    assert sum(counts.values()) <= len(contents) + kills * consume.AT_ONCE
    assert list_files(inbox) == {f"consumed/{name}" for name in contents}


def test_an_empty_file_gets_some_time(inbox: Path, sqlite_url: str) -> None:
    """A file just created and not yet written is not moved to failed."""

    async def story(one: Consumer, owner: Owner) -> None:
        (inbox / "soon.pdf").touch()
        for _ in range(3):
            assert await one.look() == 0
        old = time.time() - 100
        os.utime(inbox / "soon.pdf", (old, old))
        await one.look()
        assert await one.look() == 1

    watch(inbox, sqlite_url, story)
    assert "failed/soon.pdf.reason.json" in list_files(inbox)


def outside(tmp_path: Path) -> Path:
    """A folder outside the inbox, with a file that nobody may move."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    return tmp_path / "elsewhere"


@pytest.mark.parametrize("name", [".taking", ".waiting", "consumed", "failed"])
def test_a_link_in_place_of_a_working_folder_is_not_followed(name: str, inbox: Path, sqlite_url: str) -> None:
    """Nothing is moved, the operator is informed, and work continues once the link is gone."""
    elsewhere = outside(inbox.parent)
    (elsewhere / "4711-dead").mkdir()
    (elsewhere / "4711-dead" / "kept.pdf").write_bytes(paper())
    os.utime(elsewhere / "4711-dead", (1, 1))
    (inbox / "a.pdf").write_bytes(paper())
    (inbox / name).symlink_to(elsewhere)

    async def story(one: Consumer, owner: Owner) -> None:
        for _ in range(3):
            assert await one.look() == 0
        assert list_files(elsewhere) == {"secret", "4711-dead/kept.pdf"}
        assert (inbox / "a.pdf").exists()
        (inbox / name).unlink()
        await one.look()
        assert await one.look() == 1

    reported = watch(inbox, sqlite_url, story)
    assert [said for what, _, said in reported if what == "trouble"] == [
        f"{inbox} cannot be watched: {name} in it is a link or a file: remove it"
    ]


def test_a_link_created_while_a_file_is_taken_is_not_followed(inbox: Path, sqlite_url: str) -> None:
    """The opened folder stays the same folder: the file that is read is the one that was taken."""
    elsewhere = outside(inbox.parent)
    (inbox / "a.pdf").write_bytes(paper())
    read: list[bytes] = []

    async def go(path: Path, name: str) -> str:
        [mine] = (inbox / ".taking").iterdir()
        (elsewhere / mine.name).mkdir()
        (elsewhere / mine.name / name).write_text("secret")
        os.rename(inbox / ".taking", inbox / "moved")
        (inbox / ".taking").symlink_to(elsewhere)
        read.append(path.read_bytes())
        return "0" * 26

    async def story(one: Consumer, owner: Owner) -> None:
        one._submit = go
        for _ in range(3):
            await one.look()
        assert read == [paper()]
        assert not (inbox / ".waiting").exists()

    watch(inbox, sqlite_url, story)
    assert (elsewhere / "secret").read_text() == "secret"


def test_a_working_folder_of_another_user_is_not_used(inbox: Path, sqlite_url: str) -> None:
    """Its owner could replace its content."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    (inbox / "consumed").mkdir()
    os.chown(inbox / "consumed", 12345, -1)
    (inbox / "a.pdf").write_bytes(paper())

    async def story(one: Consumer, owner: Owner) -> None:
        for _ in range(3):
            assert await one.look() == 0

    [(what, _, said)] = watch(inbox, sqlite_url, story)
    assert (what, said) == ("trouble", f"{inbox} cannot be watched: consumed in it belongs to user 12345: remove it")


def test_folders_that_are_links_are_ignored(inbox: Path, sqlite_url: str) -> None:
    """Their files are not in the inbox."""
    elsewhere = outside(inbox.parent)
    (elsewhere / "b.pdf").write_bytes(paper())
    (inbox / "below").symlink_to(elsewhere)

    async def story(one: Consumer, owner: Owner) -> None:
        for _ in range(3):
            await one.look()

    watch(inbox, sqlite_url, story, deep=True)
    assert (elsewhere / "b.pdf").exists()
    assert (inbox / "failed" / "below").is_symlink()
