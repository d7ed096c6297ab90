"""What is said of invoices that come as XML, by EN 16931, Factur-X and the rules of France; in French."""

from __future__ import annotations

#: What the standard calls things.
TERMS = {
    "the specification it follows": "la spécification suivie",
    "the invoice number": "le numéro de facture",
    "the invoice date": "la date de facture",
    "the type of document": "le type de document",
    "the currency": "la devise",
    "the seller's name": "le nom du vendeur",
    "the buyer's name": "le nom de l’acheteur",
    "the seller's country": "le pays du vendeur",
    "the buyer's country": "le pays de l’acheteur",
    "the sum of the lines": "la somme des lignes",
    "the total without tax": "le total hors taxe",
    "the total with tax": "le total taxe comprise",
    "the amount due": "le montant à payer",
    "the identifier of a line": "l’identifiant d’une ligne",
    "the quantity of line {line}": "la quantité de la ligne {line}",
    "the amount of line {line}": "le montant de la ligne {line}",
    "the name of the item of line {line}": "le nom de l’article de la ligne {line}",
    "the price of line {line}": "le prix de la ligne {line}",
    "the VAT category of line {line}": "la catégorie de TVA de la ligne {line}",
    "the base of a VAT rate": "la base d’un taux de TVA",
    "the amount of a VAT rate": "le montant d’un taux de TVA",
    "the category of a VAT rate": "la catégorie d’un taux de TVA",
    "the amount of a document level charge": "le montant de frais au niveau du document",
    "the amount of a document level allowance": "le montant d’une remise au niveau du document",
    "the lines": "les lignes",
    "their total": "leur total",
    "the allowances": "les remises",
    "the charges": "les frais",
    "lines - allowances + charges": "lignes - remises + frais",
    "the VAT breakdown": "le détail de la TVA",
    "the total tax": "la taxe totale",
    "total without tax + tax": "total hors taxe + taxe",
    "the total": "le total",
    "total - prepaid + rounding": "total - acomptes + arrondi",
    "the compensation for recovery costs": "l’indemnité pour frais de recouvrement",
    "the penalties for late payment": "les pénalités de retard",
    "the discount for early payment, or that there is none": "l’escompte pour paiement anticipé, ou son absence",
}

