"""What the reader, the types that come with us and their rules say, in French by their English words.

A template has holes, and how their names begin says what may stand in them: `{field}` is the name of a field,
`{fields}` several, `{type}` the name of a document type, `{n}` a number, `{shown}` a value as messages show it,
`{said}` a sentence that has a template of its own, `{text}` anything, and any other name one word. `sentences.js`
finds the template of a text.
"""

from __future__ import annotations

from tabellion.web.pages.words_sentences_files import FILES
from tabellion.web.pages.words_sentences_work import WORK
from tabellion.web.pages.words_sentences_xml import XML

#: Why a value was taken, and what speaks against it.
REASONS = {
    "grounded": "trouvé sur la page",
    "ungrounded": "introuvable sur les pages",
    "grounded: {said}": "trouvé sur la page : {said}",
    "exact": "à la lettre",
    "whitespace": "aux espaces près",
    "case": "aux majuscules près",
    "number": "le même nombre",
    "date": "la même date",
    "punctuation": "à la ponctuation près",
    "lines": "sur plusieurs lignes",
    "confusion": "à un signe confondu près",
    "fuzzy": "à quelques signes près",
    "after label {shown}": "après le libellé {shown}",
    "beside label {shown}": "à côté du libellé {shown}",
    "below label {shown}": "sous le libellé {shown}",
    "{said} with label {shown}": "{said}, avec le libellé {shown}",
    "single candidate": "seul candidat",
    "{n} other candidate": "{n} autre candidat",
    "{n} other candidates": "{n} autres candidats",
    "unlabelled": "sans libellé",
    "heading": "dans un titre",
    "until": "après « jusqu’au »",
    "printed": "imprimé",
    "place": "d’après le lieu",
    "form": "d’après sa forme",
    "GST": "forme d’un numéro de TPS",
    "QST": "forme d’un numéro de TVQ",
    "VAT": "forme d’un numéro de TVA",
    "CHE": "forme d’un numéro IDE suisse",
    "sum of taxes": "somme des taxes",
    "sum of {text} and {amount}": "somme de {text} et {amount}",
    "legal form": "forme juridique",
    "trade word": "mot de métier",
    "above an address": "au-dessus d’une adresse",
    "sender line": "ligne de l’expéditeur",
    "labelled": "avec un libellé",
    "repeated": "répété",
    "like its web site": "comme son site web",
    "in the small print": "dans les petits caractères",
    "under the name": "sous le nom",
    "elsewhere": "ailleurs",
    "after its label": "après son libellé",
    "under its label": "sous son libellé",
    "{n} row": "{n} ligne",
    "{n} rows": "{n} lignes",
    "{n} with quantity × price": "{n} avec quantité × prix",
    "arithmetic closes": "le calcul tombe juste",
    "items add up": "la somme des lignes est juste",
    "they make the tax": "leur somme est la taxe",
    "cash less change": "somme reçue moins monnaie rendue",
    "paid in full": "payé en entier",
    "rounded": "arrondi",
    "but {said}": "mais {said}",
    "subtotal and tax do not make the total": "le sous-total et la taxe ne font pas le total",
    "items do not add up": "la somme des lignes n’est pas juste",
    "a heading was taken for an item": "un titre a été pris pour une ligne",
    "day and month could change places": "le jour et le mois pourraient être inversés",
    "before the date of issue": "avant la date d’émission",
    "perhaps {amount} ({said})": "peut-être {amount} ({said})",
    "{sign} read for {other}: {text}": "{sign} lu pour {other} : {text}",
    "its check digits are wrong": "ses chiffres de contrôle sont faux",
    "OCR score {n}": "score de reconnaissance {n}",
    "printed on the page": "imprimé sur la page",
    "not printed": "non imprimé",
    "corrected by a person": "corrigé par une personne",
    "said by a person": "dit par une personne",
    "model": "modèle",
    "words": "mots de la page",
    "page": "page",
    "xml": "XML",
    "model and words agree": "le modèle et les mots concordent",
    "model and words nearly agree": "le modèle et les mots concordent presque",
    "model says {text}": "le modèle dit {text}",
    "words say {text}": "les mots disent {text}",
    "not {said}": "pas {said}",
    "{n} of {nall} rows grounded": "{n} lignes sur {nall} trouvées sur la page",
    "not all cells are of their kind": "toutes les cellules ne sont pas de leur sorte",
}

