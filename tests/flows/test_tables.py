"""Tables as people have them: adopt, doctor, worker, explain, retry and cancel on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.errors import DeclarationError
from tests.flows.adopted import Adopted
from tests.flows.kinds import DATABASES, KINDS, MIRRORS, ROLE, Kind, page_table

CASES = [pytest.param(kind, dialect, id=f"{kind.slug}-{dialect}") for kind in KINDS for dialect in kind.databases]


@pytest.fixture
def adopted(request: pytest.FixtureRequest, tmp_path: Path, kind: Kind, dialect: str) -> Iterator[Adopted]:
    """The table with three waiting rows."""
    table = Adopted(kind, tmp_path, request.getfixturevalue("sqlite_url" if dialect == "sqlite" else "pg_url"))
    table.insert("good", "bad", "shaky")
    yield table
    table.close()


def is_empty(table: Adopted, row: dict[str, Any]) -> bool:
    """Return whether the mirrors of a row hold what an empty one holds."""
    mirrors = [table.kind.expected[name] for name in MIRRORS if name in table.kind.expected]
    wanted = {column: table.kind.empty.get(column) for column in mirrors}
    return all(
        row[column] is None if value is None else str(row[column]).startswith(str(value))
        for column, value in wanted.items()
    )


def state_of(table: Adopted, state: str) -> dict[str, Any]:
    """Return the column values that the declaration gives to a state."""
    declared = table.kind.expected[state]
    declared = table.kind.differs.get(table.dialect, {}).get(state, declared)
    return declared if isinstance(declared, dict) else {table.kind.expected["status"]: declared}


@pytest.mark.parametrize(("kind", "dialect"), CASES)
def test_six_commands_on_a_table(adopted: Adopted, kind: Kind) -> None:
    """The table is adopted as its own messages say, worked, explained, retried and cancelled."""
    check_first_adopt(adopted)
    check_adopt(adopted)
    if kind is ROLE:
        check_rights(adopted)
    check_doctor(adopted)
    was = adopted.rows()
    adopted.work()
    check_work(adopted, was)
    check_explain(adopted)
    cancelled = check_cancel(adopted)
    check_retry(adopted)
    assert adopted.rows()["late"] == cancelled  # the worker that did the retried row did not take it


def check_first_adopt(table: Adopted) -> None:
    """Check what `adopt` says of the table as it is, and do what its owner would."""
    kind, content = table.kind, table.content()
    result = table.run("adopt", kind.first or kind.table)
    printed = result.output + result.stderr
    assert result.exit_code == kind.code, printed
    for sentence in kind.says:
        assert sentence in printed
    assert table.content() == content
    recipe = kind.recipe.get(table.dialect, "")
    assert recipe in printed
    if done := recipe + kind.script(table.dialect, ".mended").replace("{role}", table.role):
        table.script(done)


def check_adopt(table: Adopted) -> None:
    """Check the declaration; the database is left as it was."""
    kind, content = table.kind, table.content()
    found = table.adopt()
    assert table.content() == content
    given = dict(zip(kind.options[::2], kind.options[1::2], strict=True))
    declared = {guess["argument"]: guess["value"] for guess in found["guesses"]}
    answers = {name.removeprefix("--"): kind.expected[name.removeprefix("--")] for name in given}
    assert declared | answers == {**kind.expected, **kind.differs.get(table.dialect, {})}
    assert all(guess["why"] for guess in found["guesses"])
    assert found["problems"] == []
    for note in kind.notes:
        assert any(note in one for one in found["notes"]), found["notes"]
    table.edit()
    if not found["indexed"]:
        table.script(found["index"])


def check_doctor(table: Adopted) -> None:
    """Check that `doctor` finds only what is expected, and changes nothing."""
    content = table.content()
    findings = table.findings()
    assert table.content() == content
    assert len(findings) == len(table.kind.warnings), findings
    for expected, finding in zip(table.kind.warnings, findings, strict=True):
        assert expected in finding


def check_rights(table: Adopted) -> None:
    """Check that `doctor` and worker refuse without rights; what `migrate` prints, run by the owner, grants them."""
    for words in (["doctor"], ["worker", "--until-idle"]):
        result = table.run(*words)
        assert result.exit_code == 4, result.output
        assert f"tabellion migrate --sql --grant {table.role}" in " ".join((result.output + result.stderr).split())
    assert not table.ask("SELECT 1 FROM pg_class WHERE relname LIKE 'tabellion%'")
    table.script(table.run("migrate", "--sql", "--grant", table.role).stdout)


def check_work(table: Adopted, was: dict[str, Any]) -> None:
    """Check that one is done, one failed, one done at its second attempt; nothing else has changed."""
    kind, now = table.kind, table.rows()
    ours = {table.kind.expected[name] for name in MIRRORS if name in kind.expected} | {kind.result, *kind.follows}
    ours |= {column for state in ("ready", "running", "done", "failed") for column in state_of(table, state)}
    for work, state, attempts in (("good", "done", 1), ("bad", "failed", 1), ("shaky", "done", 2)):
        row = now[work]
        assert {column: row[column] for column in state_of(table, state)} == state_of(table, state), row
        if state == "done":
            assert float(row[kind.result]) == 7
        else:
            assert row[kind.result] == was[work][kind.result]
        assert {name: row[name] for name in row if name not in ours} == {
            name: was[work][name] for name in was[work] if name not in ours
        }
        mirrors = {name: row[kind.expected[name]] for name in MIRRORS if name in kind.expected}
        assert mirrors.get("attempts", attempts) == attempts
        if "error" in mirrors:
            empty = kind.empty.get(kind.expected["error"])
            assert "no such file" in mirrors["error"] if state == "failed" else mirrors["error"] == empty
        for name in ("worker", "started_at", "finished_at"):
            assert mirrors.get(name, "x") not in (None, "", kind.empty.get(kind.expected.get(name, "")))
    others = {work for work in was if work not in ("good", "bad", "shaky") and not str(work).startswith("twin")}
    assert {work: now[work] for work in others} == {work: was[work] for work in others}


def check_explain(table: Adopted) -> None:
    """Check that `explain` gives state, error and history of each."""
    kind = table.kind
    queue = kind.table
    for work, state, outcomes in (
        ("good", "done", ["done"]),
        ("bad", "failed", ["failed"]),
        ("shaky", "done", ["done", "retried"]),
    ):
        found = table.json("explain", queue, table.key_of(work))
        assert (found["state"], [one["outcome"] for one in found["history"]]) == (state, outcomes)
    text = " ".join(table.run("explain", queue, table.key_of("bad")).output.split())
    assert "It has failed" in text
    assert "no such file" in text
    assert f"tabellion retry {queue}" in text


def check_retry(table: Adopted) -> None:
    """Check that a failed row whose cause is fixed is ready again, with empty mirrors, and is then done."""
    kind, key = table.kind, table.key_of("bad")
    table.script(f"""UPDATE {table.table()} SET "{kind.work}" = 'mended' WHERE "{kind.work}" = 'bad'""")
    result = table.run("retry", kind.table, key)
    assert result.exit_code == 0, result.output
    row = table.rows()["mended"]
    assert {column: row[column] for column in state_of(table, "ready")} == state_of(table, "ready")
    assert is_empty(table, row), row
    assert table.json("explain", kind.table, key)["state"] == "ready"
    table.work()
    row = table.rows()["mended"]
    assert {column: row[column] for column in state_of(table, "done")} == state_of(table, "done")
    assert [one["outcome"] for one in table.attempts("mended")] == ["failed", "done"]


def check_cancel(table: Adopted) -> dict[str, Any]:
    """Check that a waiting row fails at once; row, `explain` and register say why and by whom; return the row."""
    kind = table.kind
    table.insert("late")
    key = table.key_of("late")
    result = table.run("cancel", kind.table, key, "--reason", "wrong file")
    assert result.exit_code == 0, result.output
    row = table.rows()["late"]
    assert {column: row[column] for column in state_of(table, "failed")} == state_of(table, "failed")
    if "error" in kind.expected:
        assert row[kind.expected["error"]] == "wrong file"
    found = table.json("explain", kind.table, key)
    assert found["state"] == "failed"
    assert "was cancelled" in " ".join(found["sentences"])
    [attempt] = table.attempts("late")
    assert (attempt["outcome"], attempt["attempt"]) == ("cancelled", 0)
    assert attempt["error"].startswith("wrong file")
    return row


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name == "triggers and CHECK"])
@pytest.mark.parametrize("dialect", list(DATABASES))
def test_a_refused_state_stops_doctor_and_worker_before_any_work(adopted: Adopted) -> None:
    """The declaration is written with the refusal beside it; `doctor` ends with 3, and no worker starts."""
    result = adopted.run("adopt", "shipments", "--write", str(adopted.file))
    assert (result.exit_code, adopted.file.exists()) == (3, True)
    adopted.edit()
    was = adopted.rows()
    examined = adopted.run("doctor")
    assert examined.exit_code == 3
    with pytest.raises(DeclarationError) as refused:
        adopted.work()
    for said in (examined.output, str(refused.value)):
        assert "failed says status = 'lost', but running → failed is refused" in said
        assert "ready says status = 'new', but running → ready is refused" in said
    assert adopted.rows() == was
    assert not adopted.ask("SELECT * FROM shipments_history")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name == "triggers and CHECK"])
@pytest.mark.parametrize("dialect", list(DATABASES))
def test_a_row_that_may_not_fail_is_parked_and_restarted(adopted: Adopted) -> None:
    """A trigger that refuses `failed` for one row only: reported once, explained, and fixed with `retry`."""
    adopted.script(adopted.kind.script(adopted.dialect, ".mended"))
    adopted.script(adopted.kind.script(adopted.dialect, ".parking"))
    adopted.adopt()
    adopted.edit()
    events = adopted.work()
    assert [event.name for event in events if event.key == adopted.key_of("bad")].count("parked") == 1
    row = adopted.rows()["bad"]
    assert row["status"] == "packing"
    found = adopted.json("explain", "shipments", adopted.key_of("bad"))
    assert found["state"] == "parked"
    assert "no such file" in " ".join(found["sentences"])
    assert "bad parcels are never lost" in " ".join(found["sentences"])
    assert adopted.work() == []
    adopted.script("UPDATE shipments SET file_name = 'mended' WHERE file_name = 'bad'")
    assert adopted.run("retry", "shipments", adopted.key_of("mended")).exit_code == 0
    adopted.work()
    assert adopted.rows()["mended"]["status"] == "shipped"


def test_the_docs_show_this_list() -> None:
    """docs/how-to/adopt-a-table.md says of each table what was run here."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "adopt-a-table.md").read_text("utf-8")
    shown = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    assert shown == page_table(), f"docs/how-to/adopt-a-table.md should have:\n{page_table()}"
