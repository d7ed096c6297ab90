"""What a worker in a script prints, and what listeners to Python's logging get."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion import Event, Job, log_to_stderr
from tabellion.engine import log
from tabellion.engine.events import NAMES, Listeners
from tabellion.engine.log import LEVELS, LogListener, printable
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually
from tests.workers import drain, make_worker

PRELUDE = """
import asyncio, logging, sys
from tabellion import Environment, Job, Permanent, Queue, Worker, log_to_stderr

jobs = Queue("jobs", ready="new", running="running", done="done", failed="failed", max_attempts=2, retry_base=0.02)


@jobs.handler
async def work(job: Job) -> None:
    look_up(job.key)


def look_up(key):
    if key == 100:
        raise Permanent("an empty file")
    raise LookupError(f"row {key} is odd")


worker = Worker([Environment("prod", sys.argv[1])], [jobs], id="w1", poll=0.05)
"""


def script(folder: Path, body: str) -> list[str]:
    """Return the command that runs a user's script."""
    file = folder / "script.py"
    file.write_text(PRELUDE + textwrap.dedent(body))
    return [sys.executable, str(file)]


def printed(folder: Path, url: str, body: str) -> str:
    """Return what such a script prints on standard error; nothing else is printed."""
    done = subprocess.run([*script(folder, body), url], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


@pytest.fixture
def failing(sqlite_url: str) -> Iterator[str]:
    """A database with one row, on which every attempt fails."""
    with owning(sqlite_url) as owner:
        owner.insert(1)
        yield sqlite_url


def test_a_script_whose_handler_raises_prints_the_traceback(failing: str, tmp_path: Path) -> None:
    """Without any set-up: start, both attempts with the handler's own frames, and stop, on standard error."""
    text = printed(tmp_path, failing, "worker.run(until_idle=True)")
    lines = text.splitlines()
    assert f"INFO tabellion.worker: w1 started: jobs in prod ({failing})" in lines[0]
    assert "WARNING tabellion.queue.jobs: jobs/1 in prod failed on attempt 1" in lines[1]
    assert "LookupError: row 1 is odd (script.py:" in lines[1]
    below = [re.sub(r"line \d+", "line 7", line) for line in lines[2:-2] if set(line) - set(" ^~")]
    assert below == [
        "    Traceback (most recent call last):",
        f'      File "{tmp_path}/script.py", line 7, in work',
        "        look_up(job.key)",
        f'      File "{tmp_path}/script.py", line 7, in look_up',
        '        raise LookupError(f"row {key} is odd")',
        "    LookupError: row 1 is odd",
    ]
    assert "ERROR tabellion.queue.jobs: jobs/1 in prod failed permanently on attempt 2" in text
    assert "INFO tabellion.worker: w1 stopped: 0 done, 1 failed, 1 retried" in lines[-1]
    assert "tabellion/engine" not in text


def test_repeated_failures_print_one_traceback(failing: str, tmp_path: Path) -> None:
    """The same exception from the same line: one line per job, the traceback only the first time."""
    with owning(failing, create=False) as owner:
        owner.insert(*range(2, 51))
        text = printed(tmp_path, failing, "worker.run(until_idle=True)")
    assert text.count("Traceback") == 1
    assert text.count("failed permanently on attempt 2") == 50


def test_a_permanent_failure_has_no_traceback(failing: str, tmp_path: Path) -> None:
    """`Permanent` is reported in one line."""
    with owning(failing, create=False) as owner:
        owner("UPDATE jobs SET id = 100")
        text = printed(tmp_path, failing, "worker.run(until_idle=True)")
    assert "ERROR tabellion.queue.jobs: jobs/100 in prod failed permanently on attempt 1" in text
    assert text.splitlines()[1].endswith(": an empty file")
    assert len(text.splitlines()) == 3


def test_a_script_whose_database_is_down_says_so_once(tmp_path: Path) -> None:
    """One warning gives the address without the password, and the reason; the worker can be stopped."""
    command = [*script(tmp_path, "worker.run()"), "postgresql://clerk:canary@127.0.0.1:9/shop"]
    errors = tmp_path / "errors"
    with errors.open("wb") as file, subprocess.Popen(command, stderr=file) as process:
        try:
            eventually(lambda: "WARNING" in errors.read_text(), every=0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
    text = errors.read_text()
    [warning] = [line for line in text.splitlines() if "WARNING" in line]
    assert "tabellion.worker: prod (postgresql://127.0.0.1:9/shop) cannot be reached: ConnectionRefusedError" in warning
    assert "canary" not in text
    assert text.splitlines()[-1].endswith("w1 stopped: 0 done, 0 failed, 0 retried")


def test_a_script_that_configured_logging_is_left_alone(failing: str, tmp_path: Path) -> None:
    """Its own level and format hold, and every line appears once."""
    body = """
    logging.basicConfig(level=logging.ERROR, format="mine %(levelname)s %(message)s")
    worker.run(until_idle=True)
    """
    text = printed(tmp_path, failing, body)
    [line] = [line for line in text.splitlines() if not line.startswith(" ")]
    assert line.startswith("mine ERROR jobs/1 in prod failed permanently")


def test_an_embedded_worker_configures_no_logging(failing: str, tmp_path: Path) -> None:
    """`serve()` leaves logging alone: Python itself shows warnings on standard error."""
    body = """
    asyncio.run(worker.serve(until_idle=True))
    assert logging.getLogger("tabellion").handlers == logging.getLogger().handlers == []
    """
    text = printed(tmp_path, failing, body)
    assert text.startswith("jobs/1 in prod failed on attempt 1")
    assert "started" not in text


def test_run_leaves_logging_as_it_found_it(failing: str, tmp_path: Path) -> None:
    """What `run()` configures ends with it."""
    body = """
    worker.run(until_idle=True)
    logger = logging.getLogger("tabellion")
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)
    """
    assert "w1 stopped" in printed(tmp_path, failing, body)


def test_json_on_request(failing: str, tmp_path: Path) -> None:
    """`log_to_stderr(as_json=True)` prints one object per line, with the event's fields and the traceback."""
    body = """
    log_to_stderr("info", as_json=True)
    worker.run(until_idle=True)
    """
    lines = [json.loads(line) for line in printed(tmp_path, failing, body).splitlines()]
    assert [line["event"] for line in lines] == ["worker_started", "retried", "failed", "worker_stopped"]
    assert [line["level"] for line in lines] == ["info", "warning", "error", "info"]
    retried = lines[1]
    assert (retried["queue"], retried["key"], retried["environment"], retried["worker"]) == ("jobs", "1", "prod", "w1")
    assert (retried["attempt"], retried["logger"]) == (1, "tabellion.queue.jobs")
    assert retried["seconds"] >= 0
    assert retried["due_in"] > 0
    assert retried["traceback"].startswith("Traceback")
    assert retried["timestamp"].endswith("Z")


def test_records_carry_the_events_fields(url: str, owner: Owner, caplog: pytest.LogCaptureFixture) -> None:
    """A user's own formatter finds queue, key and the rest on the record."""
    owner.insert(1)
    queue = jobs_queue(max_attempts=1)

    @queue.handler
    def work(job: Job) -> None:
        raise OSError("no")

    drain(make_worker(url, queue))
    [record] = [one for one in caplog.records if one.name == "tabellion.queue.jobs"]
    facts = vars(record)
    assert (facts["event"], facts["queue"], facts["key"], facts["attempt"]) == ("failed", "jobs", "1", 1)
    assert "in work" in (record.exc_text or "")


def test_every_level_belongs_to_an_event() -> None:
    """No level is assigned to an event that does not exist."""
    assert set(LEVELS) <= set(NAMES)


def test_debug_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Every event there is becomes one line with a sentence."""
    log_to_stderr("debug", as_json=True)
    write = LogListener()
    for name in NAMES:
        write(Event(name, worker="w1", environment="prod", queue="jobs", key="1", attempt=1))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == list(NAMES)
    assert all("None" not in line["message"] and "{" not in line["message"] for line in lines)


@pytest.mark.parametrize("as_json", [True, False])
def test_an_error_text_cannot_forge_a_line(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """Newlines and escapes are escaped; lines of a traceback are always indented."""
    log_to_stderr("info", as_json=as_json)
    forged = "a\n2026-01-01 INFO faked \x1b[31m"
    LogListener()(Event("failed", queue="jobs", key="1", error=forged, traceback=f"Traceback:\nValueError: {forged}\n"))
    out = capsys.readouterr().err
    assert len([line for line in out.splitlines() if not line.startswith("    ")]) == 1
    assert "\x1b[31m" not in out


def test_a_repeated_refusal_is_logged_once_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim refused every few seconds is logged once a minute per queue."""
    now = 0.0
    monkeypatch.setattr(log, "monotonic", lambda: now)
    log_to_stderr("info")
    write = LogListener()
    for now in (0.0, 10.0, 50.0, 61.0):  # noqa: B007 - the clock reads it
        write(Event("claim_refused", environment="prod", queue="jobs", error="CHECK"))
    write(Event("claim_refused", environment="prod", queue="ocr", error="CHECK"))
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_events_that_no_log_shows_are_not_wanted() -> None:
    """A finished job needs an event only where a listener wants everything or a log shows it."""
    log_to_stderr("info")
    quiet = Listeners((LogListener(),))
    assert not quiet.wants("done", "jobs")
    assert quiet.wants("failed", "jobs")
    logging.getLogger("tabellion.queue.jobs").setLevel(logging.DEBUG)
    try:
        assert quiet.wants("done", "jobs")
        assert not quiet.wants("done", "ocr")
    finally:
        logging.getLogger("tabellion.queue.jobs").setLevel(logging.NOTSET)
    assert Listeners((LogListener(), lambda _event: None)).wants("done", "ocr")


def test_a_database_that_is_back_is_logged_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The first connection is in the start line; the next one says how long the database was down."""
    log_to_stderr("info")
    write = LogListener()
    write(Event("environment_up", environment="prod", note="postgresql://db/shop"))
    write(Event("environment_up", environment="prod", note="postgresql://db/shop", seconds=35.2))
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO tabellion.worker: prod (postgresql://db/shop) can be reached again after 35 s")


def test_a_count_that_stopped_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that other programs run are counted up to a limit."""
    log_to_stderr("info")
    write = LogListener()
    write(Event("foreign_found", environment="prod", queue="jobs", count=3))
    write(Event("foreign_found", environment="prod", queue="jobs", count=1000, note="or more"))
    three, many = capsys.readouterr().err.splitlines()
    assert three.endswith("jobs in prod: 3 rows are running without a claim in the register")
    assert many.endswith("jobs in prod: 1000 or more rows are running without a claim in the register")


def test_printable_keeps_readable_characters() -> None:
    """Letters of any language and symbols stay."""
    assert printable("żółw 🐢 — ok") == "żółw 🐢 — ok"
    assert printable("a\tb\x00") == "a\\tb\\x00"
