"""The dashboard and a queue's page in a real browser: live, by keyboard, and still shown when the server is down."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tabellion import Queue, Store
from tabellion.accounts import audit
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes, GateSettings
from tabellion.engine.settlement import Settlement
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.messages import Message
from tabellion.monitor.view import QueueView
from tabellion.monitor.workers import SHOWN
from tests.browser import axe, script_injection
from tests.browser.watch import Watch, until
from tests.models.bills import bill
from tests.web.browser import signed_in
from tests.web.live import Live

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAINTING = Queue("paintings", ready="new", running="drying", done="done", failed="torn", order="id", error="error")
TABLE = "CREATE TABLE paintings (id integer PRIMARY KEY, status text NOT NULL, created_at REAL, error text)"
ROWS = 40
WIDE, TABLET = {"width": 1280, "height": 800}, {"width": 834, "height": 1112}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Gallery:
    """An application with a queue of paintings; async code runs in another thread."""

    def __init__(self, live: Live, thread: ThreadPoolExecutor, browser: Browser) -> None:
        self.live, self._thread, self._browser = live, thread, browser

    def run_in_thread(self, work: Callable[[], Any]) -> Any:
        """Run it in the other thread: the browser has the event loop of this one."""
        return self._thread.submit(work).result(60)

    def store(self, question: Callable[[Store], Awaitable[Any]]) -> Any:
        """Query the database directly."""
        return self.run_in_thread(lambda: self.live.store("prod", question))

    def work_in_dev(self, note: str, count: int) -> None:
        """Claim jobs in the other environment, which gets a table and three paintings with the first two."""
        queue = Queue(
            "paintings", name="documents", ready="new", running="drying", done="done", failed="torn", order="id"
        )

        async def work() -> None:
            async with Store(f"sqlite:///{self.live.folder}/dev.db") as store:
                if count > 1:
                    await store.database.fetch(TABLE)
                    await store.add_many(queue, [{"id": number} for number in range(1, 4)])
                jobs = await store.claim(queue, count, f"w {script_injection.EVERYTHING}")
                jobs[0].note(note)
                await store.renew(jobs)

        self.run_in_thread(lambda: asyncio.run(work()))

    def settle(self, *errors: str | None) -> None:
        """End the next paintings, as done or with an error."""

        async def work(store: Store) -> None:
            jobs = await store.claim(PAINTING, len(errors), "w1")
            for job, error in zip(jobs, errors, strict=True):
                done = Settlement(job, "done") if error is None else Settlement(job, "failed", error=error)
                await store.settle([done])

        self.store(work)

    @contextmanager
    def visit(self, path: str, role: str = "operator", *, cut: bool = False, **options: Any) -> Iterator[Page]:
        """Open a page as a user with this role; forbidden browser events fail at the end. `cut`: the server stops."""
        ticket = self.run_in_thread(lambda: signed_in(self.live, role)).ticket
        given = {"viewport": WIDE, "locale": "en-GB", "timezone_id": "UTC", "reduced_motion": "reduce"} | options
        with self._browser.new_context(base_url=self.live.url, **given) as context:
            context.add_cookies([{"name": "tabellion", "value": str(ticket), "url": self.live.url}])
            watch, trap = Watch(context, self.live.url), script_injection.ScriptDetector(context)
            watch.cut = cut
            page = context.new_page()
            page.goto(path)
            page.locator("#live.live-up").wait_for()
            yield page
            trap.check(page)
            watch.check()


@pytest.fixture
def gallery(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    """Forty new paintings without a worker."""
    folder = tmp_path_factory.mktemp("gallery")
    with ThreadPoolExecutor(1) as thread:
        unserved = {"dev": f"sqlite:///{folder}/dev.db", "away": "postgresql://postgres@127.0.0.1:9/nothing"}
        live = Live(folder, {"prod": f"sqlite:///{folder}/prod.db"}, unserved=unserved)
        thread.submit(live.start).result(60)
        one = Gallery(live, thread, chromium)
        live.app.state.auth.environments["prod"].monitor.overview.views.insert(0, QueueView(PAINTING))

        async def fill(store: Store) -> None:
            await store.database.fetch(TABLE)
            await store.add_many(PAINTING, [{"id": number} for number in range(1, ROWS + 1)])

        one.store(fill)
        try:
            yield one
        finally:
            thread.submit(live.stop).result(60)


def cell(page: Page, name: str, place: int) -> str:
    """Return a cell of a queue's row."""
    return page.locator(f'#queues tr[data-row="{name}"] td').nth(place).inner_text()


