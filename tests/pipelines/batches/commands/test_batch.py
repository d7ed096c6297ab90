"""`tabellion batch` and `tabellion batches`: a file becomes a batch, which is followed, resumed and retried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tabellion.cli.app import app
from tabellion.models.fake.serving import serving
from tests.pipelines.batches.material import Images, pi_of, rows


@pytest.fixture(scope="module")
def fake_url() -> Iterator[str]:
    """A model that answers at once."""
    with serving() as fake:
        yield fake.environment["OPENAI_BASE_URL"]


@pytest.fixture
def folder(tmp_path: Path, fake_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, and the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tabellion.toml").write_text(
        f"""[batches]
model = "openai"
[models.openai]
base_url = "{fake_url}"
model = "gpt-4o-mini"
key = "test"
[gates.openai]
rate = 500
[server]
allow = ["127.0.0.0/8"]
"""
    )
    return tmp_path


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Run a command; return its exit code, output and errors."""
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def write(folder: Path, pis: list[dict[str, Any]]) -> Path:
    """Write the entities and their ref files."""
    for pi in pis:
        for ref in pi["refs"]:
            file = folder / "tabellion-data/batches/staging" / ref["staging_key"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"url": ref["cdn_url"]}))
    path = folder / "pis.jsonl"
    path.write_text("".join(json.dumps(pi) + "\n" for pi in pis))
    return path


def test_a_file_becomes_a_batch_that_is_worked_on_here(folder: Path, images: Images) -> None:
    """Without workers it is done in this process; the same command again needs --resume."""
    path = write(folder, [pi_of(images.url, number, 2) for number in range(3)])
    code, out, err = run("batch", path, "--chunk-size", "2", "--id", "scans")
    assert (code, out) == (0, "scans: complete; 6 of 6 refs, 0 failed, 2 chunks\n"), err
    assert err.count("6 of 6 refs") == 1
    code, _, err = run("batch", path, "--chunk-size", "2", "--id", "scans")
    assert code == 5
    assert "--resume" in err
    code, out, _ = run("batch", path, "--chunk-size", "2", "--id", "scans", "--resume", "--json")
    assert code == 0
    assert json.loads(out)["progress"] == {"total_refs": 6, "completed": 6, "failed": 0, "pending": 0}
    code, _, err = run("batch", path, "--chunk-size", "3", "--id", "scans")
    assert code == 5
    assert "different content" in err


def test_a_batch_that_the_next_phase_has_taken_has_ended(folder: Path, images: Images) -> None:
    """Its status is one that tabellion does not know: a queue of your own starts where batches end."""
    path = write(folder, [pi_of(images.url, 0, 1)])
    assert run("batch", path, "--id", "scans")[0] == 0
    rows(f"sqlite:///{folder}/tabellion-data/tabellion.db", "UPDATE batches SET status = 'reorganized'")
    code, out, _ = run("batch", path, "--id", "scans", "--resume")
    assert (code, out) == (0, "scans: reorganized; 1 of 1 refs, 0 failed, 1 chunk\n")


def test_failed_refs_are_listed_and_read_again_by_resume(folder: Path, images: Images) -> None:
    """Exit code 6, each error with its count; after the cause is gone, --resume completes the batch."""
    images.answers |= {"/asset/0-1/medium": [(404, b"")], "/asset/0-1": [(404, b"")]}
    path = write(folder, [pi_of(images.url, 0, 3)])
    code, out, err = run("batch", path, "--id", "scans")
    assert code == 6
    assert "scans: incomplete; 2 of 3 refs, 1 failed" in out
    assert "scans: 3 of 3 refs, 1 failed\n" in err
    assert "1 × there is no image at its URL (e.g. 0-1.png.ref.json)" in out
    code, out, _ = run("batches", "show", "scans", "--json")
    assert code == 0
    assert json.loads(out)["errors"][0]["examples"] == [{"chunk_id": "0", "pi": "pi0", "filename": "0-1.png.ref.json"}]
    images.answers.clear()
    code, out, _ = run("batch", path, "--id", "scans", "--resume")
    assert (code, out) == (0, "scans: complete; 3 of 3 refs, 0 failed, 1 chunk\n")


