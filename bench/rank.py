"""Fits which line is the vendor's name: python -m bench.rank DATA [MORE_SET…]

For each labelled document the lines that may be the name compete; the weights are those under which the right one wins
most surely. What is printed is cross-validated: each vendor is judged by weights that have not seen it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.calibrate import PAPERS, agrees
from bench.documents import documents, pages_of, scorer, variant
from tabellion.reading.fields.labelled_text import label_text
from tabellion.reading.fields.reader import lexicon_of
from tabellion.reading.fields.vendor import WEIGHTS, name_candidates
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.types import typefile

SHRINK = 0.3
FOLDS = 8


@dataclass(frozen=True, slots=True)
class Contest:
    """The lines of one document that may be the vendor's name."""

    vendor: str
    features: np.ndarray
    right: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "more", type=Path, nargs="*", help="further labelled sets; a name with `receipt` in it is one of receipts"
    )
    args = parser.parse_args()
    contests, names, lost = gather(args.data, args.more)
    vendors = sorted({one.vendor for one in contests})
    fold = {vendor: place % FOLDS for place, vendor in enumerate(vendors)}
    won = 0
    for part in range(FOLDS):
        weights = fit([one for one in contests if fold[one.vendor] != part])
        won += sum(one.right[int(np.argmax(one.features @ weights))] for one in contests if fold[one.vendor] == part)
    print(f"{len(contests)} documents of {len(vendors)} vendors; {lost} more do not show the name on one line")
    print(f"right name first: {won / len(contests):.3f} (vendors held out)")
    weights = fit(contests)
    summary = {
        "documents": len(contests),
        "vendors": len(vendors),
        "weights": {name: round(float(value), 3) for name, value in zip(names, weights, strict=True)},
    }
    WEIGHTS.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary["weights"]))


def gather(data: Path, more: list[Path]) -> tuple[list[Contest], list[str], int]:
    """Return the contests of invoices and receipts, the features' names, and how many had no right candidate."""
    judge, contests, names, lost = scorer(data), [], [], 0
    with tempfile.TemporaryDirectory() as folder, Sandbox() as sandbox:
        invoices = data / "invoices_facturx"
        sets = [
            variant(data, "strip", invoices, Path(folder, "strip")),
            data / "receipts_sroie",
            PAPERS / "invoices",
            PAPERS / "receipts",
            *more,
        ]
        for path in sets:
            lexicon = lexicon_of(typefile.load("receipt" if "receipt" in str(path) else "invoice", ()))
            for document, pages in pages_of(documents(path), sandbox):
                label = document.labels.get("vendor")
                found = name_candidates(label_text([page for page in pages if page.words], lexicon))
                right = np.array([agrees(judge, "vendor", label, name) for _, name, _ in found])
                if not right.any():
                    lost += 1
                    continue
                names = list(found[0][2])
                features = np.array([[one[name] for name in names] for _, _, one in found])
                vendor = label[0] if isinstance(label, list) else str(label)
                contests.append(Contest(vendor, features, right))
    return contests, names, lost


def fit(contests: list[Contest]) -> np.ndarray:
    """Gradient ascent on the probability that a right line wins; a vendor counts once however many documents it has."""
    often = Counter(one.vendor for one in contests)
    weights = np.zeros(contests[0].features.shape[1])
    for step in range(1500):
        slope = -SHRINK * weights
        for one in contests:
            logit = one.features @ weights
            p = np.exp(logit - logit.max())
            p /= p.sum()
            q = p * one.right
            q /= q.sum()
            slope += (q - p) @ one.features / often[one.vendor]
        weights += 0.03 * slope / (1 + step / 500)
    return weights


if __name__ == "__main__":
    main()
