"""The three registries of the portal: their forms, result lists, company pages and downloads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from html import escape
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tabellion.pipelines.registries.portal import data
from tabellion.pipelines.registries.portal.html import (
    PER_PAGE,
    error_box,
    form,
    pager,
    render_page,
    select_input,
    table,
    text_input,
)
from tabellion.pipelines.registries.portal.pdf import write_pdf
from tabellion.pipelines.registries.portal.state import PortalState

Shown = TypeVar("Shown")
NOTHING = "Aucun résultat ne correspond à votre recherche."
NO_RIGHT = "Aucune inscription n'apparaît au registre sous ce nom."
EXPIRED = "Votre session est expirée. Veuillez vous identifier de nouveau."
WRONG = "Le code d'utilisateur ou le mot de passe est invalide."
LOCKED = "Ce compte est verrouillé. Communiquez avec le centre d'assistance."
CLOSED = "Le service est temporairement indisponible : maintenance en cours."
CONDITIONS = (
    '<label><input type="checkbox" id="conditions" name="conditions" value="1" required> '
    "J'accepte les conditions d'utilisation</label>"
)
COOKIE = "exercice_{site}"
SCANNED_PLAN = Path(__file__).parent / "scanned_plan.pdf"


class Site:
    """The base of the three sites: faults, sessions, the sign-in page."""

    def __init__(self, name: str, state: PortalState, *, signed_in: bool) -> None:
        self.name, self.state, self.signed_in = name, state, signed_in

    def show(self, heading: str, body: str, status: int = 200) -> Response:
        """A page, with the simulated popup or dialog."""
        faults = self.state.faults
        return HTMLResponse(
            render_page(self.name, heading, body, popup=faults.popup, dialog=faults.dialog), status,
            {"Cache-Control": "no-store"},
        )  # fmt: skip

    def endpoint(
        self, work: Callable[[Request], Awaitable[Response]], *, public: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wraps a page in the checks of every page: delay, maintenance, session."""

        async def handle(request: Request) -> Response:
            if self.state.faults.slow:
                await asyncio.sleep(self.state.faults.slow)
            if self.name in self.state.faults.maintenance:
                return self.show("Service indisponible", error_box(CLOSED), 503)
            cookie = request.cookies.get(COOKIE.format(site=self.name))
            if self.signed_in and not public and self.state.session(self.name, cookie) is None:
                if cookie:
                    return self.show("Identification", error_box(EXPIRED) + self._sign_in_form(), 403)
                return RedirectResponse(f"/{self.name}/connexion", 303)
            return await work(request)

        return handle

    async def sign_in(self, request: Request) -> Response:
        """The sign-in page, and its result."""
        if request.method == "GET":
            return self.show("Identification", self._sign_in_form())
        fields = await request.form()
        user, password = str(fields.get("utilisateur", "")), str(fields.get("motdepasse", ""))
        id_, reason = self.state.sign_in(self.name, user, password)
        if reason:
            text = LOCKED if reason == "locked" else WRONG
            return self.show("Identification", error_box(text) + self._sign_in_form(), 403)
        response = RedirectResponse(f"/{self.name}", 303)
        response.set_cookie(COOKIE.format(site=self.name), id_, httponly=True, path=f"/{self.name}", samesite="lax")
        return response

    def _sign_in_form(self) -> str:
        inputs = text_input("utilisateur", "Code d'utilisateur") + text_input(
            "motdepasse", "Mot de passe", kind="password"
        )
        return f'<form method="post" action="/{self.name}/connexion">{inputs}<button id="entrer">Entrer</button></form>'

    @property
    def search_button(self) -> str:
        """The id of search buttons; the fault `renamed` changes it."""
        return "lancer" if self.state.faults.renamed else "rechercher"

    def count(self, event: str) -> None:
        """Counts a search or a download."""
        self.state.counts[f"{self.name}.{event}"] += 1

    def download(self, name: str, title: str, pages: Sequence[Sequence[str]], file: bytes | None = None) -> Response:
        """A PDF as an attachment: of these lines, or the given file."""
        self.count("downloads")
        body = file or write_pdf(title, pages)
        if self.state.faults.broken_download:
            body = b"<html>erreur interne</html>"
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}", "Cache-Control": "no-store"}
        return Response(body, headers=headers, media_type="application/pdf")