def tile(page: Page, name: str) -> str:
    """Return one of the figures at the top."""
    return page.locator(f'[data-tile="{name}"] strong').inner_text()


def test_the_figures_follow_the_database(gallery: Gallery) -> None:
    """Without a reload, and in place: the row, the scroll position and the selected row stay."""
    with gallery.visit("/dashboard") as page:
        until(page, lambda: tile(page, "ready") == str(ROWS))
        page.keyboard.press("j")
        page.evaluate("window.mark = 1; document.querySelector('#queues tr').mark = 1; scrollTo(0, 200)")
        gallery.settle(None, None, None, "HTTP 503")
        until(page, lambda: (tile(page, "done"), tile(page, "failed")) == ("3", "1"))
        assert (cell(page, "paintings", 1), cell(page, "paintings", 3)) == (str(ROWS - 4), "1")
        assert page.locator("#throughput .fill-done[height]:not([height='0'])").count() >= 1
        assert page.evaluate("window.mark + document.querySelector('#queues tr').mark") == 2
        assert page.evaluate("scrollY") == 200
        assert page.locator("#queues tr.here").get_attribute("data-row") == "paintings"


def test_workers_gates_and_cost_are_shown(gallery: Gallery) -> None:
    """Live and lost workers, closed gates with the reason, cost and budget."""

    async def work(store: Store) -> None:
        for name in ("alive", "lost"):
            await roster.enlist(store, WorkerRecord(name, "host", 1, f"b{name}", "0.1", "paintings", 8, busy=2))
        await store.database.fetch("UPDATE tabellion_workers SET seen_at = seen_at - 60 WHERE id = 'lost'")
        await GateRow(store, "gemini", GateSettings()).turn(CallOutcomes(refused="no such key", spent=1.25), 0)
        [job] = await store.claim(PAINTING, 1, "w1")
        job.cost = 0.75
        await store.finish(job)
        held = await store.claim(PAINTING, 2, "alive")
        held[0].note("page 12 of 40")
        await store.renew(held)

    gallery.store(work)
    with gallery.visit("/dashboard", "viewer") as page:
        until(page, lambda: page.locator("#workers tr").count() == 2)
        text = page.locator("#workers tr").first.inner_text()
        assert re.search(r"paintings: 2 jobs, since \d\d:\d\d · page 12 of 40", text), text
        assert [row.locator(".badge").inner_text() for row in page.locator("#workers tr").all()] == ["alive", "lost"]
        assert "no such key" in page.locator("#gates").inner_text()
        assert tile(page, "spend") == "$0.75"
        assert page.locator("#spend-by tr").count() == 1
        assert page.locator("#sla-sentence").inner_text() == "Nothing was due in the last seven days"
        assert page.locator("#queues button").count() == 0, "a viewer may not act"


def test_all_workers_are_counted(gallery: Gallery) -> None:
    """Also those that the list leaves out."""
    count = SHOWN + 5

    async def work(store: Store) -> None:
        for number in range(count):
            await roster.enlist(store, WorkerRecord(f"w{number}", "host", 1, f"b{number}", "0.1", "paintings", 2))

    gallery.store(work)
    with gallery.visit("/dashboard") as page:
        until(page, lambda: page.locator("#workers tr").count() == SHOWN)
        assert page.locator("#workers-alive").inner_text() == f"{count} alive"
        shown = page.locator('[data-tile="running"] .tile-sub').inner_text()
        assert shown == f"{count} workers, {2 * count} slots"


