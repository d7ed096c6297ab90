"""No external text can hang the process: every pattern that reads one is tried on a long text of its worst input."""

from __future__ import annotations

import functools
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patterns import SOURCE, Pattern, find_patterns

ROOT = Path(__file__).parent.parent
LENGTH = 100_000  #: of the text; the longest JSON body is longer, but this shows a pattern that takes quadratic time
SECONDS = 20  #: of processor time for all patterns, which take some three; one that is quadratic takes half a minute
#: Files whose patterns meet no text from outside, or only in a child that is killed; and why.
EXCUSED = {
    "cli/": "texts of the operator at the terminal, and our own SQL",
    "config.py": "the operator's configuration",
    "engine/tables/declaration.py": "the catalog of the operator's database",
    "engine/queue.py": "declarations in code",
    "engine/sql.py": "SQL in code",
    "engine/sqlite/catalog.py": "the catalog of the operator's database",
    "engine/tables/table.py": "the catalog of the operator's database",
    "engine/tables/transitions.py": "the catalog of the operator's database",
    "pipelines/documents/former_tables.py": "the catalog of the operator's database",
    "models/fake/": "the fake model serves tests and demos",
    "monitor/adoption/guessing.py": "the catalog of the operator's database",
    "monitor/adoption/status_column.py": "the catalog of the operator's database",
    **{
        f"pipelines/websites/site/{name}.py": "runs in the child that parses a page, which is killed when it takes long"
        for name in (
            "charset",
            "contacts",
            "html_tree",
            "page_fields",
            "postal",
            "script_need",
            "social",
            "technologies",
        )
    },
    "reading/boosting/": "runs in the reading child, or in a thread on one page as a model returned it",
    "reading/einvoice/": "runs in the reading child, which is killed after 45 s of silence",
    "reading/fields/": "runs in the reading child, which is killed after 45 s of silence",
    "reading/image.py": "runs in the reading child, which is killed after 45 s of silence",
    "reading/pdf.py": "runs in the reading child, which is killed after 45 s of silence",
    "reading/pdf_bytes.py": "runs in the reading child, which is killed after 45 s of silence",
}
ATTACKED = ("reading/fields/values.py",)  #: though their folder is excused
#: Patterns that meet a text which was cut before: how long it is at most, and where it is cut.
CUT = {
    "models/refusal.py: f'(?:retry": (4000, "refused() reads LONGEST_READ characters of a message"),
    "models/refusal.py: _SPAN": (4000, "what the pattern above has found"),
    "monitor/fingerprint.py": (1000, "shape() cuts at 400; what it puts in place of values is a little longer"),
    "pipelines/websites/rules/": (200_000, "main_text.LONGEST is the longest text of a page"),
    "reading/fields/values.py": (200, "of the service, only models.normalise calls it, with short values"),
    "reading/types/pattern.py": (300, "fault() refuses longer patterns"),
    'reading/grounding/variants.py: "(?P<before>': (100, "decimal_of() refuses longer texts"),
}
#: Patterns that are made when they are used, and why they need no trial here.
MADE = {
    "pipelines/documents/daily.py": "names of files in the lake, which are ours",
    "reading/grounding/variants.py: f'(?=({pattern}))'": "each piece of a date has a bounded length",
}


def meets_outside(file: str) -> bool:
    """Return whether the patterns of a file are tried."""
    return file in ATTACKED or not file.startswith(tuple(EXCUSED))


@functools.cache
def found() -> list[Pattern]:
    """The patterns that are tried; collecting tests does not read every source for them."""
    return [one for one in find_patterns() if meets_outside(one.file)]


def length_of(pattern: Pattern) -> int:
    """Return the length of its text."""
    return next((cut for name, (cut, _) in CUT.items() if pattern.name.startswith(name)), LENGTH)


@pytest.mark.timeout(900)
def test_no_text_makes_a_pattern_slow() -> None:
    """A pattern takes linear time, whatever the text."""
    command = [sys.executable, "-m", "tests.test_patterns"]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    names = child.stdout.splitlines()
    assert child.returncode != -signal.SIGXCPU, f"takes too long on {LENGTH:,} characters: {names[-1:]}"
    assert child.returncode == 0, child.stdout
    assert len(names) == sum(one.compile() is not None for one in found())


def test_the_lists_are_up_to_date() -> None:
    """Every exception is still needed, and patterns built at run time are excused one by one."""
    files = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")]
    assert [name for name in EXCUSED if not any(file.startswith(name) for file in files)] == []
    known = {one.name for one in found()}
    assert [name for name in CUT if not any(one.startswith(name) for one in known)] == []
    dynamic = {one.name for one in found() if one.compile() is None}
    assert {name for name in dynamic if not name.startswith(tuple(MADE))} == set()
    assert [name for name in MADE if not any(one.startswith(name) for one in dynamic)] == []


if __name__ == "__main__":
    from tests.patterns import run

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))  # not the time that others use the processors
    for one in found():
        if (compiled := one.compile()) is not None:
            print(one.name, flush=True)
            run(compiled, one.anywhere, length_of(one))
