"""The pages of batches: one advances, its failing refs are retried and it completes; files are submitted by a form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import axe
from tests.browser.installation import Visitor
from tests.browser.keyboard import Keyboard
from tests.pipelines.batches.installed import BatchInstallation, open_batches


@pytest.fixture(scope="module")
def batches(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BatchInstallation]:
    """An installation whose model answers at once, and whose gate allows what is needed."""
    with open_batches(tmp_path_factory.mktemp("batches"), gate="rate = 200") as one:
        yield one


@pytest.fixture
def clerk(batches: BatchInstallation, chromium: Browser) -> Iterator[Visitor]:
    """The admin, signed in."""
    with batches.site.visitor(chromium) as one:
        yield one


def test_a_batch_advances_and_its_failing_refs_are_retried(clerk: Visitor, batches: BatchInstallation) -> None:
    """Without a mouse: refs that failed are grouped by error, and read again once the cause is gone."""
    batches.lose("1-0", "3-2", "5-0", "5-1", "5-2")
    keyboard = Keyboard(clerk.page)
    with batches.hold("2-1"):
        batches.submit("scans", batches.pis(0, 6, 3), chunk_size=1)
        page = clerk.open("/batches/scans")
        expect(page.locator("#share-of")).to_have_text("17 of 18 refs have ended")
        expect(page.locator("#badges")).to_have_text("processing")
        expect(page.locator("#phases [data-phase=PROCESSING] strong")).to_have_text("1")
    expect(page.locator("#badges")).to_have_text("incomplete")
    expect(page.locator("#share-of")).to_have_text("18 of 18 refs have ended")
    expect(page.locator("#counts .failed dd")).to_have_text("5")
    error = page.locator("#errors tr")
    expect(error).to_have_count(1)
    expect(error).to_contain_text("There is no image at its URL")
    expect(error).to_contain_text("pi3 · 3-2.png.ref.json (chunk 3)")
    expect(page.locator("#gate-head")).to_have_text("Gate openai")
    expect(page.locator("#gate-facts")).to_contain_text("calls/s")
    keyboard.tab_to("#phases [data-phase=ERROR]")
    keyboard.press("Enter")
    expect(page.locator("#chunks tr")).to_have_count(1)
    expect(page.locator("#chunks tr")).to_contain_text("too many refs failed: 3 of 3")

    batches.images.answers.clear()
    keyboard.tab_to("#chunks button")
    keyboard.press("Enter")
    expect(page.locator("dialog")).to_contain_text("The chunk 5 starts again.")
    keyboard.press("Enter")
    expect(page.locator("#counts .failed dd")).to_have_text("2")
    expect(page.locator("#chunks-nothing")).to_contain_text("No chunk is in this phase.")
    keyboard.press("r")
    expect(page.locator("dialog")).to_contain_text("Every chunk that ended with failed refs")
    keyboard.press("Enter")
    expect(page.locator("#badges")).to_have_text("complete")
    expect(page.locator("#counts .read dd")).to_have_text("18")
    expect(page.locator("#errors-card")).to_be_hidden()
    expect(page.locator("#retry")).to_be_hidden()
    keyboard.tab_to("#close")
    keyboard.press("Enter")
    expect(page.locator("dialog")).to_contain_text("may be pruned")
    keyboard.press("Enter")
    expect(page.locator("#badges")).to_contain_text("closed")


def test_errors_of_entities_are_in_the_language_of_the_page(chromium: Browser, batches: BatchInstallation) -> None:
    """With the failing refs, and with the chunk that has the entity."""
    known, other = batches.pis(70, 2, 1)
    batches.submit("first-tips", [known])
    with batches.site.visitor(chromium) as one:
        one.open("/batches/first-tips")
        expect(one.page.locator("#badges")).to_have_text("complete")
    batches.submit("other-tips", [{**known, "current_tip": "strange"}, other], chunk_size=2)
    with batches.site.visitor(chromium, locale="fr-FR") as one:
        page = one.open("/batches/other-tips")
        expect(page.locator("#errors tr")).to_contain_text("La version strange est inconnue ici")
        expect(page.locator("#chunks tr")).to_contain_text("mais pas publiée\N{NO-BREAK SPACE}: la version strange est")


def test_a_batch_of_an_orchestrator_does_not_run_when_its_chunks_have_ended(
    clerk: Visitor, batches: BatchInstallation
) -> None:
    """Nobody says which chunk is the last, so the batch stays open; one that was closed is not open as well."""
    pis = batches.pis(60, 1, 2)
    batches.stage(pis)
    callback_url = f"{batches.images.url}/callback"
    batches.site.api(
        "POST", "/process", {"batch_id": "sent", "chunk_id": "0", "callback_url": callback_url, "pis": pis}
    )
    page = clerk.open("/batches/sent")
    expect(page.locator("#paces dt")).to_have_text(["Chunks ended"])
    expect(page.locator("#paces dd")).to_have_text(["1 of 1"])
    expect(page.locator("#badges")).to_have_text("open")
    page.click("#close")
    page.locator(".dialog-foot button").last.click()
    expect(page.locator("#badges")).to_have_text("closed")


def test_a_file_is_submitted(clerk: Visitor, batches: BatchInstallation, tmp_path: Path) -> None:
    """A wrong line is named with its field; the right file becomes a batch, which the list shows."""
    pis = batches.pis(20, 3, 2)
    batches.stage(pis)
    file = tmp_path / "pis.jsonl"
    file.write_text(json.dumps(pis[0]) + '\n{"pi": "x", "current_tip": "t", "refs": [{"filename": "a.png"}]}\n')
    clerk.watch.expect(422)
    page = clerk.open("/batches")
    page.set_input_files("#file", file)
    page.fill("#batch-id", "uploaded")
    page.click("#submit")
    expect(page.locator("#refused")).to_have_text(re.compile(r"Line 2: .*/refs/0/staging_key"))
    file.write_text("".join(json.dumps(pi) + "\n" for pi in pis))
    page.set_input_files("#file", file)
    page.click("#submit")
    expect(page.locator("h1")).to_have_text("uploaded")
    expect(page.locator("#badges")).to_have_text("complete")
    page.locator(".trail a").click()
    row = page.locator("#rows tr", has_text="uploaded")
    expect(row).to_contain_text("3 entities")
    expect(row).to_contain_text("6 of 6")


def test_the_list_is_kept_up_to_date(clerk: Visitor, batches: BatchInstallation) -> None:
    """A new batch comes first and advances; the rows of the others stay, with the focus."""
    batches.submit("former", batches.pis(80, 1, 1))
    page = clerk.open("/batches")
    link = page.locator("#rows tr", has_text="former").locator("a")
    expect(page.locator("#rows tr", has_text="former")).to_contain_text("complete")
    link.focus()
    former = link.element_handle()
    batches.submit("latter", batches.pis(82, 2, 2))
    expect(page.locator("#rows tr").first).to_contain_text("latter")
    expect(page.locator("#rows tr").first).to_contain_text("4 of 4")
    assert link.evaluate("(one, other) => one === other && one === document.activeElement", former)


def test_the_pages_can_be_used_by_everybody(clerk: Visitor, batches: BatchInstallation) -> None:
    """axe finds nothing grave, in the light and in the dark; a narrow window is not wider than the screen."""
    batches.lose("40-0")
    batches.submit("shown", batches.pis(40, 2, 3), chunk_size=1)
    page = clerk.open("/batches/shown")
    expect(page.locator("#badges")).to_have_text("incomplete")
    page.locator("#gate-chart summary").click()
    expect(page.locator("#gate-chart tbody tr").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    page.locator("#gate-chart .chart-frame").hover()
    expect(page.locator("#gate-chart .chart-note")).to_contain_text("allowed rate")
    try:
        for path in ("/batches/shown", "/batches"):
            page = clerk.open(path)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert axe.findings(page) == []
            page.set_viewport_size({"width": 400, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == 400
            page.set_viewport_size({"width": 1280, "height": 800})
    except axe.UnavailableError as why:
        pytest.skip(str(why))
