"""How well pages of websites are read, beside trafilatura alone: python -m bench.website_text DATA

DATA is a set of saved pages: `manifest.json`, `docs/`, `text/`; the scorers are in the folder above it. Every page goes
the way of a visit: through the sandbox, with the character set found and the fields read. Fails if the main text is
more than 1 % worse than that of trafilatura alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trafilatura

from tabellion.net.page_fetching import FetchedPage
from tabellion.pipelines.websites.site.assembly import page_info
from tabellion.pipelines.websites.site.sandbox import parse_page

ALLOWED = 0.01
URL = "https://page.example/"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--verbose", action="store_true", help="each field that differs from its label")
    args = parser.parse_args()
    items = json.loads((args.data / "manifest.json").read_text())["items"]
    with tempfile.TemporaryDirectory() as name:
        ours, alone = Path(name, "ours"), Path(name, "alone")
        ours.mkdir()
        alone.mkdir()
        seconds = asyncio.run(write_ours(args.data, items, ours))
        write_alone(args.data, items, alone)
        print(f"{len(items)} pages, {sum(seconds) / len(seconds):.2f} s each, the slowest {max(seconds):.2f} s\n")
        texts = {
            who: score(args.data, "score_text.py", folder)["total"]
            for who, folder in [("ours", ours), ("trafilatura alone", alone)]
        }
        print(f"{'main text':<20}{'CER':>8}{'precision':>11}{'recall':>8}{'F1':>8}")
        for who, total in texts.items():
            print(
                f"{who:<20}{total['cer']:>8.4f}{total['word_precision']:>11.4f}{total['word_recall']:>8.4f}"
                f"{total['word_f1']:>8.4f}"
            )
        fields = {
            who: score(args.data, "score_fields.py", folder) for who, folder in [("ours", ours), ("alone", alone)]
        }
    print(f"\n{'field':<12}{'labels':>7}{'right':>7}{'F1':>8}{'trafilatura alone':>20}")
    for field, found in fields["ours"]["fields"].items():
        other = fields["alone"]["fields"][field]["f1"]
        print(f"{field:<12}{found['labels']:>7}{found['right']:>7}{found['f1']:>8.3f}{other:>20.3f}")
    print(f"{'all':<26}{fields['ours']['micro']['f1']:>8.3f}{fields['alone']['micro']['f1']:>20.3f}")
    if args.verbose:
        for row in fields["ours"]["rows"]:
            for field, found in row["fields"].items():
                if not found["right"]:
                    print(f"{row['id']} {field}: {found['got']!r}, labelled {found['want']!r}")
    lost = texts["trafilatura alone"]["word_f1"] - texts["ours"]["word_f1"]
    if lost > ALLOWED:
        raise SystemExit(f"the main text is {lost:.1%} worse than that of trafilatura alone")


async def write_ours(data: Path, items: list[dict[str, Any]], folder: Path) -> list[float]:
    """Stores what a visit reads from each page; the seconds that each took."""
    seconds = []
    for item in items:
        body = (data / item["file"]).read_bytes()
        headers = (("content-type", item.get("mime", "text/html")),)
        started = time.monotonic()
        parsed = await parse_page(FetchedPage(URL, 200, headers, body, False, (), (), None, 0.0))
        seconds.append(time.monotonic() - started)
        page = page_info(URL, "home", 200, parsed, rendered=False)
        found = {"title": page.title, "byline": page.byline, "lang": page.language, "site_name": page.site_name}
        (folder / f"{item['id']}.json").write_text(json.dumps({"fields": found, "text": page.text}))
    return seconds


def write_alone(data: Path, items: list[dict[str, Any]], folder: Path) -> None:
    """Stores what trafilatura reads from each page by itself."""
    for item in items:
        body = (data / item["file"]).read_bytes()
        text = trafilatura.extract(body, url=URL) or ""
        meta = trafilatura.extract_metadata(body, default_url=URL)
        found = (
            {"title": meta.title, "byline": meta.author, "lang": meta.language, "site_name": meta.sitename}
            if meta
            else {}
        )
        (folder / f"{item['id']}.json").write_text(json.dumps({"fields": found, "text": text}))


def score(data: Path, program: str, predictions: Path) -> dict[str, Any]:
    """The result of a scorer that comes with the data."""
    output = predictions.parent / f"{predictions.name}-{program}.json"
    command = [sys.executable, str(data.parent / program), str(data), str(predictions), "--json", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads(output.read_text())
    return result


if __name__ == "__main__":
    main()
