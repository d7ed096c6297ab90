"""Runs the steps of a profile in a browser page."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error
from playwright.async_api import TimeoutError as BrowserTimeout

from tabellion.messages import Message
from tabellion.pipelines.registries.problems import AmbiguousResult, SiteProblem, StepFailed
from tabellion.pipelines.registries.profile import MOST_PAGES, PLACEHOLDER, Profile, Step, Task

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, Locator, Page

    from tabellion.net.browsing import BrowserSession

SERVER_ERROR = 500  #: statuses from here on mean that the site, or the way to it, has a problem
LOOK = 0.1  #: seconds between two checks of a page
TRY = 1500  #: milliseconds for one try at a click; then notices that cover the element are closed
NUDGE = 250  #: milliseconds for closing a notice
LONGEST_TEXT = 20_000  #: characters of a page that are searched for problems
CELLS = "rows => rows.map(row => [row.innerText, ...Array.from(row.children, one => one.innerText)])"


@dataclass
class TaskResult:
    """The result of a task: values by name, and the downloaded file."""

    values: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
    suggested_name: str = ""


class ProfileRunner:
    """Drives one page by one profile."""

    def __init__(
        self, session: BrowserSession, page: Page, profile: Profile, note: Callable[[str], None] = lambda _: None
    ) -> None:
        self._session, self._page, self._profile, self._note = session, page, profile, note
        self._row: Locator | None = None  #: found by the last `find`; later steps search within it
        self._dialogs: list[str] = []  #: texts of the browser's dialogs since the last check
        self._signing_in = False
        self.step: Step | None = None  #: the current step, for reports
        page.on("dialog", self._accept_dialog)

    async def sign_in(self, username: str, password: str) -> None:
        """Runs the login steps; raises a SiteProblem if the site rejects the account."""
        self._note(Message("registry.note_login"))
        self._signing_in = True
        try:
            await self._run_steps(self._profile.login, {"username": username, "password": password}, TaskResult())
        finally:
            self._signing_in = False

    async def run(self, task: Task, inputs: Mapping[str, Any]) -> TaskResult:
        """Runs the steps of a task; raises a SiteProblem, StepFailed or AmbiguousResult."""
        result = TaskResult()
        texts = {name: str(value) for name, value in inputs.items() if value not in (None, "")}
        await self._run_steps(task.steps, texts, result)
        return result

    async def _run_steps(self, steps: Sequence[Step], inputs: Mapping[str, str], result: TaskResult) -> None:
        for number, step in enumerate(steps, 1):
            if step.if_given and step.if_given not in inputs:
                continue
            self.step = step
            if not self._signing_in:
                self._note(Message("registry.note_step", n=number, total=len(steps), step=step.kind))
            if not await self._do(step, inputs, result):
                await self._raise_problem()
                raise StepFailed(self._profile.file, step, Message("registry.timed_out", n=self._profile.timeout))
            if self._profile.pause:
                await asyncio.sleep(self._profile.pause)
        self.step = None

    async def _do(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> bool:
        """Runs a step; False if it timed out. The log shows causes, and Playwright's list the values of the step."""
        try:
            await getattr(self, f"_do_{step.kind}")(step, inputs, result)
        except (TimeoutError, BrowserTimeout):
            return False
        except Error as error:
            text = first_line(error)
            for secret in inputs.values() if self._signing_in else ():
                text = text.replace(secret, "…")
            raise Error(text) from None
        return True

    # -- steps -------------------------------------------------------------------------------------------------

    async def _do_goto(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        self._row = None
        address = _fill(step.value, inputs)
        url = address if address.startswith(("http://", "https://")) else f"{self._profile.url}{address}"
        try:
            response = await self._session.visit(self._page, url, until="domcontentloaded")
        except BrowserTimeout:
            raise TimeoutError from None
        await self._raise_problem()
        if response is not None and response.status >= SERVER_ERROR:
            raise SiteProblem(self._profile.title, "retry", f"HTTP {response.status}")

    async def _do_fill(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        value = _fill(step.value, inputs)
        await self._try(lambda: self._target(step).fill(value, timeout=TRY))

    async def _do_select(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        value = _fill(step.value, inputs)
        await self._until(step.selector)
        options = [label.strip() for label in await self._target(step).locator("option").all_inner_texts()]
        if value not in options:
            # A retry would not make the site offer this option.
            raise SiteProblem(
                self._profile.title, "permanent", Message("registry.no_option", value=value, step=step.selector)
            )
        await self._try(lambda: self._target(step).select_option(label=value, timeout=TRY))

    async def _do_check(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        await self._try(lambda: self._target(step).check(timeout=TRY))

    async def _do_click(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        await self._try(lambda: self._target(step).click(timeout=TRY, no_wait_after=True))
        self._row = None

    async def _do_wait_for(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        await self._until(_fill(step.selector, inputs))

    async def _do_find(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        target, last = _fill(step.value, inputs), None
        rows: list[list[str]] = []
        self._row = None
        async for page in self._pages(step):
            for number, cells in enumerate(page):
                if any(_squeeze(text) == _squeeze(target) for text in cells):
                    self._row = self._page.locator(step.selector).nth(number)
                    return
            rows += [[_flatten(text) for text in cells[1:]] for cells in page]
            last = self._page.locator(step.selector).first
        if step.only and len(rows) == 1:
            self._row = last
        elif step.only and rows:
            raise AmbiguousResult(target, _describe(rows)[:5])
        else:
            raise SiteProblem(self._profile.title, "no_result", target)

    async def _do_read(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        scope = self._row or self._page
        result.values[step.name] = {
            name: (await scope.locator(selector).first.inner_text(timeout=self._profile.timeout * 1000)).strip()
            for name, selector in step.fields.items()
        }

    async def _do_collect(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        found: list[dict[str, str]] = []
        async for _ in self._pages(step):
            for row in await self._page.locator(step.selector).all():
                cells = {name: row.locator(selector).first for name, selector in step.fields.items()}
                found.append({name: (await cell.inner_text(timeout=TRY)).strip() for name, cell in cells.items()})
        result.values[step.name] = found

    async def _do_download(self, step: Step, inputs: Mapping[str, str], result: TaskResult) -> None:
        started: asyncio.Future[Download] = asyncio.get_running_loop().create_future()

        def receive(download: Download) -> None:
            if not started.done():
                started.set_result(download)

        self._page.on("download", receive)
        try:
            await self._try(lambda: self._target(step).click(timeout=TRY, no_wait_after=True))
            deadline = time.monotonic() + self._profile.timeout
            while not started.done():
                await self._look(deadline)
            async with asyncio.timeout(self._profile.timeout * 4):  # a large file takes longer than a page
                download = started.result()
                result.suggested_name = download.suggested_filename
                result.file = await self._session.save_download(download, "document.pdf")
        finally:
            self._page.remove_listener("download", receive)

    # -- lists of results --------------------------------------------------------------------------------------

    async def _pages(self, step: Step) -> AsyncIterator[list[list[str]]]:
        """The rows of each page of a list: the text of the row, then of each cell."""
        for _ in range(MOST_PAGES):
            shown = await self._cells(step)
            yield shown
            following = self._page.locator(step.next).first
            if not step.next or not await following.count():
                return
            before = self._page.url
            await self._try(lambda link=following: link.click(timeout=TRY, no_wait_after=True))  # type: ignore[misc]
            deadline = time.monotonic() + self._profile.timeout
            while self._page.url == before and await self._cells(step) in ([], shown):
                await self._look(deadline)
            await self._until(step.selector)

    async def _cells(self, step: Step) -> list[list[str]]:
        try:
            cells: list[list[str]] = await self._page.locator(step.selector).evaluate_all(CELLS)
        except Error as error:
            _reraise_end(error)
            return []  # a navigation is under way
        return cells

    # -- looking at the page -----------------------------------------------------------------------------------

    def _target(self, step: Step) -> Locator:
        return (self._row or self._page).locator(step.selector).first

    async def _until(self, selector: str) -> None:
        """Waits until an element is visible, closing notices; raises at once if the page shows a problem."""
        deadline = time.monotonic() + self._profile.timeout
        while not await self._is_visible(selector):
            await self._look(deadline)
        await self._dismiss()

    async def _try(self, act: Callable[[], Awaitable[Any]]) -> None:
        """Tries an action until it succeeds, closing notices that cover the page in between."""
        deadline = time.monotonic() + self._profile.timeout
        while True:
            await self._dismiss()
            with contextlib.suppress(BrowserTimeout):  # left before the next check, whose error would name it as cause
                await act()
                return
            await self._look(deadline)

    async def _look(self, deadline: float) -> None:
        await self._dismiss()
        await self._raise_problem()
        if time.monotonic() > deadline:
            raise TimeoutError
        await asyncio.sleep(LOOK)

    async def _is_visible(self, selector: str) -> bool:
        try:
            return await self._page.locator(selector).first.is_visible()
        except Error as error:
            _reraise_end(error)
            return False  # a navigation is under way

    async def _dismiss(self) -> None:
        for selector in self._profile.dismiss:
            if await self._is_visible(selector):
                try:
                    await self._page.locator(selector).first.click(timeout=NUDGE)
                except Error as error:
                    _reraise_end(error)

    async def _raise_problem(self) -> None:
        """Raises the problem that the page, or a dialog, reports."""
        text = ""
        try:
            text = await self._page.evaluate("document.body ? document.body.innerText : ''")
        except Error as error:
            _reraise_end(error)
        texts = "\n".join([text[:LONGEST_TEXT], *self._dialogs]).casefold()
        self._dialogs.clear()
        for problem in self._profile.problems:
            if problem.text.casefold() in texts:
                raise SiteProblem(self._profile.title, problem.means, problem.text)
        form = self._profile.login_form
        if form and not self._signing_in and await self._is_visible(form):
            raise SiteProblem(self._profile.title, "session_expired")

    def _accept_dialog(self, dialog: Dialog) -> None:
        self._dialogs.append(dialog.message)
        task = asyncio.ensure_future(_accept(dialog))
        task.add_done_callback(lambda _: None)


async def _accept(dialog: Dialog) -> None:
    with contextlib.suppress(Error):
        await dialog.accept()


def _fill(template: str, inputs: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: inputs.get(match[1], ""), template)


def _flatten(text: str) -> str:
    return " ".join(text.split())


def _describe(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows without what is the same in all of them, such as the text of a button."""
    shared = set.intersection(*(set(enumerate(cells)) for cells in rows))
    return [
        " · ".join(text for place in enumerate(cells) if (text := place[1]) and place not in shared) for cells in rows
    ]


def _squeeze(text: str) -> str:
    return _flatten(text).casefold()


def first_line(error: Exception) -> str:
    """What happened; the rest of Playwright's errors is a list of calls with their values."""
    return str(error).strip().partition("\n")[0][:300]


def _reraise_end(error: Exception) -> None:
    """Raises the error again if the browser or the page is gone; other errors end with the navigation."""
    if "closed" in str(error) or "crashed" in str(error):
        raise error
