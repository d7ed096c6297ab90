"""Words of what happened to a document, where it is told beside its review."""

from __future__ import annotations

WORDS = {
    "en": {
        "review.given_to": "given to {after}",
        "review.given_nobody": "given to nobody in particular",
        "review.ran_out": "the claim of {before} ran out",
    },
    "fr": {
        "review.given_to": "confié à {after}",
        "review.given_nobody": "confié à personne en particulier",
        "review.ran_out": "la prise de {before} est arrivée à son terme",
    },
}