#: EN 16931.
STANDARD = {
    "embedded {text} XML": "XML {text} joint",
    "embedded {text} XML, profile {textprofile}": "XML {text} joint, profil {textprofile}",
    "{said} is missing": "il manque {said}",
    "the seller's electronic address is missing": "il manque l’adresse électronique du vendeur",
    "the buyer's electronic address is missing": "il manque l’adresse électronique de l’acheteur",
    "there is no invoice line": "il n’y a aucune ligne de facture",
    "there is no VAT breakdown": "il n’y a pas de détail de la TVA",
    "nothing identifies the seller: no VAT number, registration or identifier": (
        "rien n’identifie le vendeur : ni numéro de TVA, ni immatriculation, ni identifiant"
    ),
    "{element} is {shown}, which is not a decimal number": "{element} est {shown}, qui n’est pas un nombre décimal",
    "{element} is {n}: more than two decimals": "{element} est {n} : plus de deux décimales",
    "{shown} is no currency of ISO 4217": "{shown} n’est pas une devise de la norme ISO 4217",
    "{shown} is no unit of UN/ECE Recommendation 20": (
        "{shown} n’est pas une unité de la recommandation 20 de la CEE-ONU"
    ),
    "{shown} is no country of ISO 3166-1": "{shown} n’est pas un pays de la norme ISO 3166-1",
    "{shown} is no type of invoice of UNTDID 1001": "{shown} n’est pas un type de facture de la liste UNTDID 1001",
    "{shown} is no means of payment of UNTDID 4461": "{shown} n’est pas un moyen de paiement de la liste UNTDID 4461",
    "{shown} is no VAT category of UNTDID 5305": "{shown} n’est pas une catégorie de TVA de la liste UNTDID 5305",
    "a period ends ({end}) before it starts ({start})": "une période finit ({end}) avant de commencer ({start})",
    "due {due}, before the invoice of {issued}": "échéance le {due}, avant la facture du {issued}",
    "the invoice date {date} is far in the future": "la date de facture {date} est loin dans l’avenir",
    "{date} is no day of the calendar": "{date} n’est pas un jour du calendrier",
    "the date {shown} is not written as {text}": "la date {shown} n’est pas écrite sous la forme {text}",
    "something is due, but neither a due date nor payment terms are given": (
        "il reste à payer, mais ni échéance ni conditions de paiement ne sont données"
    ),
    "{said} = {amount}, but {saidright} = {found}": "{said} = {amount}, mais {saidright} = {found}",
    "the price of line {line} is negative: {amount}": "le prix de la ligne {line} est négatif : {amount}",
    "two lines have the identifier {line}": "deux lignes ont l’identifiant {line}",
    "line {line}: quantity × price = {amount}, but its amount is {found}": (
        "ligne {line} : quantité × prix = {amount}, mais son montant est {found}"
    ),
    "VAT category {category} is used, but missing in the breakdown": (
        "la catégorie de TVA {category} est utilisée, mais manque dans le détail"
    ),
    "the standard VAT category needs a rate above zero": "la catégorie de TVA normale demande un taux positif",
    "VAT category {category} has the rate {rate}": "la catégorie de TVA {category} a le taux {rate}",
    "VAT category {category} has no rate": "la catégorie de TVA {category} n’a pas de taux",
    "VAT category {category} needs the seller's VAT number": (
        "la catégorie de TVA {category} demande le numéro de TVA du vendeur"
    ),
    "VAT category {category} needs the buyer's VAT number": (
        "la catégorie de TVA {category} demande le numéro de TVA de l’acheteur"
    ),
    "outside the scope of VAT, but with the seller's VAT number": (
        "hors du champ de la TVA, mais avec le numéro de TVA du vendeur"
    ),
    "VAT category {category} needs the reason for exemption": (
        "la catégorie de TVA {category} demande le motif de l’exonération"
    ),
    "VAT category {category} has a reason for exemption": "la catégorie de TVA {category} a un motif d’exonération",
    "VAT category {category} has the tax {amount}": "la catégorie de TVA {category} a une taxe de {amount}",
    "{amount} at {rate} % is {expected}, but the tax is {found}": (
        "{amount} à {rate} % font {expected}, mais la taxe est {found}"
    ),
    "lines and charges of category {category} are {amount}, but the base is {base}": (
        "lignes et frais de la catégorie {category} font {amount}, mais la base est {base}"
    ),
    "lines and charges of category {category} at {rate} % are {amount}, but the base is {base}": (
        "lignes et frais de la catégorie {category} à {rate} % font {amount}, mais la base est {base}"
    ),
    "the paper says {shown}, the embedded XML says {shownxml}": "le papier dit {shown}, le XML joint dit {shownxml}",
}