class LandRegistry(Site):
    """Registre foncier: an account, three kinds of documents."""

    async def menu(self, request: Request) -> Response:
        """The links to the three kinds of documents."""
        links = "".join(
            f'<li><a href="/foncier/{path}">{title}</a></li>'
            for path, title in (("index", "Index des immeubles"), ("actes", "Actes"), ("plans", "Plans cadastraux"))
        )
        return self.show("Consulter", f'<ul id="menu">{links}</ul>')

    async def index(self, request: Request) -> Response:
        """The form for the index of immovables of a lot, or its single result."""
        place, lot = request.query_params.get("circonscription", ""), request.query_params.get("lot", "")
        if not place:
            return self.show("Index des immeubles", self._lot_form("/foncier/index"))
        self.count("searches")
        if (place, lot) not in data.LOTS:
            return self.show("Index des immeubles", error_box(NOTHING))
        link = f"/foncier/telecharger?{urlencode({'genre': 'index', 'circonscription': place, 'numero': lot})}"
        cells = [escape(lot), escape(place), f'<a class="pdf" href="{escape(link)}">Télécharger</a>']
        return self.show("Résultat", table("resultats", ("Lot", "Circonscription", "Document"), [cells]))

    async def plans(self, request: Request) -> Response:
        """The plans of a lot, the one in force first."""
        place, lot = request.query_params.get("circonscription", ""), request.query_params.get("lot", "")
        if not place:
            return self.show("Plans cadastraux", self._lot_form("/foncier/plans"))
        self.count("searches")
        if (place, lot) not in data.LOTS:
            return self.show("Plans cadastraux", error_box(NOTHING))
        rows = []
        for version in ("En vigueur", "Remplacé"):
            query = {"genre": "plan", "circonscription": place, "numero": lot, "version": version}
            link = f"/foncier/telecharger?{urlencode(query)}"
            rows.append([escape(lot), version, f'<a class="pdf" href="{escape(link)}">Télécharger</a>'])
        return self.show("Résultat", table("resultats", ("Lot", "État", "Document"), rows))

    async def deeds(self, request: Request) -> Response:
        """The deeds of a circumscription, page by page."""
        place, kind = request.query_params.get("circonscription", ""), request.query_params.get("nature", "")
        if not place:
            inputs = [
                select_input("circonscription", "Circonscription foncière", data.CIRCUMSCRIPTIONS),
                text_input("nature", "Nature de l'acte", required=False),
                text_input("numero", "Numéro d'inscription", required=False),
            ]
            return self.show("Actes", form("/foncier/actes", inputs, self.search_button, "Rechercher"))
        self.count("searches")
        found = [deed for deed in data.deeds(place) if kind.casefold() in deed.nature.casefold()]
        if not found:
            return self.show("Actes", error_box(NOTHING))
        page, shown = one_page(found, request.query_params.get("page", "1"))
        rows = []
        for deed in shown:
            query = {"genre": "acte", "circonscription": place, "numero": deed.number}
            link = f"/foncier/telecharger?{urlencode(query)}"
            cells = [escape(text) for text in (deed.number, deed.nature, deed.date, deed.parties)]
            rows.append([*cells, f'<a class="pdf" href="{escape(link)}">Télécharger</a>'])
        heads = ("Numéro d'inscription", "Nature", "Date", "Parties", "Document")
        address = f"/foncier/actes?{urlencode({'circonscription': place, 'nature': kind})}&page="
        return self.show("Résultat", table("resultats", heads, rows) + pager(address, page, len(found)))

    async def file(self, request: Request) -> Response:
        """The download of a document."""
        query = request.query_params
        kind, place, number = query.get("genre", ""), query.get("circonscription", ""), query.get("numero", "")
        head = ["REGISTRE FONCIER DU QUÉBEC (document d'exercice)", f"Circonscription foncière : {place}", ""]
        if kind == "acte":
            deed = next((entry for entry in data.deeds(place) if entry.number == number), None)
            if deed is None:
                return self.show("Actes", error_box(NOTHING), 404)
            first = [*head, f"Acte numéro {number}", f"Nature : {deed.nature}", f"Date de présentation : {deed.date}",
                     f"Parties : {deed.parties}"]  # fmt: skip
            return self.download(f"acte-{number}.pdf", f"Acte {number}", [first, [*head, "Signatures", "Page 2"]])
        owner = data.LOTS.get((place, number))
        if owner is None:
            return self.show("Document", error_box(NOTHING), 404)
        if kind == "plan":
            lines = [*head, f"Plan cadastral du lot {number}", f"État : {query.get('version', 'En vigueur')}",
                     "Superficie : 412,6 m²"]  # fmt: skip
            body = SCANNED_PLAN.read_bytes() if (place, number) == data.SCANNED else None
            return self.download(f"plan-{number}.pdf", f"Plan {number}", [lines], body)
        lines = [*head, f"Index des immeubles : lot {number}", f"Propriétaire : {owner}",
                 *(f"{entry.date}   {entry.number}   {entry.nature}" for entry in data.deeds(place)[:12])]  # fmt: skip
        return self.download(f"index-{number}.pdf", f"Index {number}", [lines])

    def _lot_form(self, action: str) -> str:
        inputs = [
            select_input("circonscription", "Circonscription foncière", data.CIRCUMSCRIPTIONS),
            select_input("cadastre", "Cadastre", data.CADASTRES),
            text_input("designation", "Désignation secondaire", required=False),
            text_input("lot", "Numéro de lot"),
        ]
        return form(action, inputs, self.search_button, "Rechercher")