def test_a_queue_is_paused_and_resumed_by_keyboard(gallery: Gallery) -> None:
    """j selects, p asks for a reason, Enter confirms; p again resumes; Enter opens the queue; ? shows help."""
    with gallery.visit("/dashboard") as page:
        until(page, lambda: page.locator("#queues tr").count() > 1)
        page.keyboard.press("?")
        assert "Pause or resume the queue" in page.locator("dialog").inner_text()
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("p")
        page.keyboard.type("varnish is late")
        page.keyboard.press("Enter")
        badge = page.locator('#queues tr[data-row="paintings"] .badge.warn')
        badge.wait_for()
        page.locator("dialog").wait_for(state="detached")  # the news may come before the answer
        assert badge.get_attribute("title") == "varnish is late"
        assert gallery.store(lambda store: store.claim(PAINTING, 1, "w1")) == []
        page.keyboard.press("p")
        badge.wait_for(state="detached")
        assert len(gallery.store(lambda store: store.claim(PAINTING, 1, "w1"))) == 1
        page.keyboard.press("Enter")
        page.wait_for_url("**/queues/paintings*")


def test_a_group_of_errors_is_retried_by_keyboard(gallery: Gallery) -> None:
    """One group per kind of error; r asks, Enter confirms, and the page shows what is left."""
    gallery.settle(*[f"torn at {number} cm" for number in range(7)], "HTTP 500", "HTTP 500")
    with gallery.visit("/queues/paintings") as page:
        until(page, lambda: page.locator("#groups tr").count() == 2)
        assert page.locator("#rows tr").count() == 9, "what has failed is what one comes for"
        first = page.locator("#groups tr").first
        assert first.locator(".shape").inner_text() == "torn at 6 cm", "an example, as it was said"
        assert "all: torn at <n> cm" in first.inner_text()
        assert first.locator("button").inner_text() == "Retry these 7"
        page.keyboard.press("j")
        page.keyboard.press("r")
        assert "<n>" not in page.locator("dialog").inner_text()
        assert "Retry these 7 rows?" in page.locator("dialog").inner_text()
        page.keyboard.press("Enter")
        expect(page.locator("#toasts")).to_have_text("7 rows are ready again")  # for a few seconds
        until(page, lambda: page.locator("#rows tr").count() == 2)
        until(page, lambda: page.locator("#tab-failed strong").inner_text() == "2")
        [row] = gallery.run_in_thread(
            lambda: gallery.live.sql("SELECT n, at, body FROM tabellion_audit_log WHERE action = 'retried'")
        )
        entry = audit.serialize_entry(row)
        assert (entry["actor"], entry["more"]["queue"], entry["more"]["rows"]) == ("operator", "paintings", 7)
        page.locator("#rows button").first.click()
        until(page, lambda: page.locator("#rows tr").count() == 1)


def test_rows_are_shown_by_name(gallery: Gallery) -> None:
    """Where the table has a column for it; in the list and as the example of a group."""

    async def work(store: Store) -> None:
        await store.database.fetch("ALTER TABLE paintings ADD COLUMN title text")
        await store.database.fetch("UPDATE paintings SET title = 'Still life no. ' || id")

    gallery.store(work)
    gallery.settle("torn")
    with gallery.visit("/queues/paintings") as page:
        until(page, lambda: page.locator("#groups tr").count() == 1)
        assert "for example Still life no. 1" in page.locator("#groups").inner_text()
        assert page.locator("#rows .key-cell").inner_text().split("\n") == ["Still life no. 1", "1"]


def test_manual_work_is_not_counted_with_that_of_workers(gallery: Gallery) -> None:
    """Its rows are in no figure at the top, and its queue is not reported as lacking a worker."""
    views = gallery.live.app.state.auth.environments["prod"].monitor.overview.views
    views[0] = QueueView(PAINTING, people=True)
    with gallery.visit("/dashboard") as page:
        until(page, lambda: cell(page, "paintings", 1) == str(ROWS))
        assert tile(page, "ready") == "0"
        assert page.locator('#queues tr[data-row="paintings"] .badge').count() == 0


