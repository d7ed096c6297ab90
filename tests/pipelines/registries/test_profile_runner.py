"""Profiles run in a real browser on the portal: every task, and every kind of problem of a site."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

from tabellion.pipelines.registries import profile_file
from tabellion.pipelines.registries.portal.state import PortalFaults
from tabellion.pipelines.registries.problems import AmbiguousResult, SiteProblem, StepFailed
from tabellion.pipelines.registries.profile import PageProblem, Profile
from tabellion.pipelines.registries.profile_runner import ProfileRunner, TaskResult
from tests.pipelines.registries.visiting import Visiting

USER, PASSWORD = "etude-tremblay", "Rivage-417"


def load(visits: Visiting, name: str, timeout: float = 10) -> Profile:
    return replace(profile_file.load(name, portal=visits.portal.url), timeout=timeout)


def run_task(
    visits: Visiting, folder: Path, profile: Profile, task: str, *, password: str = PASSWORD, user: str = USER,
    **inputs: str,
) -> TaskResult:  # fmt: skip
    """Signs in if the site requires it, and runs a task."""

    async def go() -> TaskResult:
        async with asyncio.timeout(90), visits.chromium.open_session(folder, page_seconds=profile.timeout) as session:
            runner = ProfileRunner(session, await session.new_page(), profile)
            if profile.needs_account:
                await runner.sign_in(user, password)
            return await runner.run(profile.tasks[task], inputs or profile.tasks[task].sample)

    result: TaskResult = visits.run(go())
    return result


def text_of(file: Path | None) -> str:
    assert file is not None
    document = pypdfium2.PdfDocument(file)
    return "\n".join(page.get_textpage().get_text_range() for page in document)


@pytest.mark.parametrize(
    ("task", "words"), [("index", "Propriétaire : Gestion Laframboise inc."), ("plans_cadastraux", "État : En vigueur")]
)
def test_documents_of_a_lot_are_downloaded(visits: Visiting, tmp_path: Path, task: str, words: str) -> None:
    """The index and the plan of a lot come as PDF files with their text."""
    assert words in text_of(run_task(visits, tmp_path, load(visits, "registre-foncier"), task).file)


def test_a_deed_is_found_on_a_later_page(visits: Visiting, tmp_path: Path) -> None:
    """A list of results is followed page by page until the row with the number appears."""
    found = run_task(visits, tmp_path, load(visits, "registre-foncier"), "actes")
    assert "Acte numéro 20 103 111" in text_of(found.file)
    assert visits.state.counts["foncier.searches"] == 4  # the search and three more pages


def test_a_company_is_read_with_its_names(visits: Visiting, tmp_path: Path) -> None:
    """A name that only one company has leads to its data and all its names."""
    found = run_task(visits, tmp_path, load(visits, "req"), "company", company="Le Four à pain").values
    assert found["company"]["neq"] == "1140005678"
    assert [one["name"] for one in found["names"]] == [
        "Boulangerie Côté & Fils ltée", "Le Four à pain", "Pâtisserie Côté",
    ]  # fmt: skip


def test_several_companies_need_a_person(visits: Visiting, tmp_path: Path) -> None:
    """If several results match and none exactly, none is chosen, and the first few are named."""
    with pytest.raises(AmbiguousResult, match="Placements Beaulieu 1 inc") as raised:
        run_task(visits, tmp_path, load(visits, "req"), "company", company="Placements")
    assert len(raised.value.found) == 5
    assert "Consulter" not in str(raised.value)  # the text of a button


def test_a_statement_is_downloaded_with_its_registrations(visits: Visiting, tmp_path: Path) -> None:
    """The register of rights gives a list and a statement."""
    found = run_task(visits, tmp_path, load(visits, "rdprm"), "rights")
    assert len(found.values["registrations"]) == 2
    assert "Nom recherché : Gestion Laframboise inc." in text_of(found.file)


@pytest.mark.parametrize(
    ("faults", "options", "means"),
    [
        ({}, {"lot": "0 000 000", "circonscription": "Laval"}, "no_result"),
        ({}, {"lot": "1 234 567", "circonscription": "Nulle part"}, "permanent"),
        ({"maintenance": ["foncier"]}, {}, "maintenance"),
        ({}, {"password": "wrong"}, "wrong_password"),
        ({}, {"user": "etude-verrouillee"}, "locked"),
        ({"session_requests": 2}, {}, "session_expired"),
    ],
)
def test_messages_of_a_page_are_recognised(
    visits: Visiting, tmp_path: Path, faults: dict[str, Any], options: dict[str, str], means: str
) -> None:
    """No result, maintenance, a wrong password, a locked account and an expired session are distinguished."""
    visits.state.faults = PortalFaults.parse(faults)
    with pytest.raises(SiteProblem) as raised:
        run_task(visits, tmp_path, load(visits, "registre-foncier"), "index", **options)
    assert raised.value.means == means
    assert PASSWORD not in str(raised.value)


def test_notices_and_dialogs_do_not_stop_a_visit(visits: Visiting, tmp_path: Path) -> None:
    """Notices that cover a page are closed, and browser dialogs are accepted."""
    visits.state.faults = PortalFaults(popup=True, dialog=True)
    assert run_task(visits, tmp_path, load(visits, "registre-foncier"), "index").file is not None


def test_a_slow_page_is_waited_for(visits: Visiting, tmp_path: Path) -> None:
    """A page may take as long as the profile's timeout."""
    visits.state.faults = PortalFaults(slow=0.7)
    assert run_task(visits, tmp_path, load(visits, "rdprm"), "rights").file is not None


def test_a_changed_site_is_reported_by_the_step(visits: Visiting, tmp_path: Path) -> None:
    """A step whose selector matches nothing in time is named with its line."""
    profile = load(visits, "req", timeout=2)
    visits.state.faults = PortalFaults(renamed=True)
    with pytest.raises(StepFailed, match="click #rechercher") as raised:
        run_task(visits, tmp_path, profile, "company")
    lines = Path(profile.file).read_text().splitlines()
    assert "#rechercher" in lines[raised.value.step.line - 1]


@pytest.mark.parametrize(
    ("selector", "problems"), [("form", ()), ("#off", ()), ("#off", (PageProblem("trop tard", "retry"),))]
)
def test_a_login_that_fails_shows_no_password(
    visits: Visiting, tmp_path: Path, selector: str, problems: tuple[PageProblem, ...]
) -> None:
    """Playwright's errors list the values they were filling in; neither the error nor its causes may contain them."""
    profile = load(visits, "registre-foncier", timeout=2)
    login = tuple(replace(step, selector=selector) if step.value == "{password}" else step for step in profile.login)

    async def go() -> None:
        async with asyncio.timeout(90), visits.chromium.open_session(tmp_path, page_seconds=2) as session:
            page = await session.new_page()
            await page.add_init_script(
                """const add = html => document.body.insertAdjacentHTML("beforeend", html)
                document.addEventListener("DOMContentLoaded", () => add("<input id=off disabled>"))
                setTimeout(() => add("Trop tard"), 1000)"""
            )
            await ProfileRunner(session, page, replace(profile, login=login, problems=problems)).sign_in(USER, PASSWORD)

    with pytest.raises(Exception, match=r".") as raised:
        visits.run(go())
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))
