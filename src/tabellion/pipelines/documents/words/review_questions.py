"""Words of what the review screen asks: what a document is, and whether to approve what nobody has looked at."""

from __future__ import annotations

WORDS = {
    "en": {
        "review.key.retype": "say what the document is: it is read again as that",
        "review.retype": "Choose its type",
        "review.retype_change": "Change type",
        "review.retype_button": "Type…",
        "review.retype_note": "The document is read again as this type. What people corrected stays.",
        "review.retype_label": "It is a",
        "review.retype_verb": "Read it as this",
        "review.reading_as": "It is being read as: {type}",
        "review.read_as": "Read as: {type}",
        "review.read_later": "It is still being read. Look again in a while.",
        "review.no_type": "What is it?",
        "review.no_type_note": "It is none of the types there are, so it has no fields and cannot be approved. "
        "Say what it is and it is read again.",
        "review.left_type": "no type yet",
        "review.reason.missing_cell": "{field}, row {row}: {column} is required and empty",
        "review.unseen": "Approve what nobody has looked at?",
        "review.unseen_note": "The reading is not sure of these fields, and nobody has confirmed or corrected them.",
        "review.unseen_sure": "confidence {sure} (threshold {wanted})",
        "review.unseen_verb": "Approve all the same",
    },
    "fr": {
        "review.key.retype": "dire ce qu’est le document : il est relu comme tel",
        "review.retype": "Choisir son type",
        "review.retype_change": "Changer de type",
        "review.retype_button": "Type…",
        "review.retype_note": "Le document est relu comme ce type. Ce que des personnes ont corrigé reste.",
        "review.retype_label": "C’est un document de type",
        "review.retype_verb": "Le lire ainsi",
        "review.reading_as": "Lecture en cours comme : {type}",
        "review.read_as": "Lu comme : {type}",
        "review.read_later": "La lecture n’est pas terminée. Revenez dans un moment.",
        "review.no_type": "Qu’est-ce que c’est ?",
        "review.no_type_note": "Il n’est d’aucun des types connus : il n’a donc pas de champs et ne peut pas être "
        "approuvé. Dites ce qu’il est et il est relu.",
        "review.left_type": "pas encore de type",
        "review.reason.missing_cell": "{field}, ligne {row} : {column} est obligatoire et vide",
        "review.unseen": "Approuver ce que personne n’a vérifié ?",
        "review.unseen_note": "La lecture n’est pas sûre de ces champs, et personne ne les a confirmés ni corrigés.",
        "review.unseen_sure": "confiance {sure} (seuil {wanted})",
        "review.unseen_verb": "Approuver quand même",
    },
}