#: What is wrong with values, and how they are written.
VALUES = {
    "{fieldlist}, row {n}": "{fieldlist}, rangée {n}",
    "{fieldlist}, row {n}, {fieldcolumn}": "{fieldlist}, rangée {n}, {fieldcolumn}",
    "tolerance": "tolérance",
    "(nothing)": "(rien)",
    "({n} row)": "({n} ligne)",
    "({n} rows)": "({n} lignes)",
    "{field} is missing; it is required": "{field} manque ; ce champ est obligatoire",
    "{field} has no rows; at least {n} expected": "{field} : aucune ligne, alors qu’il en faut au moins {n}",
    "{field} has {said}; at least {n} expected": "{field} : {said}, alors qu’il en faut au moins {n}",
    "{field} has {said}; at most {n} expected": "{field} : {said}, alors qu’il en faut au plus {n}",
    "{field}: {shown} is not a list of rows": "{field} : {shown} n’est pas une liste de lignes",
    "{field}: {shown} is not a row": "{field} : {shown} n’est pas une ligne",
    "{field}: {shown} is not {said}": "{field} : {shown} n’est pas {said}",
    "{field}: {shown} is not one of {text}": "{field} : {shown} ne fait pas partie de {text}",
    "{field}: {shown} has not the pattern {text}": "{field} : {shown} n’a pas la forme {text}",
    "{field}: {shown} is less than {least}": "{field} : {shown} est inférieur à {least}",
    "{field}: {shown} is more than {most}": "{field} : {shown} est supérieur à {most}",
    "{field}: the type {type} has no such field": "{field} : le type {type} n’a pas ce champ",
    "{text} does not hold": "la règle « {text} » n’est pas respectée",
    "a date (YYYY-MM-DD)": "une date (AAAA-MM-JJ)",
    "a date, YYYY-MM-DD": "une date, AAAA-MM-JJ",
    "a date, YYYY-MM-DD; where day and month could change places, write 2024-12-31": (
        "une date, AAAA-MM-JJ ; où le jour et le mois pourraient être inversés, écrivez 2024-12-31"
    ),
    "a text": "un texte",
    "a person's or a company's name": "le nom d’une personne ou d’une entreprise",
    "an address, its lines joined by spaces or commas": (
        "une adresse dont les lignes sont jointes par des espaces ou des virgules"
    ),
    "a number or code as printed, such as an invoice number": (
        "un numéro ou un code tel qu’il est imprimé, comme un numéro de facture"
    ),
    "YYYY-MM-DD": "AAAA-MM-JJ",
    "an amount such as 1234.50, without currency": "un montant comme 1234.50, sans devise",
    "a number such as 12 or 0.5": "un nombre comme 12 ou 0.5",
    "a number such as 9.975, without the sign": "un nombre comme 9.975, sans le signe %",
    "three letters of ISO 4217": "trois lettres de la norme ISO 4217",
    "three letters of ISO 4217; write EUR, USD …": "trois lettres de la norme ISO 4217 ; écrivez EUR, USD…",
    "true or false": "vrai ou faux",
    "one of the options": "un des choix",
    "a list of objects, each with the same fields": "une liste d’objets qui ont tous les mêmes champs",
    "{field} is a single value: {said}": "{field} est une seule valeur : {said}",
    "{field} has more than {n} characters: shorten it": "{field} a plus de {n} caractères : abrégez",
    "{field} is a list of rows, each an object with {fields}": (
        "{field} est une liste de lignes dont chacune est un objet avec {fields}"
    ),
    "{field} has more than {n} rows": "{field} a plus de {n} lignes",
    "{field} has no column {shown}: there are {fields}": "{field} : pas de colonne {shown} ; il y a {fields}",
    "{field} has no value to {verb}: give one, or mark it as absent": (
        "{field} n’a pas de valeur ({verb}) : donnez-en une, ou marquez le champ comme absent"
    ),
    "{field}: a correction needs a value; mark it as absent where the document has none": (
        "{field} : une correction demande une valeur ; marquez le champ comme absent si le document n’en a pas"
    ),
    "there is no field {shown}": "il n’y a pas de champ {shown}",
    "there is no field {shown}; there are {fields}": "il n’y a pas de champ {shown} ; il y a {fields}",
    "there is no field {shown} (did you mean {field}?); there are {fields}": (
        "il n’y a pas de champ {shown} (vouliez-vous dire {field} ?) ; il y a {fields}"
    ),
    "{field}: there is no page {n}, the document has {nall}": (
        "{field} : il n’y a pas de page {n}, le document en a {nall}"
    ),
    "{fields} must be there, or be marked as absent": "{fields} : à donner, ou à marquer comme absent",
}

