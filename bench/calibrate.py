"""Fits the confidence of the local reader to labelled documents: python -m bench.calibrate DATA [MORE_SET…]

Each field that was read is a case: its evidence, and whether the label agrees. A logistic model is fitted with weights
that all fields share and a few of each group's own, all drawn to nothing where the cases are few. What is printed is
cross-validated: vendors are held out in five parts, so nobody is judged by a model that has seen its vendor.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.documents import Labelled, documents, pages_of, scorer, variant
from tabellion.reading.fields.confidence import LEAST, MOST, WEIGHTS, group_of
from tabellion.reading.fields.reader import read_answers
from tabellion.reading.page import Page
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import typefile
from tabellion.reading.types.doctype import DocumentType

FEATURES = ("score", "margin", "misread", "rivals", "proofs", "doubts", "ocr")
#: The way each kind of evidence must point; what points the other way by chance is left out.
SIGNS = {"score": 1, "margin": 1, "misread": -1, "rivals": -1, "proofs": 1, "doubts": -1, "ocr": -1}
OWN = ("bias", "score", "margin", "proofs")  #: what a group may have of its own
GROUPS = ("name", "address", "date", "sum", "currency", "code", "items")
SHRINK, SHRINK_OWN, FIRM = 1.0, 3.0, 1e9
FOLDS = 5
PAPERS = Path(__file__).with_name("papers")  #: documents of many layouts, drawn for this
FUZZY = {"vendor_address": 0.85}  #: addresses are right when they are nearly so


@dataclass(frozen=True, slots=True)
class Case:
    """One field of one document."""

    vendor: str
    field: str
    features: dict[str, float]
    right: bool
    set: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("more", type=Path, nargs="*", help="further labelled sets, e.g. documents of your own")
    parser.add_argument("--dry", action="store_true", help="print, do not write the weights")
    args = parser.parse_args()
    cases = gather(args.data, args.more)
    held_out = cross_validate(cases)
    right = [case.right for case in cases]
    print(f"{len(cases)} fields of {len({case.vendor for case in cases})} vendors, {np.mean(right):.3f} right")
    print(table(held_out, right))
    print(
        f"expected calibration error {error(held_out, [case.right for case in cases]):.4f} (cross-validated by vendor)"
    )
    if not args.dry:
        weights = to_weights(cases)
        summary = {"cases": len(cases), "vendors": len({case.vendor for case in cases}), "weights": weights}
        WEIGHTS.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def gather(data: Path, more: Sequence[Path] = ()) -> list[Case]:
    """Return the cases of invoices (as text, as scans, as poor scans) and receipts."""
    judge = scorer(data)
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as folder, Sandbox() as sandbox:
        invoices = data / "invoices_facturx"
        sets = [
            (variant(data, "strip", invoices, Path(folder, "strip")), "invoice"),
            (variant(data, "scan", invoices, Path(folder, "scan")), "invoice"),
            (variant(data, "scan", invoices, Path(folder, "poor"), "--dpi", "110"), "invoice"),
            (data / "receipts_sroie", "receipt"),
        ]
        for one in (PAPERS / "invoices", PAPERS / "receipts", *more):
            sets.append((one, "receipt" if "receipt" in one.name else "invoice"))
        for path, kind in sets:
            for document, pages in pages_of(documents(path), sandbox):
                cases += cases_of(judge, document, pages, typefile.load(kind), path.name)
    return cases


def cases_of(judge: Any, document: Labelled, pages: list[Page], doctype: DocumentType, source: str) -> list[Case]:
    """Return the fields of a document that are labelled and were read."""
    answers = read_answers(pages, doctype)
    vendor = str(document.labels.get("vendor", document.id))
    return [
        Case(vendor, name, answers[name].features(), agrees(judge, name, label, answers[name].value), source)
        for name, label in document.labels.items()
        if name in answers
    ]


def agrees(judge: Any, name: str, label: Any, value: Any) -> bool:
    """Return whether the scorer accepts the value for the label."""
    have, want = judge.normalise(name, value), judge.labels_of(name, label)
    if have in want:
        return True
    least = FUZZY.get(name)
    return least is not None and have is not None and max(judge.similarity(have, one) for one in want) >= least


def matrix(cases: Sequence[Case]) -> tuple[np.ndarray, np.ndarray]:
    """Return cases as rows, and which columns are regularised more."""
    rows = []
    for case in cases:
        shared = [case.features[name] for name in FEATURES]
        own = []
        for group in GROUPS:
            mine = group_of(case.field) == group
            own += [(1.0 if name == "bias" else case.features[name]) if mine else 0.0 for name in OWN]
        rows.append([1.0, *shared, *own])
    shrink = np.array([0.01] + [SHRINK] * len(FEATURES) + [SHRINK_OWN] * (len(GROUPS) * len(OWN)))
    return np.array(rows), shrink


def fit(cases: Sequence[Case]) -> np.ndarray:
    """Newton's method on the penalised likelihood; shared weights keep their sign."""
    x, shrink = matrix(cases)
    y = np.array([case.right for case in cases], float)
    while True:
        w = np.zeros(x.shape[1])
        for _ in range(50):
            p = 1 / (1 + np.exp(-x @ w))
            step = np.linalg.solve(x.T * (p * (1 - p)) @ x + np.diag(shrink), x.T @ (y - p) - shrink * w)
            w += step
            if np.abs(step).max() < 1e-6:
                break
        wrong = [place for place, name in enumerate(FEATURES, 1) if w[place] * SIGNS[name] < 0 and shrink[place] < FIRM]
        if not wrong:
            return w
        shrink[wrong] = FIRM


