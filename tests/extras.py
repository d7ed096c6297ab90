"""Every set of extras with every command: from a built wheel (python -m tests.extras), or with packages hidden.

A command either works or says which extra brings what it needs, and never one that is installed already. The table goes
to standard output; the environments are kept in the folder that is named, so that a second run is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SETS = (
    "",
    "postgres",
    "reading",
    "server",
    "server,reading",
    "gemini",
    "openai",
    "fake",
    "browser",
    "websites",
    "metrics",
    "otel",
    "celery",
    "all",
)
DOCUMENT = ROOT / "bench" / "papers" / "invoices" / "docs" / "syn-01.pdf"

QUEUES = """from tabellion import Job, Queue

jobs = Queue("jobs", ready="new", running="running", done="done", failed="failed")


@jobs.handler
async def work(job: Job) -> None: ...
"""

#: What is run, in this order: later ones find what earlier ones made.
COMMANDS: dict[str, Sequence[str]] = {
    "--help": ["--help"],
    "adopt": ["adopt", "jobs"],
    "migrate": ["migrate"],
    "doctor": ["--queues", "queues.py", "doctor"],
    "worker": ["--queues", "queues.py", "worker", "--until-idle"],
    "status": ["--queues", "queues.py", "status"],
    "explain": ["--queues", "queues.py", "explain", "jobs", "1"],
    "gates": ["gates"],
    "metrics": ["--queues", "queues.py", "metrics"],
    "read": ["read", "invoice.pdf"],
    "ground": ["ground", "invoice.pdf", "data.json"],
    "types": ["types", "list"],
    "analyses": ["analyses", "list"],
    "up": ["--data", "data", "up", "--until-done", "--port", "0"],
    "submit": ["--data", "data", "submit", "invoice.pdf"],
    "worker --with": ["--data", "data", "--with", "documents", "worker", "--until-idle"],
    "status --with": ["--data", "data", "--with", "documents", "status"],
    "export": ["--data", "data", "export"],
    "compact": ["--data", "data", "compact"],
    "keys": ["--data", "data", "keys", "list"],
    "users": ["--data", "data", "users", "list"],
    "webhooks": ["--data", "data", "webhooks", "list"],
    "audit": ["--data", "data", "audit", "verify"],
    "fake-model": ["fake-model", "--port", "-1"],
}
#: The same for those who write Python.
SCRIPTS = {
    "postgres": "from tabellion import Store; Store('postgresql://nobody@127.0.0.1:1/none')",
    "read()": "import tabellion; tabellion.read('invoice.pdf')",
    "browser": "from tabellion.net.chromium import check_installed; check_installed()",
    "visit": "from tabellion.pipelines.websites.site import check_installed; check_installed()",
    "otel": "from tabellion.monitor.tracing import traces; traces.open_traces({'OTEL_TRACES_EXPORTER': 'console'})",
    "celery": "import os; os.environ |= {'REDIS_URL': 'redis://127.0.0.1:1/0', 'TABELLION_QUEUES': 'queues.py'}; "
    "import tabellion.celery",
    "gemini": "import os, tabellion; os.environ['GEMINI_API_KEY'] = 'k' * 39; tabellion.model('gemini')",
    "openai": "import os, tabellion; os.environ['OPENAI_API_KEY'] = 'k' * 39; tabellion.model('openai')",
}
TOLD = "import tabellion.errors as errors\ntry: {}\nexcept errors.TabellionError as error: print(error)"
RECOMMENDED = re.compile(r"pip install 'tabellion\[([a-z,]+)\]'")


def prepare(folder: Path) -> None:
    """Create a table, its queue and a document."""
    with sqlite3.connect(folder / "work.db") as database:
        database.execute("CREATE TABLE jobs (id integer PRIMARY KEY, status text NOT NULL DEFAULT 'new')")
        database.execute("INSERT INTO jobs DEFAULT VALUES")
    (folder / "queues.py").write_text(QUEUES)
    (folder / "data.json").write_text('{"total": "12.50"}')
    (folder / "invoice.pdf").write_bytes(DOCUMENT.read_bytes())


def run(python: Sequence[str], folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run one command in the prepared folder."""
    names = ("PATH", "HOME", "LANG", *(("TABELLION_HIDDEN", "PYTHONPATH") if "TABELLION_HIDDEN" in os.environ else ()))
    kept = {name: value for name, value in os.environ.items() if name in names}
    env = kept | {"DATABASE_URL": f"sqlite:///{folder}/work.db"}
    return subprocess.run(
        [*python, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def verdict(done: subprocess.CompletedProcess[str], extras: str) -> str:
    """Return `ok`, the extra that is required, or what is wrong, starting with `WRONG`."""
    output = done.stdout + done.stderr
    if "Traceback" in output or "No module named" in output:
        return "WRONG: " + output.strip().splitlines()[-1]
    found = RECOMMENDED.search(output)
    if found is None:
        return "ok" if done.returncode == 0 else f"exit {done.returncode}"
    have = set(extras.split(","))
    if "all" in have or set(found[1].split(",")) <= have:
        return f"WRONG: asks for [{found[1]}], which is there"
    return f"[{found[1]}]"


def packages_of(extras: str) -> set[str]:
    """Return the distributions that a set of extras installs, dependencies included, by their names on the index."""
    found: set[str] = set()
    asked = frozenset(filter(None, extras.split(",")))
    waiting = [("tabellion", asked)]
    while waiting:
        name, wanted = waiting.pop()
        if name == "tabellion":  # what is installed here may be older than the file
            lines = [
                *PROJECT["dependencies"],
                *(line for one in wanted for line in PROJECT["optional-dependencies"][one]),
            ]
        else:
            lines = []
            with contextlib.suppress(PackageNotFoundError):  # another platform needs it
                lines = requires(name) or []
        for requirement in map(Requirement, lines):
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in (wanted or {""})):
                continue
            brought = canonicalize_name(requirement.name)
            if brought not in found or requirement.extras:
                found.add(brought)
                waiting.append((brought, frozenset(requirement.extras)))
    return found


def main() -> None:
    """Build the wheel, install each set, run each command, print the table; exit code 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.absolute()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    [wheel] = (folder / "dist").glob("*.whl")
    rows: dict[str, list[str]] = {name: [] for name in (*COMMANDS, *SCRIPTS)}
    for extras in SETS:
        place = folder / (extras.replace(",", "+") or "bare")
        if not place.exists():
            venv.create(place, with_pip=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{wheel}[{extras}]" if extras else str(wheel)], check=True)
        subprocess.run([*pip, "--force-reinstall", "--no-deps", str(wheel)], check=True)
        work = folder / "work" / place.name
        subprocess.run(["rm", "-rf", str(work)], check=True)
        work.mkdir(parents=True)
        prepare(work)
        for name, arguments in COMMANDS.items():
            rows[name].append(verdict(run([str(place / "bin" / "tabellion")], work, arguments), extras))
        for name, script in SCRIPTS.items():
            rows[name].append(verdict(run([str(place / "bin" / "python"), "-c"], work, [TOLD.format(script)]), extras))
        print(f"{extras or 'bare'} done", file=sys.stderr, flush=True)
    print("| | " + " | ".join(extras or "bare" for extras in SETS) + " |")
    print("|---|" + "---|" * len(SETS))
    for name, cells in rows.items():
        print(f"| `{name}` | " + " | ".join(cells) + " |")
    sys.exit(any("WRONG" in cell for cells in rows.values() for cell in cells))


if __name__ == "__main__":
    main()