#: The rules of the types that come with us, without their last full stop.
RULES = {
    "The total is not the subtotal plus the tax": "Le total n’est pas le sous-total plus la taxe",
    "The taxes that are listed do not add up to the tax": "La somme des taxes détaillées n’est pas la taxe",
    "The line items add up neither to the subtotal nor to the total": (
        "La somme des lignes n’est ni le sous-total ni le total"
    ),
    "The invoice is due before it was issued": "L’échéance de la facture précède sa date",
    "The invoice is due more than three years after it was issued": (
        "L’échéance de la facture est plus de trois ans après sa date"
    ),
    "The invoice is dated more than a month from now": "La facture est datée de plus d’un mois dans l’avenir",
    "One of total and subtotal is negative and the other is not": (
        "Du total et du sous-total, l’un est négatif et l’autre non"
    ),
    "The tax is more than the subtotal": "La taxe dépasse le sous-total",
    "The TPS is not 5 % of the amount it is charged on": "La TPS n’est pas 5 % du montant sur lequel elle est perçue",
    "The TVQ is not 9.975 % of the amount it is charged on": (
        "La TVQ n’est pas 9,975 % du montant sur lequel elle est perçue"
    ),
    "The total is neither the subtotal plus the tax nor the subtotal with the tax in it": (
        "Le total n’est ni le sous-total plus la taxe, ni le sous-total taxe comprise"
    ),
    "The money handed over less the change is not the total": (
        "La somme reçue moins la monnaie rendue n’est pas le total"
    ),
    "The goods add up neither to the total nor to the subtotal": (
        "La somme des articles n’est ni le total ni le sous-total"
    ),
    "The receipt is dated in the future": "Le reçu est daté dans l’avenir",
    "The total is negative; is it a refund?": "Le total est négatif ; est-ce un remboursement ?",
    "The tax is not less than the total": "La taxe n’est pas inférieure au total",
    "The act was registered before it was signed": "L’acte a été inscrit avant d’être signé",
    "The act was registered more than ten years after it was signed": (
        "L’acte a été inscrit plus de dix ans après sa signature"
    ),
    "The registration date is in the future": "La date d’inscription est dans l’avenir",
    "The act is a sale, but no price was found": "L’acte est une vente, mais aucun prix n’a été trouvé",
    "An act of this nature has at least two parties": "Un acte de cette nature a au moins deux parties",
    "A notary is named, but no minute number was found": (
        "Un notaire est nommé, mais aucun numéro de minute n’a été trouvé"
    ),
    "Lots are named, but not the cadastre they belong to": (
        "Des lots sont nommés, mais pas le cadastre auquel ils appartiennent"
    ),
}

SENTENCES: dict[str, str] = {**REASONS, **VALUES, **RULES, **FILES, **XML, **WORK}
