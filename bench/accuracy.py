"""How well documents are read: python -m bench.accuracy DATA [--write docs/explanation/accuracy.md]

DATA is a folder of labelled sets with their own scorers. Everything goes the way of `tabellion read`: pages from a
child, fields from a child; only the OCR's output is kept between two questions about the same pages.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.calibrate import Case, cases_of, cross_validate, error, table
from bench.documents import Labelled, documents, scorer, variant
from tabellion.reading.pages import open_document
from tabellion.reading.reader import Reading, read_local, type_files, understand
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import typefile

MARK = "<!-- measured -->"


@dataclass(slots=True)
class Report:
    """What was measured, line by line."""

    lines: list[tuple[str, str, str, str, bool]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    said: list[tuple[float, bool]] = field(default_factory=list)  #: the shipped confidence of each case

    def add(self, what: str, value: str, required: str, aim: str, met: bool) -> None:
        """Add one line and print it at once."""
        self.lines.append((what, value, required, aim, met))
        print(f"{'ok  ' if met else 'LOW '} {what}: {value} (required {required}, aim {aim})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--write", type=Path, help="put the tables into this file, after its mark")
    args = parser.parse_args()
    report = Report()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name, Sandbox() as sandbox:
        work = Path(name)
        measure(args.data, work, sandbox, report)
        nasty(args.data / "nasty", sandbox, report)
    chances = cross_validate(report.cases)
    right = [case.right for case in report.cases]
    found = error(chances, right)
    report.add(
        "calibration, cross-validated by vendor (ECE, 10 bins)", f"{found:.3f}", "≤ 0.05", "≤ 0.03", found <= 0.05
    )
    print(table(chances, right))
    if args.write:
        write(args.write, report, table(chances, right))
    print(f"{time.monotonic() - started:.0f} s")
    sys.exit(not all(line[4] for line in report.lines))


def measure(data: Path, work: Path, sandbox: Sandbox, report: Report) -> None:
    """Measure fields and text of every set."""
    invoices, receipts = data / "invoices_facturx", data / "receipts_sroie"
    strip, scan = variant(data, "strip", invoices, work / "strip"), variant(data, "scan", invoices, work / "scan")
    poor = variant(data, "scan", invoices, work / "poor", "--dpi", "110")
    whole = fields(data, invoices, "invoice", work / "p-whole", sandbox)
    report.add(
        "invoices with embedded XML, F1", f"{whole['micro']['f1']:.3f}", "0.99", "1.0", whole["micro"]["f1"] >= 0.99
    )
    for label, folder, kind, required, aim in (
        ("the same without the XML (text layer), F1", strip, "invoice", 0.88, "0.95"),
        ("the same as scans, F1", scan, "invoice", 0.78, "0.90"),
        ("the same as poor scans of 110 dpi, F1", poor, "invoice", 0.0, "–"),
    ):
        measured = fields(data, folder, kind, work / f"p-{folder.name}", sandbox, report)
        value = measured["micro"]["f1"]
        own = measured.get("groups", {}).get("own", {}).get("f1")
        shown = f"{value:.3f}" + (f" (layouts of their own {own:.3f})" if own is not None else "")
        report.add(label, shown, str(required) if required else "–", aim, value >= required)
    measured = fields(data, receipts, "receipt", work / "p-receipts", sandbox, report)
    main_fields = [measured["fields"][name] for name in ("vendor", "invoice_date", "total")]
    right, wrong, labels = (sum(one[key] for one in main_fields) for key in ("right", "wrong", "labels"))
    value = 2 * right / (right + wrong + labels)
    report.add("receipts: vendor, date, total, F1", f"{value:.3f}", "0.85", "0.93", value >= 0.85)
    value = measured["fields"]["vendor_address"]["f1_fuzzy"]
    report.add("receipts: address, F1 (similarity 0.85)", f"{value:.3f}", "0.75", "0.88", value >= 0.75)
    value = text(data, receipts, work / "p-receipts")
    report.add("receipts: text, word-F1", f"{value:.3f}", "0.898", "0.908", value >= 0.8975)
    fields(data, data / "ocr_pages", None, work / "p-pages", sandbox)
    value = text(data, data / "ocr_pages", work / "p-pages")
    report.add("pages: text, word-F1", f"{value:.3f}", "0.974", "0.984", value >= 0.9735)
    defects(data / "invoices_defects", sandbox, report)


def fields(
    data: Path, folder: Path, kind: str | None, target: Path, sandbox: Sandbox, report: Report | None = None
) -> dict[str, Any]:
    """Read a set, write the readings, and score them; the evidence goes to the calibration."""
    target.mkdir()
    judge = scorer(data)
    found = documents(folder)
    from concurrent.futures import ThreadPoolExecutor

    def one(document: Labelled) -> tuple[Labelled, Reading]:
        with open_document(document.path, sandbox=sandbox) as opened:
            pages = list(opened)
            header = opened.header
        understood = understand(pages, header, type_files(kind, ()), sandbox)
        return document, replace(understood, pages=tuple(pages), text="\n".join(page.text for page in pages))

    with ThreadPoolExecutor(sandbox.size) as pool:
        for document, reading in pool.map(one, found):
            content = reading.as_dict() | {"text": reading.text}
            (target / f"{document.id}.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
            if report is not None and kind is not None:
                found_cases = cases_of(judge, document, list(reading.pages), typefile.load(kind), folder.name)
                report.cases += found_cases
    if not any(document.labels for document in found):
        return {}
    return score(data, "score_fields.py", folder, target, "--fuzzy", "0.85", "--by", "layout")


def text(data: Path, folder: Path, target: Path) -> float:
    """Return the word-F1 of what was read."""
    return float(score(data, "score_text.py", folder, target)["total"]["word_f1"])


def score(data: Path, program: str, folder: Path, target: Path, *more: str) -> dict[str, Any]:
    """Return the verdict of the scorer that comes with the data."""
    out = target / "score.out"
    subprocess.run(
        [sys.executable, str(data / program), str(folder), str(target), "--json", str(out), *more],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    body: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return body


def defects(folder: Path, sandbox: Sandbox, report: Report) -> None:
    """Count what becomes of invoices that are wrong."""
    right, wrong = 0, []
    found = documents(folder)
    for document in found:
        reading = read_local(document.path, sandbox=sandbox)
        if reading.verdict == document.item["expected"]:
            right += 1
        else:
            wrong.append(f"{document.id} {reading.verdict} for {document.item['expected']}")
    shown = f"{right} of {len(found)}" + (f" ({', '.join(wrong)})" if wrong else "")
    report.add(
        "wrong invoices: reject, warn, accept as labelled", shown, "8 of 10", "10 of 10", right >= 0.8 * len(found)
    )


def nasty(folder: Path, sandbox: Sandbox, report: Report) -> None:
    """Check that each bad or hostile file ends as expected, and leaves nothing behind."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong = []
    found = documents(folder)
    for document in found:
        expect = document.item["expect"]
        reading = read_local(document.path, sandbox=sandbox, words=True)
        code = reading.error["code"] if reading.error else ""
        ok = {
            "readable": not code, "unreadable": bool(code), "needs_password": code == "pdf_encrypted", "either": True,
        }[expect]  # fmt: skip
        if expect == "needs_password" and document.item.get("password"):
            ok = ok and read_local(document.path, sandbox=sandbox, password=document.item["password"]).error is None
        words = str(document.item.get("text") or "").split()
        ok = ok and sum(word in reading.text for word in words) >= 0.9 * len(words)
        print(f"  {document.id} {document.item['what']}: {code or 'read'}", flush=True)
        if not ok:
            wrong.append(f"{document.id} {code or 'read'} for {expect}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    shown = f"{len(found) - len(wrong)} of {len(found)}, {grown:.0f} MB grown" + (
        f" ({', '.join(wrong)})" if wrong else ""
    )
    report.add("nasty files end as expected", shown, "all", "all", not wrong)


def write(path: Path, report: Report, reliability: str) -> None:
    """Write the tables into a document, after its mark."""
    kept = path.read_text(encoding="utf-8").split(MARK)[0]
    rows = ["| what | measured | required | aim |", "|---|--:|--:|--:|"]
    rows += [f"| {what} | {value} | {required} | {aim} |" for what, value, required, aim, _ in report.lines]
    share = np.mean([case.right for case in report.cases])
    body = "\n".join(rows) + f"\n\n### Confidence\n\n{len(report.cases)} fields, {share:.3f} of them right.\n\n"
    body += reliability + "\n"
    path.write_text(kept + MARK + "\n\n" + body, encoding="utf-8")


if __name__ == "__main__":
    main()
