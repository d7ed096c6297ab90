"""Phrases that the reader knows beyond a type's own labels: other money on a bill, and headings of the parties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_PHRASES = {
    "due": "net a payer|zahlbetrag|balance due|solde|reste a payer|zu zahlen|montant du|balance|offener betrag|a payer|"
    "noch zu zahlen|amount due|due|due payable|total due|betrag zu zahlen|solde a payer|solde du|verbleibender betrag",
    "tendered": "cash|cash tendered|tendered|visa|master|mastercard|card|payment|paid by|tender|amount tendered|"
    "credit card|debit|"
    "bar|carte|especes|cash received|received|amount paid|paid amount|touch n go|accepted total|pay|gegeben|comptant",
    "change": "change|change due|rendu|ruckgeld|change amt|baki|monnaie|monnaie rendue|wechselgeld|cash change",
    "rounding": "rounding|rounding adjustment|rounding adj|round adj|rounding adjustments|arrondi|rundung|round off|"
    "rnd adj",
    "discount": "discount|disc|remise|rabatt|total discount|rabais|gesamtbetrag der abschlage|skonto|savings|"
    "escompte|nachlass|"
    "sondernachlass|abzgl|abzuglich|less",
    "charge": "service charge|serv charge|svc chrg|service chrg|service charges|gesamtbetrag der zuschlage|frais de "
    "port|"
    "versandkosten|shipping|delivery charge|freight|port|versand|fracht|frais|livraison ht|shipping and handling",
    "paid": "deja paye|montant deja paye|acompte|anzahlung|erhaltene anzahlungen|deposit|prepaid|already paid|"
    "bereits gezahlt|"
    "bereits bezahlt|acomptes|acompte verse|depot",
    "customer": "client|customer|kunde|kaufer|bill to|billed to|sold to|ship to|rechnungsempfanger|kaufer "
    "leistungsempfanger|"
    "leistungsempfanger|facture a|facturer a|facturer|adresse a|destinataire|acheteur|buyer|lieferadresse|empfanger|"
    "livraison|"
    "adresse du client|deliver to|livrer a|rechnungsadresse|rechnung an|invoice to|vendu a|expedie a|auftraggeber|"
    "invoice address|"
    "adresse de facturation|adresse de livraison|delivery address|lieferanschrift|rechnungsanschrift|kundenadresse",
    "vendor": "vendor|seller|supplier|fournisseur|vendeur|verkaufer|rechnungsersteller|emetteur|rechnungssteller|"
    "aussteller",
    "": "gst id|gst no|gst reg no|gst summary|gst reg|tax code|tax invoice|simplified tax invoice|tax id|vat no|vat "
    "id|n° tva|"
    "n° tva intra|tva intra|tva intracommunautaire|ust id|ust idnr|ust id nr|ust identnr|item count|total points|"
    "company no|cashier|"
    "cash bill|cash sales|cash sale|taux tva|code tva|vat reg no|steuernummer|steuer nr|exp date|expiry date|gst act|"
    "gst ref|ust satz|"
    "ust %|steuersatz|total number of items|total qty|total quantity|total items|total item|tot qty|zugferd version|"
    "tax summary|"
    "stylesheet version|codelisten version|kundennummer|customer no|no client|n° de client|client no|your order|"
    "bestellung|"
    "gst registration no|tva acquittee|taxable|items count",
}
#: Words that are too common to be labels.
_SMALL_WORDS = "vom von du le la de of from am den on by bis au pour an der die a to issued emis no nr"
_SMALL = frozenset(_SMALL_WORDS.split())


def lexicon_phrases(labels: Mapping[str, Iterable[str]], noise: Iterable[str]) -> dict[str, list[str]]:
    """The phrases of a type's fields together with the reader's own."""
    known: dict[str, list[str]] = {name: phrases.split("|") for name, phrases in _PHRASES.items()}
    known[""] = [*known[""], *noise]
    for name, phrases in labels.items():
        known[name] = [*known.pop(name, ()), *(phrase for phrase in phrases if phrase.casefold() not in _SMALL)]
    return known