def test_follow_up_queues_are_not_counted(gallery: Gallery) -> None:
    """They are neither counted nor shown, until they have failures."""
    chore = next(one for one in gallery.live.app.state.auth.environments["prod"].monitor.overview.queues
                 if one.name == "failures")  # fmt: skip

    def failing() -> None:
        for text in ("a", "b"):
            gallery.live.upload(bill(text))
        gallery.live.sql("UPDATE tabellion_documents SET status = 'failed'")

    gallery.run_in_thread(failing)

    async def work(store: Store) -> None:
        [job, _] = await store.claim(chore, 2, "w1")
        await store.finish(job)

    gallery.store(work)
    gallery.settle(None)
    with gallery.visit("/dashboard") as page:
        until(page, lambda: tile(page, "done") == "1")
        assert (tile(page, "ready"), tile(page, "running")) == (str(ROWS - 1), "0")
        row = page.locator('tr[data-row="failures"]')
        assert row.is_hidden()
        page.locator("#chores-button").click()
        row.wait_for()
        assert page.locator("#chores-button").get_attribute("aria-expanded") == "true"
        page.locator("#chores-button").click()
        row.wait_for(state="hidden")
        gallery.live.ask("POST", "/api/queues/failures/pause", json={"reason": "quiet, please"})
        row.wait_for()


@pytest.mark.parametrize(
    ("path", "badge"), [("/dashboard", "#queues .badge.warn"), ("/queues/paintings", "#badges .warn")]
)
def test_a_pause_shows_its_latest_reason(gallery: Gallery, path: str, badge: str) -> None:
    """A queue paused again for another reason shows that one, on the dashboard and on its own page."""
    with gallery.visit(path) as page:
        for reason in ("lunch", "inventory"):
            gallery.live.ask("POST", "/api/queues/paintings/pause", json={"reason": reason})
            page.locator(f'{badge}[title="{reason}"]').wait_for()


def test_rows_of_every_state_are_listed(gallery: Gallery) -> None:
    """By number key, by arrow key and by address; long lists are paged."""
    gallery.settle(*[None] * 5)
    gallery.store(lambda store: store.claim(PAINTING, 2, "w1"))
    gallery.store(lambda store: store.add_many(PAINTING, [{"id": number} for number in range(100, 160)]))
    with gallery.visit("/queues/paintings#done") as page:
        until(page, lambda: page.locator("#rows tr").count() == 5)
        page.keyboard.press("3")
        until(page, lambda: page.locator("#rows tr").count() == 2)
        page.locator("#tab-running").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#tab-done").get_attribute("aria-selected") == "true"
        page.keyboard.press("2")
        page.locator("#rows-empty h2").wait_for()
        assert page.locator("#rows-empty h2").inner_text() == "Nothing is scheduled for later"
        page.keyboard.press("1")
        until(page, lambda: page.locator("#rows tr").count() == 50)
        page.locator("#more").click()
        until(page, lambda: page.locator("#rows tr").count() == ROWS - 7 + 60)
        assert page.locator("#pager").is_hidden()
        keys = page.locator("#rows .key-cell").all_inner_texts()
        assert len(set(keys)) == len(keys)


def test_an_admin_sees_the_workers_of_all_environments(gallery: Gallery) -> None:
    """With their jobs and notes, which follow the database; an environment that does not answer is named below."""
    gallery.work_in_dev("page 12 of 40", 2)
    with gallery.visit("/dashboard", role="admin") as page:
        row = page.locator("#all-workers tr")
        expect(row).to_have_count(1)
        assert row.locator("td").all_inner_texts()[2:4] == ["documents", "2"]
        assert row.locator("td").last.inner_text() == "page 12 of 40"
        assert row.locator("time").first.get_attribute("title")
        expect(page.locator("#all-workers-problems")).to_have_text("away: the database cannot be reached.")
        assert page.evaluate(OVERFLOW) <= 0
        gallery.work_in_dev("page 1 of 3", 1)
        expect(row.locator("td").nth(3)).to_have_text("3")


