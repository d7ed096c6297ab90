"""How fast documents are read: python -m bench.reading [cold|warm|ocr|long]

cold   a one-page invoice from the command line, a new process each time
warm   born-digital documents a second, with as many children as cores
ocr    scanned pages a second, beside bare rapidocr with the same settings and threads
long   a PDF of 300 pages: memory of the reader and of its child
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fpdf import FPDF
from PIL import Image

from tabellion.reading.draw import draw
from tabellion.reading.pages import open_document
from tabellion.reading.reader import read_local
from tabellion.reading.sandbox import Sandbox

PAPERS = Path(__file__).with_name("papers") / "invoices" / "docs"


def cold(times: int = 7) -> None:
    """Measure the time from a cold start to JSON."""
    command = [sys.executable, "-m", "tabellion", "read", str(PAPERS / "syn-16.pdf")]
    taken = []
    for _ in range(times):
        started = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.monotonic() - started)
    print(f"cold start: median {statistics.median(taken):.2f} s, slowest {max(taken):.2f} s (at most 1.5)")


def warm(seconds: float = 10.0) -> None:
    """Measure documents per second through all children."""
    paths = sorted(PAPERS.glob("*.pdf"))
    with Sandbox() as sandbox, ThreadPoolExecutor(sandbox.size) as pool:
        list(pool.map(lambda path: read_local(path, sandbox=sandbox), paths[: 2 * sandbox.size]))
        started, count = time.monotonic(), 0
        while time.monotonic() - started < seconds:
            for reading in pool.map(lambda path: read_local(path, sandbox=sandbox), paths):
                count += reading.error is None
        taken = time.monotonic() - started
        print(f"warm: {count / taken:.1f} documents/s, {sandbox.size} children (at least 20)")


def ocr(pages: int = 12) -> None:
    """Measure our scans beside the OCR engine alone, alternately, one thread and one process each."""
    with tempfile.TemporaryDirectory() as folder:
        paths = list(scans(Path(folder), pages))
        with Sandbox(size=1) as sandbox:
            engine = bare()
            ours(paths[:1], sandbox)
            engine(paths[:1])
            mine, theirs = [], []
            for path in paths:
                theirs.append(timed(lambda path=path: engine([path])))  # type: ignore[misc]
                mine.append(timed(lambda path=path: ours([path], sandbox)))  # type: ignore[misc]
    ratio = sum(theirs) / sum(mine)
    print(
        f"OCR: {pages / sum(mine):.3f} pages/s, bare rapidocr {pages / sum(theirs):.3f}: {ratio:.2f} of it (at least "
        f"0.90)"
    )


def long(pages: int = 300) -> None:
    """Measure memory while a long document streams."""
    paper = FPDF()
    paper.set_font("Helvetica", size=10)
    for number in range(pages):
        paper.add_page()
        for line in range(50):
            paper.text(
                15, 15 + 5 * line, f"Page {number + 1}, line {line + 1}: forty quick brown foxes jump over the lazy dog"
            )
    content = bytes(paper.output())
    with Sandbox(size=1) as sandbox:
        read_local(content[:0] or (PAPERS / "syn-16.pdf"), sandbox=sandbox)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.monotonic()
        highest = 0
        with open_document(content, sandbox=sandbox) as document:
            for _ in document:
                highest = max(highest, *(child_memory() or [0]))
        taken = time.monotonic() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{pages} pages: {taken:.1f} s, {pages / taken:.0f} pages/s; we grew by {grown:.0f} MB, the child held "
        f"{highest:.0f} MB"
    )


def ours(paths: list[Path], sandbox: Sandbox) -> None:
    """Read as `tabellion read` does: pages from a child."""
    for path in paths:
        with open_document(path, sandbox=sandbox) as document:
            list(document)


def bare():  # type: ignore[no-untyped-def]
    """Run rapidocr alone with the tuning of the notes, in this process."""
    import numpy as np
    from rapidocr import RapidOCR

    threads = "EngineConfig.onnxruntime."
    engine = RapidOCR(
        params={
            "Global.use_cls": False, "Det.limit_type": "max", "Det.limit_side_len": 960, "Global.log_level": "error",
            threads + "intra_op_num_threads": 1, threads + "inter_op_num_threads": 1,
        }
    )  # fmt: skip

    def read(paths: list[Path]) -> None:
        for path in paths:
            engine(np.asarray(Image.open(path).convert("RGB"))[:, :, ::-1])

    return read


def scans(folder: Path, count: int) -> Iterator[Path]:
    """Images of printed pages."""
    for place, path in enumerate(sorted(PAPERS.glob("*.pdf"))[:count]):
        target = folder / f"{place}.png"
        Image.open(io.BytesIO(draw(path, width=1654))).convert("L").save(target)
        yield target


def timed(call) -> float:  # type: ignore[no-untyped-def]
    """Return the seconds that a call takes."""
    started = time.monotonic()
    call()
    return time.monotonic() - started


def child_memory() -> list[float]:
    """Return the resident megabytes of our children."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == os.getpid():
                found.append(int((entry / "statm").read_text().split()[1]) * 4096 / 1e6)
    return found


if __name__ == "__main__":
    for name in sys.argv[1:] or ("cold", "warm", "ocr", "long"):
        {"cold": cold, "warm": warm, "ocr": ocr, "long": long}[name]()