def test_a_line_that_is_wrong_is_named_and_nothing_is_submitted(folder: Path, images: Images) -> None:
    """By its number and field, with what to do."""
    path = write(folder, [pi_of(images.url, number, 1) for number in range(2)])
    path.write_text(path.read_text() + '{"pi": "x", "current_tip": "t", "refs": [{"filename": "a.png"}]}\n')
    code, _, err = run("batch", path)
    assert code == 5
    assert "line 3" in err
    assert "/refs/0/staging_key" in err
    path.write_text(path.read_text().replace('"refs": [{"filename": "a.png"}]', '"refs": 7'))
    assert run("batch", path)[2].startswith("line 3: a value in the body is not valid (/refs); expected: ")
    path.write_text(path.read_text().replace('"refs": 7', '"refs": []'))
    assert run("batches", "list", "--json")[1] == "[]\n"
    path.write_text(path.read_text().replace(images.url, "http://169.254.169.254"))
    code, _, err = run("batch", path)
    assert code == 5
    assert err.startswith("line 1: ")
    assert "(/refs/0/cdn_url); use a public http or https URL" in err
    path.write_text('{"pi": "x", "current_tip": "t", "refs": []}\n' * 2)
    assert run("batch", path)[2].startswith("line 2: the entity x is in the batch twice")


def test_an_id_that_cannot_be_one_is_refused(folder: Path, images: Images) -> None:
    """Before anything is stored: nothing could ever show such a batch."""
    path = write(folder, [pi_of(images.url, 0, 1)])
    code, _, err = run("batch", path, "--id", "two words")
    assert code == 5
    assert "--id: 'two words' is not an id" in err
    assert run("batch", path, "--id", "x" * 121)[0] == 5
    assert run("batches", "list", "--json")[1] == "[]\n"


def test_a_batch_can_be_submitted_without_waiting(folder: Path, images: Images) -> None:
    """Its workers may be elsewhere; list, retry and close follow it."""
    path = write(folder, [pi_of(images.url, 0, 2)])
    assert run("batch", path, "--id", "later", "--no-wait")[:2] == (0, "later: 1 chunk, 2 refs submitted\n")
    code, _, err = run("batches", "close", "later")
    assert code == 5
    assert "have not ended" in err
    assert re.search(r"later .* \d{4}-\d\d-\d\d \d\d:\d\d ", run("batches", "list")[1])
    assert run("batches", "show", "later")[1].splitlines()[2].split() == ["status", "processing"]
    assert run("batches", "retry", "later", "--chunk", "0")[:2] == (0, "0 chunks started again\n")
    assert run("batches", "retry", "later", "--chunk", "7")[::2] == (5, "there is no chunk 7 of later\n")
    assert run("batch", path, "--id", "later", "--resume")[0] == 0
    assert run("batches", "close", "later")[:2] == (0, "later is closed\n")
    for command in ("show", "retry", "close"):
        code, _, err = run("batches", command, "nonesuch")
        assert (code, err) == (5, "there is no batch nonesuch\n")


@pytest.mark.usefixtures("folder")
def test_a_secret_is_made_for_an_orchestrator() -> None:
    """In the format of Standard Webhooks; the secret that one without an entry has, in the database, can be shown."""
    assert run("batches", "secret")[1].startswith("whsec_")
    assert json.loads(run("batches", "secret", "--json")[1])["secret"].startswith("whsec_")
    assert run("batches", "secret", "o.example")[0] == 5
    assert run("migrate", "--with", "batches")[0] == 0
    first, again, other = (
        run("batches", "secret", f"https://{host}/callback")[1] for host in ("a.example", "A.example", "b.example")
    )
    assert first == again != other


def test_callbacks_that_are_not_delivered_are_told(folder: Path, images: Images) -> None:
    """The command ends with its batch; who waits for its callbacks learns that they have not arrived."""
    images.answers["/hook"] = [(501, b"")]
    path = write(folder, [pi_of(images.url, 0, 1)])
    code, out, err = run("batch", path, "--callback-url", f"{images.url}/hook", "--json")
    assert code == 0
    assert json.loads(out)["undelivered_callbacks"] == 1
    assert "1 callback not delivered yet" in err