def test_notes_are_in_the_language_of_the_page(gallery: Gallery) -> None:
    """Those of our handlers are messages: beside a worker, in the list of all workers, and in a running row."""

    async def work(store: Store) -> None:
        await roster.enlist(store, WorkerRecord("alive", "host", 1, "boot", "0.1", "paintings", 8, busy=1))
        jobs = await store.claim(PAINTING, 1, "alive")
        jobs[0].note(Message("progress.page", n=12, total=40))
        await store.renew(jobs)

    gallery.store(work)
    gallery.work_in_dev(Message("progress.page", n=2, total=3), 2)
    with gallery.visit("/dashboard", role="admin", locale="fr-FR") as page:
        expect(page.locator("#workers tr").first).to_contain_text("page 12 sur 40")
        expect(page.locator("#all-workers td").last).to_have_text("page 2 sur 3")
    with gallery.visit("/queues/paintings#running", locale="fr-FR") as page:
        expect(page.locator("#rows tr").first).to_contain_text("page 12 sur 40")


def test_texts_from_outside_stay_text(gallery: Gallery) -> None:
    """Errors, notes, reasons, worker names and gate messages: none of it becomes markup."""
    bad = script_injection.EVERYTHING

    async def work(store: Store) -> None:
        await roster.enlist(store, WorkerRecord(bad, bad, 1, bad, bad, bad, 8))
        await GateRow(store, bad, GateSettings()).turn(CallOutcomes(refused=bad), 0)
        jobs = await store.claim(PAINTING, 2, bad)
        jobs[0].note(bad)
        await store.renew(jobs)
        await store.settle([Settlement(jobs[1], "failed", error=json.dumps({"code": "x", "message": bad}))])

    gallery.store(work)
    gallery.live.ask("POST", "/api/queues/paintings/pause", json={"reason": bad})
    for path in ("/dashboard", "/queues/paintings#failed", "/queues/paintings#running"):
        with gallery.visit(path) as page:
            until(page, lambda page=page: script_injection.IMAGE in page.evaluate(script_injection.SHOWN))  # type: ignore[misc]


def test_the_figures_stay_when_the_server_goes_down(gallery: Gallery) -> None:
    """A banner says how old they are, and that they are not live."""
    with gallery.visit("/dashboard", cut=True) as page:
        until(page, lambda: tile(page, "ready") == str(ROWS))
        assert page.locator("#stale").is_hidden()
        gallery.run_in_thread(gallery.live.stop)
        page.locator("#stale").wait_for()
        assert "Connection lost" in page.locator("#stale").inner_text()
        assert page.locator("#live").inner_text() == "Not live"
        assert tile(page, "ready") == str(ROWS)


@pytest.mark.parametrize(
    "options",
    [{}, {"viewport": TABLET, "color_scheme": "dark", "locale": "fr-FR"}, {"viewport": {"width": 1024, "height": 768}}],
    ids=["wide", "tablet, dark, French", "tablet, across"],
)
def test_the_dashboard_is_accessible(gallery: Gallery, options: dict[str, Any]) -> None:
    """Nothing is cut off, axe finds no serious violation, and each chart has a name and a table."""
    gallery.settle(None, None, "HTTP 500")
    for path in ("/dashboard", "/queues/paintings#failed"):
        with gallery.visit(path, **options) as page:
            until(page, lambda page=page: page.locator("tr[data-row]").count() > 0)  # type: ignore[misc]
            assert page.evaluate(OVERFLOW) <= 0, path
            try:
                assert axe.findings(page) == []
            except axe.UnavailableError as error:
                pytest.skip(str(error))
            for chart in page.locator("svg.chart-svg").all():
                assert chart.locator("title").text_content()
                assert chart.locator("desc").text_content()
            page.locator(".chart-more summary").first.click()
            until(page, lambda page=page: page.locator(".chart-table tbody tr").count() == 60)  # type: ignore[misc]
            if options.get("locale") == "fr-FR":
                assert page.locator("html").get_attribute("lang") == "fr"
                assert "En direct" in page.locator("#live").inner_text()
