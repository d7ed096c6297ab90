"""Land-registry acts."""

from __future__ import annotations

from tests.reading.fields.paper import values

ACT = """
ACTE DE VENTE
Numéro d'inscription : 27 123 456
Date de présentation : 2021-05-14
L'an deux mille vingt et un, devant Me Claire Beaudoin, notaire à Laval
ENTRE
Jean Tremblay, domicilié et résidant au 12 rue des Pins, Laval,
ci-après nommé « le vendeur »
ET
9123-4567 Québec inc., personne morale, ayant son siège au 5 boulevard Curé, Laval,
ci-après nommée « l'acquéreur »
Un immeuble connu comme étant le lot numéro 1 234 567 et le lot 1 234 568
Cadastre : Cadastre du Québec
Circonscription foncière : Laval
Prix de vente : 350 000,00 $
"""


def test_an_act_is_read() -> None:
    """Number, dates, parties with their roles, lots, cadastre and price."""
    read = values(ACT, kind="deed")
    assert (read["registration_number"], read["registration_date"]) == ("27 123 456", "2021-05-14")
    assert read["act_type"] == "vente"
    assert read["notary"] == "Claire Beaudoin"
    assert read["lots"] == [{"lot": "1 234 567"}, {"lot": "1 234 568"}]
    assert (read["cadastre"], read["registration_division"]) == ("Cadastre du Québec", "Laval")
    assert read["price"] == "350000.00"
    parties = read["parties"]
    assert isinstance(parties, list)
    assert [(party["name"], party["role"]) for party in parties] == [
        ("Jean Tremblay", "vendeur"), ("9123-4567 Québec inc.", "acquereur"),
    ]  # fmt: skip
