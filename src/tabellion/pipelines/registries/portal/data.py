"""The invented content of the portal's registries: lots, deeds, plans, companies and rights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CIRCUMSCRIPTIONS = ("Montréal", "Québec", "Laval", "Gatineau")
CADASTRES = ("Cadastre du Québec", "Cité de Montréal", "Paroisse de Sainte-Foy")
#: Accounts of the land registry and of the register of rights.
PASSWORDS = {"etude-tremblay": "Rivage-417", "etude-gagnon": "Cordage-902", "etude-verrouillee": "Ancrage-138"}
ALWAYS_LOCKED = "etude-verrouillee"


@dataclass(frozen=True, slots=True)
class Deed:
    """One registration of the land registry."""

    number: str
    nature: str
    date: str
    parties: str


@dataclass(frozen=True, slots=True)
class Company:
    """One company of the enterprise register."""

    neq: str
    name: str
    address: str
    status: str
    registered: str
    form: str
    others: tuple[tuple[str, str], ...]  #: other names, and whether each is in use

    @property
    def all_names(self) -> tuple[str, ...]:
        """The company's name, then its other names."""
        return (self.name, *(name for name, _ in self.others))


@dataclass(frozen=True, slots=True)
class Right:
    """One registration of the register of rights."""

    number: str
    nature: str
    date: str
    holder: str


#: Lots by circumscription and number, each with its owner.
LOTS = {
    ("Montréal", "1 234 567"): "Gestion Laframboise inc.",
    ("Montréal", "2 345 678"): "Marie-Ève Côté et Jérôme Bélanger",
    ("Québec", "3 456 789"): "Coopérative d'habitation du Cap-Blanc",
    ("Laval", "4 567 890"): "Fiducie familiale Desrosiers",
}
SCANNED = ("Laval", "4 567 890")  #: the lot whose plan is an image without a text layer
_NATURES = ("Vente", "Hypothèque", "Quittance", "Servitude", "Déclaration de copropriété", "Avis d'adresse")
_PEOPLE = ("Gagnon c. Tremblay", "Banque du Fleuve à Côté", "Caisse Saint-Rédempteur", "Ville de Laval")


def deeds(circumscription: str) -> list[Deed]:
    """The deeds of a circumscription, newest first."""
    place = CIRCUMSCRIPTIONS.index(circumscription) if circumscription in CIRCUMSCRIPTIONS else None
    return [] if place is None else list(_deeds(place))


def _deeds(place: int) -> Iterator[Deed]:
    for number in range(34, 0, -1):
        yield Deed(
            f"{20 + place} {100 + number:03d} {(number * 37) % 1000:03d}", _NATURES[number % len(_NATURES)],
            f"20{10 + number % 15}-{1 + number % 12:02d}-{1 + (number * 7) % 28:02d}", _PEOPLE[number % len(_PEOPLE)],
        )  # fmt: skip


COMPANIES = (
    Company("1140001234", "Gestion Laframboise inc.", "410, rue Saint-Nicolas, Montréal (Québec) H2Y 2P5",
            "Immatriculée", "1998-04-02", "Société par actions",
            (("Laframboise Immobilier", "En vigueur"), ("Les Immeubles Laframboise", "Antérieur"))),
    Company("1140005678", "Boulangerie Côté & Fils ltée", "18, côte de la Montagne, Québec (Québec) G1K 4E4",
            "Immatriculée", "2004-11-19", "Société par actions",
            (("Le Four à pain", "En vigueur"), ("Pâtisserie Côté", "En vigueur"))),
    Company("2260009012", "Coopérative d'habitation du Cap-Blanc", "77, rue Champlain, Québec (Québec) G1K 4H3",
            "Immatriculée", "1987-06-30", "Coopérative", ()),
    Company("3370003456", "Transports Désilets", "9, boulevard Industriel, Laval (Québec) H7L 4R8",
            "Radiée d'office", "2011-01-10", "Entreprise individuelle", (("Désilets Express", "Antérieur"),)),
    *(Company(f"11500{number:05d}", f"Placements Beaulieu {number} inc.", f"{number}, rue du Quai, Gatineau (Québec)",
              "Immatriculée", f"20{number:02d}-03-15", "Société par actions", ((f"Beaulieu {number}", "En vigueur"),))
      for number in range(1, 15)),
)  # fmt: skip


def find_companies(term: str) -> list[Company]:
    """Companies with this number, or with a name that contains this text."""
    text = term.casefold().strip()
    return [
        company
        for company in COMPANIES
        if text and (text == company.neq or any(text in name.casefold() for name in company.all_names))
    ]


RIGHTS = {
    "gestion laframboise inc.": (
        Right("21-0543210-0001", "Hypothèque conventionnelle sans dépossession", "2021-05-14", "Banque du Fleuve"),
        Right("22-0119876-0003", "Droits résultant d'un bail", "2022-02-01", "Crédit-bail Boréal inc."),
    ),
    "laframboise immobilier": (
        Right("20-0888123-0002", "Réserve de propriété", "2020-10-08", "Équipements Lavoie"),
    ),
    "le four à pain": (
        Right("23-0456001-0001", "Hypothèque conventionnelle", "2023-07-21", "Caisse Saint-Rédempteur"),
    ),
    "boulangerie côté & fils ltée": (
        Right("19-0077231-0004", "Hypothèque conventionnelle", "2019-03-03", "Banque du Fleuve"),
    ),
}  # fmt: skip


def find_rights(name: str) -> tuple[Right, ...]:
    """The registrations under exactly this name, as the register searches."""
    return RIGHTS.get(" ".join(name.casefold().split()), ())
