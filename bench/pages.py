"""How fast the pages are: python -m bench.pages [paint|keys]

paint   from the click to the first contentful paint, each page, in a new browser profile and again in the same one
keys    from a key press to the frame in which the next field has the focus, on the review screen

A real `tabellion up` with sample documents and a real Chromium, both on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.chromium import launched, why_not
from tests.browser.installation import ADDRESSES, WRONG, Installation, Visitor, open_installation

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAINT = 400  #: milliseconds to the first contentful paint, at most
PRESS = 50  #: milliseconds from a key press to the frame that shows it, at most
FIRST = """() => new Promise(resolve => new PerformanceObserver(list => {
    const found = list.getEntriesByName("first-contentful-paint");
    if (found.length) resolve(found[0].startTime);
}).observe({type: "paint", buffered: true}))"""
#: The time of the event is the browser's own, before any script heard of it; a message that is posted in a frame is
#: handled after that frame was drawn.
PRESSES = """
window.presses = [];
addEventListener("keydown", event => {
    const before = document.activeElement;
    let frames = 0;
    const look = () => requestAnimationFrame(() => {
        if (document.activeElement === before) { if (++frames < 60) look(); return; }
        const channel = new MessageChannel();
        channel.port1.onmessage = () => window.presses.push(performance.now() - event.timeStamp);
        channel.port2.postMessage(0);
    });
    look();
}, {capture: true});
"""
#: Keys that go from one field to another, and back before the last one.
TURNS = {
    "Tab, Shift+Tab": ["Tab"] * 10 + ["Shift+Tab"] * 9 + ["Tab", "Shift+Tab"],
    "j, k": ["j"] * 10 + ["k"] * 10,
    "Alt+Down": ["Alt+ArrowDown"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["paint", "keys"])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--presses", type=int, default=50)
    args = parser.parse_args()
    if sentence := why_not():
        raise SystemExit(sentence)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_installation(Path(folder) / "data") as site,
        launched() as browser,
    ):
        site.documents = site.fill()
        if args.what in (None, "paint"):
            paint(site, browser, args.times)
        if args.what in (None, "keys"):
            keys(site, browser, args.presses)


def paint(site: Installation, browser: Browser, times: int) -> None:
    """Measure each page, cold and warm."""
    print(f"first contentful paint, median of {times} (slowest), at most {PAINT} ms")
    for path in ["/sign-in", *ADDRESSES]:
        who = site.stranger if path == "/sign-in" else site.visitor
        cold, warm = [], []
        for _ in range(times):
            with who(browser) as visitor:  # a profile of its own: nothing is in its cache
                cold.append(measure_paint(visitor, site.address(path)))
                warm.append(measure_paint(visitor, site.address(path)))
        print(f"  {path:18} cold {summarise(cold)}   warm {summarise(warm)}", flush=True)


def measure_paint(visitor: Visitor, path: str) -> float:
    """Return the milliseconds of one visit."""
    visitor.page.goto("about:blank")
    visitor.page.goto(path)
    return float(visitor.page.evaluate(FIRST))


def keys(site: Installation, browser: Browser, presses: int) -> None:
    """Measure moving between fields on the review screen: forward, back, and to the next field that needs a look."""
    print(f"key press to the frame that shows the next field, median of {presses} (slowest), at most {PRESS} ms")
    with site.visitor(browser) as visitor:
        visitor.page.context.add_init_script(PRESSES)
        page = visitor.review(site.item(site.documents[WRONG]))
        for name, turn in TURNS.items():
            page.locator("#fields .slot").first.focus()
            page.evaluate("window.presses.length = 0")
            for count in range(presses):
                page.keyboard.press(turn[count % len(turn)])
                page.wait_for_function("count => window.presses.length > count", arg=count)
            print(f"  {name:18} {summarise(page.evaluate('window.presses'))}", flush=True)


def summarise(values: list[float]) -> str:
    """Return the median and the slowest."""
    return f"{statistics.median(values):6.1f} ms ({max(values):6.1f})"


if __name__ == "__main__":
    main()
