"""Runs a profile to check that it still matches its site; takes a screenshot if it does not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error, Page

from tabellion.errors import ConfigurationError, TabellionError
from tabellion.net.chromium import Chromium
from tabellion.pipelines.registries.account_files import WAIT_SECONDS, AccountFile, wait_turn
from tabellion.pipelines.registries.accounts import load_accounts, require_accounts
from tabellion.pipelines.registries.problems import REFUSED, SiteProblem, StepFailed
from tabellion.pipelines.registries.profile import Profile, Task
from tabellion.pipelines.registries.profile_runner import ProfileRunner
from tabellion.pipelines.registries.settings import FOLDER, PORTAL, is_practice, rules_of

if TYPE_CHECKING:
    from tabellion.config import Config


async def check_profile(
    config: Config, profile: Profile, folder: Path, screenshot: Path, *, task: str | None = None,
    account: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Signs in and runs every task with its sample inputs; the report names the first step that does not match."""
    started = time.monotonic()
    tasks = _choose_tasks(profile, task)
    section = config.section("registries")
    portal = str(section.get("portal", PORTAL)).rstrip("/")
    secrets = Path(str(section["secrets"])).expanduser() if "secrets" in section else None
    accounts = load_accounts(profile, secrets, practice=is_practice(profile, portal))
    require_accounts(profile, accounts)
    file = _choose_account(profile, [AccountFile(config.data / FOLDER, one) for one in accounts], account)
    report: dict[str, Any] = {
        "profile": profile.name, "file": profile.file, "ok": True, "walked": [], "failed": None, "mistakes": [],
    }  # fmt: skip
    async with (
        _lock(file, profile),
        Chromium(rules_of(config, portal, profile)) as chromium,
        chromium.open_session(folder, page_seconds=profile.timeout) as session,
    ):
        page = await session.new_page()
        runner = ProfileRunner(session, page, profile)
        where = "login"
        try:
            if profile.needs_account:
                await runner.sign_in(file.account.username, file.account.password)
                report["walked"].append({"task": where, "steps": len(profile.login)})
            for current in tasks:
                where = current.name
                await runner.run(current, current.sample)
                report["walked"].append({"task": where, "steps": len(current.steps)})
        except (TabellionError, Error) as error:
            if isinstance(error, SiteProblem) and error.means in REFUSED:
                file.mark_refused(str(error))
            report |= {"ok": False, "failed": await _describe(page, runner, where, error, screenshot)}
    return report | {"seconds": time.monotonic() - started}


async def _describe(page: Page, runner: ProfileRunner, task: str, error: Exception, screenshot: Path) -> dict[str, Any]:
    step = runner.step
    saved = ""
    try:
        await page.screenshot(path=screenshot)
        saved = str(screenshot)
    except (Error, OSError):
        pass  # a browser that died has nothing to show
    detail = error.detail if isinstance(error, StepFailed) else str(error)
    return {
        "task": task, "line": step.line if step else 0, "step": step.describe() if step else "",
        "detail": detail.partition("\n")[0], "url": page.url, "screenshot": saved,
    }  # fmt: skip


def _choose_tasks(profile: Profile, name: str | None) -> list[Task]:
    if name is not None and name not in profile.tasks:
        raise ConfigurationError(f"{profile.file} has no task {name!r}; known: {', '.join(profile.tasks)}")
    tasks = [task for task in profile.tasks.values() if name in (None, task.name)]
    for task in tasks:
        missing = [key for key in task.inputs if not task.sample.get(key)]
        if missing:
            raise ConfigurationError(
                f"{profile.file}: the task {task.name} has no sample value for {', '.join(missing)}: add "
                f"sample: {{{missing[0]}: …}}"
            )
    return tasks


def _choose_account(profile: Profile, files: list[AccountFile], name: str | None) -> AccountFile:
    """The account of this name, or the first that its site has not refused: more tries would lock a refused one."""
    named = [file for file in files if name in (None, file.account.name)]
    if not named:
        names = ", ".join(file.account.name for file in files)
        raise ConfigurationError(f"{profile.name} has no account {name!r}; known: {names}")
    for file in named:
        if file.refusal() is None:
            return file
    file = named[0]
    raise ConfigurationError(
        f"the account {file.account.name} of {profile.name} is not tried again: {file.refusal()}; correct its "
        f"password, or unlock it at the site and run `tabellion registry unlock {profile.name} {file.account.name}`"
    )


@contextlib.asynccontextmanager
async def _lock(file: AccountFile, profile: Profile) -> AsyncIterator[None]:
    """Locks the account, so that no worker visits the site with it meanwhile; waits for its turn."""
    until = time.monotonic() + WAIT_SECONDS
    with file.join_line() as place:
        while True:
            with file.try_lock() if place.is_first() else contextlib.nullcontext(False) as is_ours:
                if is_ours:
                    yield
                    return
            if time.monotonic() > until:
                raise ConfigurationError(
                    f"the account {file.account.name} of {profile.name} is in use by a worker: try again later, or "
                    "choose another with --account"
                )
            await wait_turn()
