"""The whole story in a browser: a document arrives, a person corrects it by keyboard, and the correction stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from tests.browser.installation import WRONG, Installation, open_installation, sample
from tests.browser.keyboard import Keyboard
from tests.browser.watch import until
from tests.pipelines.documents.pdf_writer import Paper

RIGHT = "1189.88"  #: what the parts of the total make; another sum is printed


def field(name: str) -> str:
    """Return a field's row on the review screen, with its input."""
    return f"#fields [data-name={name}]"


def reviewed_output(installation: Installation, document: str, *, reviewed: bool | None = None) -> dict[str, Any]:
    """Return the document's JSON output; None until it says `reviewed`."""
    path = installation.api("GET", f"/api/documents/{document}")["outputs"]["json"]
    output = json.loads((installation.service.data / path).read_text())
    return output if reviewed is None or output["reviewed"] == reviewed else {}


def exported(installation: Installation, folder: Path) -> dict[str, Any]:
    """Return the only document, as `tabellion export` has it."""
    done = installation.run_command("export", "--out", str(folder / "all.jsonl"))
    assert done.returncode == 0, done.stderr
    return dict(json.loads((folder / "all.jsonl").read_text()))


def actions(installation: Installation, document: str) -> list[str]:
    """Return what has happened to the document."""
    return [one["action"] for one in installation.api("GET", f"/api/documents/{document}/history")["entries"]]


def test_from_upload_to_approval_by_keyboard_alone(chromium: Browser, tmp_path: Path, pg_url: str) -> None:
    """Uploaded, read, claimed, corrected, approved; the output has the correction, and reprocessing keeps it."""
    with (
        open_installation(tmp_path / "data", DATABASE_URL=pg_url) as installation,
        installation.visitor(chromium) as visitor,
    ):
        page, keyboard = visitor.page, Keyboard(visitor.page)
        (tmp_path / WRONG).write_bytes(sample(WRONG).content)
        page.on("filechooser", lambda chooser: chooser.set_files(tmp_path / WRONG))
        visitor.open("/documents")
        keyboard.tab_to("#upload")
        keyboard.press("Enter")
        rows = page.locator("#rows tr[data-row]")
        expect(rows).to_contain_text(["completed"], ignore_case=True, timeout=30_000)  # pushed by the server
        document = str(rows.get_attribute("data-row"))

        keyboard.tab_to("nav a[href='/queue']")
        keyboard.press("Enter")
        page.wait_for_url("**/queue")
        expect(page.locator("#rows tr[data-row]")).to_have_count(1)
        keyboard.press("c")

        page.wait_for_url("**/review/*")
        for name in ("subtotal", "tax"):
            keyboard.wait_for(field(name))
            keyboard.press("Enter")  # as it was read
        keyboard.wait_for(field("total"))
        keyboard.press("e")
        keyboard.wait_for("#field-total")
        keyboard.type(RIGHT)
        expect(page.locator("#reasons").get_by_role("img", name="done")).to_be_visible()  # judged as it is typed
        keyboard.press("Enter")
        keyboard.wait_for("#approve")
        keyboard.press("Control+Enter")
        expect(page.locator("#nothing")).to_be_visible()

        output = until(
            page, lambda: reviewed_output(installation, document, reviewed=True)
        )  # written again by a worker
        total = output["fields"]["total"]
        assert (total["value"], total["locked"], total["source"]) == (RIGHT, True, "person")
        assert (output["locked"], output["issues"]) == (["total"], [])
        assert exported(installation, tmp_path)["fields"]["total"]["value"] == RIGHT

        visitor.open(f"/documents/{document}")
        keyboard.tab_to("#again")
        keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        keyboard.tab_to("dialog [type=submit]")
        keyboard.press("Enter")
        until(page, lambda: "reprocessed" in actions(installation, document))
        installation.wait_for_end(document)
        assert reviewed_output(installation, document)["fields"]["total"] == total
        expect(page.locator("[data-field=total]")).to_contain_text(RIGHT)

        item = installation.api("GET", f"/api/review/items?status=done&q={WRONG}")["items"][0]
        page = visitor.review(item, claim=False)
        keyboard.tab_to("#field-total")
        expect(page.locator("#field-total")).to_have_value(RIGHT)
        expect(page.locator(f"{field('total')} .lockmark svg")).to_be_visible()
        assert installation.run_command("audit", "verify").returncode == 0


def test_a_different_second_reading_is_shown_beside_the_correction(chromium: Browser, tmp_path: Path) -> None:
    """The correction stays; the first and the second reading can be seen, and chosen."""
    types, paper = tmp_path / "types", Paper()
    types.mkdir()
    letter = (
        'name: letter\nversion: "{0}"\nfields:\n  code: {{type: text, labels: [{1}]}}\nprocessing: {{review: always}}\n'
    )
    (types / "letter.yaml").write_text(letter.format(1, "Our sign"))
    paper.text(56, 80, "Our sign: A-100", 12)
    paper.text(56, 110, "Your sign: B-200", 12)
    with (
        open_installation(tmp_path / "data", TABELLION_TYPES=str(types)) as installation,
        installation.visitor(chromium) as visitor,
    ):
        document = installation.upload(paper.to_bytes(), "letter.pdf", type="letter")
        item = installation.item(document)
        page = visitor.review(item)
        page.locator("#field-code").fill("C-300")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#nothing")).to_be_visible()
        (types / "letter.yaml").write_text(letter.format(2, "Your sign"))
        again, headers = f"/api/documents/{document}/reprocess", {"Content-Type": "application/json"}
        # Its outputs are written again, because somebody approved it; it can be read again when that is done.
        until(page, lambda: installation.service.ask("POST", again, b"{}", **headers)[0] == 202)
        installation.wait_for_end(document)

        installation.api("POST", f"/api/review/items/{item['id']}/reopen", {"reason": "it is read otherwise now"})
        page = visitor.review(item)
        expect(page.locator("#field-code")).to_have_value("C-300")
        page.locator(field("code")).focus()
        rows = page.locator(f"{field('code')} .threeway tr")
        expect(rows).to_contain_text(["C-300", "A-100", "B-200"])
        rows.nth(2).get_by_role("button").click()
        expect(page.locator("#field-code")).to_have_value("B-200")