#: Files and metadata.
CARRIER = {
    "the metadata promise an invoice ({text}), but none is attached": (
        "les métadonnées promettent une facture ({text}), mais aucune n’est jointe"
    ),
    "the XML is no invoice: its root is {name}": "le XML n’est pas une facture : sa racine est {name}",
    "the specification {shown} is unknown": "la spécification {shown} est inconnue",
    "the namespace {shown} is not that of {text}": "l’espace de noms {shown} n’est pas celui de {text}",
    "the invoice is attached as {shown}, which is no standard name: readers look for factur-x.xml": (
        "la facture est jointe sous le nom {shown}, qui n’est pas normalisé : les lecteurs cherchent factur-x.xml"
    ),
    "the metadata name the invoice {shown}, it is attached as {shownname}": (
        "les métadonnées nomment la facture {shown}, elle est jointe sous le nom {shownname}"
    ),
    "the PDF's metadata do not say that it carries an invoice": (
        "les métadonnées du PDF ne disent pas qu’il porte une facture"
    ),
    "the metadata say that the XML is of type {shown}, not INVOICE": (
        "les métadonnées disent que le XML est de type {shown}, et non INVOICE"
    ),
    "the metadata say profile {shown}, the XML says {shownxml}": (
        "les métadonnées disent le profil {shown}, le XML dit {shownxml}"
    ),
    "{shown} is attached too and says another {text}": "{shown} est joint aussi et dit autre chose ({text})",
    "{shown} is attached too and says the same": "{shown} est joint aussi et dit la même chose",
    "the XML has no content": "le XML est vide",
    "the XML is not well-formed: {text} (line {n})": "le XML est mal formé : {text} (ligne {n})",
    "the XML is not encoded as it says: {said}": "le XML n’est pas codé comme il le dit : {said}",
    "it declares the unknown encoding {shown}": "il déclare le codage inconnu {shown}",
    "it declares {declared}, its byte order mark say {seen}": (
        "il déclare {declared}, son indicateur d’ordre des octets dit {seen}"
    ),
    "it declares {declared}, its bytes say {seen}": "il déclare {declared}, ses octets disent {seen}",
    "it declares {declared}, but byte {n} is not valid in it": (
        "il déclare {declared}, mais l’octet {n} n’y est pas valide"
    ),
    "it should be {declared}, but byte {n} is not valid in it": (
        "il devrait être en {declared}, mais l’octet {n} n’y est pas valide"
    ),
    "it declares {declared}, but its bytes are UTF-8": "il déclare {declared}, mais ses octets sont en UTF-8",
    "the XML is not read: {said}": "le XML n’est pas lu : {said}",
    "more than {n} MB": "plus de {n} Mo",
    "it has a DOCTYPE, which an invoice never needs": "il a un DOCTYPE, dont une facture n’a jamais besoin",
    "elements are nested deeper than {n}": "des éléments sont imbriqués sur plus de {n} niveaux",
    "it has more than {n} elements": "il a plus de {n} éléments",
}

#: What France demands beside.
FRANCE = {
    "the number {shown} is over {n} characters": "le numéro {shown} a plus de {n} caractères",
    "the number {shown} has characters other than letters, digits and - + _ /": (
        "le numéro {shown} a d’autres signes que lettres, chiffres et - + _ /"
    ),
    "France does not take documents of type {kind}": "la France n’admet pas les documents de type {kind}",
    "the kind of operation is {shown}, not one of B1, S1, M1, …": (
        "la nature de l’opération est {shown}, et non B1, S1, M1…"
    ),
    "a corrected invoice names the one invoice it corrects": (
        "une facture rectificative nomme l’unique facture qu’elle rectifie"
    ),
    "a credit note names the invoice it credits": "un avoir nomme la facture qu’il crédite",
    "a note must tell {said} ({subject})": "une note doit indiquer {said} ({subject})",
    "the note {subject} is there twice": "la note {subject} figure deux fois",
    "the seller's SIREN is {shown}, not nine digits": "le SIREN du vendeur est {shown}, et non neuf chiffres",
    "the seller's SIRET {siret} does not fit the SIREN {shown}": (
        "le SIRET {siret} du vendeur ne correspond pas au SIREN {shown}"
    ),
    "the buyer's SIRET {siret} does not fit the SIREN {shown}": (
        "le SIRET {siret} de l’acheteur ne correspond pas au SIREN {shown}"
    ),
    "the seller's VAT number {vat} is not that of the SIREN {siren}": (
        "le numéro de TVA {vat} du vendeur n’est pas celui du SIREN {siren}"
    ),
    "the buyer's VAT number {vat} is not that of the SIREN {siren}": (
        "le numéro de TVA {vat} de l’acheteur n’est pas celui du SIREN {siren}"
    ),
    "the year of {date} is not between 2000 and 2099": "l’année de {date} n’est pas entre 2000 et 2099",
    "{n} % is no French VAT rate": "{n} % n’est pas un taux de TVA français",
    "{n}: more than {nmost} decimals": "{n} : plus de {nmost} décimales",
    "already paid, so nothing may be due, and the due date tells when it was paid": (
        "déjà payée : rien ne peut rester à payer, et l’échéance dit quand elle l’a été"
    ),
    "in another currency than the euro, and no VAT in euros": (
        "dans une autre devise que l’euro, et sans TVA en euros"
    ),
}

XML: dict[str, str] = {**TERMS, **STANDARD, **CARRIER, **FRANCE}