class EnterpriseRegister(Site):
    """Registraire des entreprises: public; conditions to accept, a list of companies, a page for each."""

    async def search(self, request: Request) -> Response:
        """The form, or the companies that were found."""
        term = request.query_params.get("objet", "")
        if not term:
            inputs = [text_input("objet", "Nom ou numéro d'entreprise"), CONDITIONS]
            return self.show("Rechercher une entreprise", form("/req", inputs, self.search_button, "Rechercher"))
        self.count("searches")
        found = data.find_companies(term)
        if not found:
            return self.show("Résultats", error_box(NOTHING))
        page, shown = one_page(found, request.query_params.get("page", "1"))
        rows = [
            [escape(company.neq), f'<span class="nom">{escape(company.name)}</span>', escape(company.status),
             f'<a class="consulter" href="/req/entreprise/{company.neq}">Consulter</a>']
            for company in shown
        ]  # fmt: skip
        address = f"/req?{urlencode({'objet': term, 'conditions': '1'})}&page="
        heads = ("NEQ", "Nom", "Statut", "Dossier")
        return self.show("Résultats", table("resultats", heads, rows) + pager(address, page, len(found)))

    async def company(self, request: Request) -> Response:
        """One company and its names."""
        found = next((company for company in data.COMPANIES if company.neq == request.path_params["neq"]), None)
        if found is None:
            return self.show("Entreprise", error_box(NOTHING), 404)
        facts = "".join(
            f'<dt>{title}</dt><dd id="{name}">{escape(value)}</dd>'
            for name, title, value in (
                ("neq", "Numéro d'entreprise du Québec (NEQ)", found.neq), ("nom", "Nom", found.name),
                ("adresse", "Adresse du domicile", found.address), ("statut", "Statut", found.status),
                ("immatriculation", "Date d'immatriculation", found.registered),
                ("forme", "Forme juridique", found.form),
            )
        )  # fmt: skip
        rows = [[f'<span class="nom">{escape(name)}</span>', f'<span class="etat">{escape(state)}</span>']
                for name, state in ((found.name, "En vigueur"), *found.others)]  # fmt: skip
        return self.show("État de renseignements", f"<dl>{facts}</dl>" + table("noms", ("Nom", "Situation"), rows))


class RightsRegister(Site):
    """RDPRM: an account, a search by name, a statement to download."""

    async def search(self, request: Request) -> Response:
        """The form, or the registrations under a name."""
        name = request.query_params.get("nom", "")
        if not name:
            inputs = [text_input("nom", "Nom de l'organisme ou de la personne")]
            body = '<p id="accueil">Consultation du registre</p>'
            return self.show("Recherche par nom", body + form("/rdprm", inputs, self.search_button, "Rechercher"))
        self.count("searches")
        found = data.find_rights(name)
        if not found:
            return self.show("Résultat", error_box(NO_RIGHT))
        rows = [[escape(text) for text in (right.number, right.nature, right.date, right.holder)] for right in found]
        link = f'<p><a id="etat" href="/rdprm/etat?{escape(urlencode({"nom": name}))}">État certifié (PDF)</a></p>'
        heads = ("Numéro d'inscription", "Nature", "Date", "Titulaire")
        return self.show("Résultat", table("inscriptions", heads, rows) + link)

    async def statement(self, request: Request) -> Response:
        """The certified statement."""
        name = request.query_params.get("nom", "")
        found = data.find_rights(name)
        if not found:
            return self.show("Résultat", error_box(NO_RIGHT), 404)
        lines = ["ÉTAT CERTIFIÉ DES DROITS (document d'exercice)", f"Nom recherché : {name}", ""]
        for right in found:
            lines += [f"Inscription {right.number}", f"Nature : {right.nature}", f"Titulaire : {right.holder}",
                      f"Date : {right.date}", ""]  # fmt: skip
        return self.download(f"etat-{name}.pdf", f"État {name}", [lines])


def one_page(found: list[Shown], requested: str) -> tuple[int, list[Shown]]:
    """The number of the requested page, or the nearest, and its entries."""
    last = max(1, -(-len(found) // PER_PAGE))
    page = min(max(1, int(requested) if requested.isdecimal() and len(requested) < 6 else 1), last)
    return page, found[(page - 1) * PER_PAGE : page * PER_PAGE]
