"""The practice portal over HTTP: its flows and its faults."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pypdfium2
import pytest

from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries.portal.data import PASSWORDS, SCANNED
from tabellion.pipelines.registries.portal.server import run_portal

USER = "etude-gagnon"


@pytest.fixture
def portal() -> Iterator[httpx2.Client]:
    """A portal and a client with cookies."""
    with (
        run_portal() as running,
        httpx2.Client(base_url=running.url, follow_redirects=True, trust_env=False, timeout=30) as one,
    ):
        yield one


def sign_in(portal: httpx2.Client, site: str = "foncier", password: str = PASSWORDS[USER]) -> httpx2.Response:
    return portal.post(f"/{site}/connexion", data={"utilisateur": USER, "motdepasse": password})


def test_a_document_is_a_real_pdf(portal: httpx2.Client) -> None:
    """After signing in, the index of a lot downloads with its accents."""
    assert 'id="motdepasse"' in portal.get("/foncier").text
    assert 'id="menu"' in sign_in(portal).text
    query = {"genre": "index", "circonscription": "Québec", "numero": "3 456 789"}
    got = portal.get("/foncier/telecharger", params=query)
    text = pypdfium2.PdfDocument(got.content)[0].get_textpage().get_text_range()
    assert "Coopérative d'habitation du Cap-Blanc" in text


def test_three_wrong_passwords_lock_an_account(portal: httpx2.Client) -> None:
    """Even the right password is rejected then."""
    for _ in range(3):
        assert "mot de passe est invalide" in sign_in(portal, password="no").text
    assert "verrouillé" in sign_in(portal).text


def test_faults_are_requested_and_ended(portal: httpx2.Client) -> None:
    """Maintenance, an expired session, a notice; the error for an unknown fault lists the known ones."""
    sign_in(portal)
    assert portal.post("/_faults", json={"maintenance": ["foncier"], "popup": True}).status_code == 200
    assert portal.get("/foncier").status_code == 503
    assert "avis-fermer" in portal.get("/req").text
    portal.post("/_faults", json={})
    assert portal.get("/foncier").status_code == 200
    portal.post("/_expire")
    assert "session est expirée" in portal.get("/foncier").text
    refused = portal.post("/_faults", json={"maintainance": []})
    assert refused.status_code == 422
    assert "known: maintenance" in refused.json()["error"]


def test_lists_are_paged_and_escape_the_search(portal: httpx2.Client) -> None:
    """The last page has no next one, and markup in a search stays text."""
    first = portal.get("/req", params={"objet": "Beaulieu"}).text
    assert "Page 1 sur 2" in first
    last = portal.get("/req", params={"objet": "Beaulieu", "page": "99"}).text
    assert 'class="suivante"' not in last
    sign_in(portal, "rdprm")
    assert "<b>" not in portal.get("/rdprm", params={"nom": "<b>x</b>"}).text


def test_a_port_in_use_is_reported() -> None:
    """The error names the option to change it."""
    with run_portal() as running:
        port = int(running.url.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match="choose another port"), run_portal(port):
            pass


def test_one_plan_is_a_scan(portal: httpx2.Client) -> None:
    """It has a page and no text layer, so that OCR has something to do."""
    sign_in(portal)
    place, lot = SCANNED
    query = {"genre": "plan", "circonscription": place, "numero": lot}
    document = pypdfium2.PdfDocument(portal.get("/foncier/telecharger", params=query).content)
    assert len(document) == 1
    assert document[0].get_textpage().get_text_range() == ""
