"""A forty-page document, a model that is paid per page, and a worker that is killed midway."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tabellion.models.fake.serving import serving
from tests.table_owner import Owner
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
PAGES = 40
PROGRAM = """
import os
from tabellion import Environment, GateSettings, Job, Worker, model
from tests.table_owner import jobs_queue

queue, gemini = jobs_queue(uses="gemini", lease=2.0), model("gemini")

@queue.handler
async def read(job: Job) -> dict[str, str]:
    texts = []
    for page in range(1, 41):
        reply = await gemini.call([f"Page {page} of the deed", "Read this page."])
        texts.append(reply.source)
        job.note(f"page {page} of 40")
    return {"result": ",".join(texts)}

Worker([Environment("prod", os.environ["WORK_URL"])], [queue], poll=0.1,
       gates={"gemini": GateSettings(rate=200, min_rate=200)}).run()
"""


def test_pages_already_paid_for_are_not_called_again(url: str, owner: Owner, tmp_path: Path) -> None:
    """After kill -9 the next worker resumes, and the model's own log has each page once, at most one twice."""
    owner.insert(1)
    (tmp_path / "program.py").write_text(PROGRAM)
    with serving(latency=0.1) as fake:
        environ = os.environ | fake.environment | {"WORK_URL": url, "PYTHONPATH": str(ROOT), "GEMINI_API_KEY": "k"}

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, str(tmp_path / "program.py")], env=environ, cwd=tmp_path)

        first = start()
        eventually(lambda: len(fake.lines()) >= PAGES // 2)
        first.send_signal(signal.SIGKILL)
        first.wait(10)
        before = len(fake.lines())
        second = start()
        try:
            eventually(lambda: owner.status(1) == "done", within=60)
        finally:
            second.terminate()
            second.wait(20)
        calls = len(fake.lines())
    sources = Counter(owner("SELECT result FROM jobs")[0]["result"].split(","))
    assert before < PAGES
    assert PAGES <= calls <= PAGES + 1  # the page that was under way may have been answered to nobody
    assert sources["resume"] >= before - 1
    assert sources["resume"] + sources["call"] == PAGES