def predict(w: np.ndarray, cases: Sequence[Case]) -> np.ndarray:
    """Return the probabilities."""
    return np.clip(1 / (1 + np.exp(-matrix(cases)[0] @ w)), LEAST, MOST)


def cross_validate(cases: Sequence[Case]) -> np.ndarray:
    """Judge each case by a model that has not seen its vendor."""
    vendors = sorted({case.vendor for case in cases})
    fold = {vendor: place % FOLDS for place, vendor in enumerate(vendors)}
    chances = np.zeros(len(cases))
    for part in range(FOLDS):
        w = fit([case for case in cases if fold[case.vendor] != part])
        mine = [place for place, case in enumerate(cases) if fold[case.vendor] == part]
        chances[mine] = predict(w, [cases[place] for place in mine])
    return chances


def to_weights(cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    """Return the weights as the reader uses them; unmeasured fields get the most careful group's bias."""
    w = fit(cases)
    bias, shared, own = w[0], w[1 : 1 + len(FEATURES)], w[1 + len(FEATURES) :].reshape(len(GROUPS), len(OWN))
    weights = {"all": {name: round(float(value), 4) for name, value in zip(FEATURES, shared, strict=True)}}
    for group, values in zip(GROUPS, own, strict=True):
        weights[group] = {
            name: round(float(value + (bias if name == "bias" else 0)), 4)
            for name, value in zip(OWN, values, strict=True)
        }
    weights["other"] = {"bias": round(min(one["bias"] for name, one in weights.items() if name != "all") - 0.5, 4)}
    return weights


def error(chances: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Return the expected calibration error: how far confidence and truth are apart, over ten bins."""
    chances, truth = np.asarray(chances), np.asarray(right, float)
    places = np.minimum((chances * bins).astype(int), bins - 1)
    return float(
        sum(
            abs(chances[places == b].mean() - truth[places == b].mean()) * (places == b).mean()
            for b in range(bins)
            if (places == b).any()
        )
    )


def table(chances: Sequence[float], right: Sequence[bool], bins: int = 10) -> str:
    """Return the reliability table as Markdown."""
    chances, truth = np.asarray(chances), np.asarray(right, float)
    places = np.minimum((chances * bins).astype(int), bins - 1)
    lines = ["| confidence | fields | said | right |", "|---|--:|--:|--:|"]
    for b in range(bins):
        if (mine := places == b).any():
            means, was = chances[mine].mean(), truth[mine].mean()
            lines.append(f"| {b / bins:.1f} to {(b + 1) / bins:.1f} | {mine.sum()} | {means:.3f} | {was:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
