"""The kinds of fields: a new kind is added here first."""

from __future__ import annotations

from tabellion.messages import Message

#: Every kind of field, and how its normalised value looks.
KINDS = {
    "text": Message("kind.text"),
    "name": Message("kind.name"),
    "address": Message("kind.address"),
    "id": Message("kind.identifier"),
    "date": Message("kind.date"),
    "money": Message("kind.amount"),
    "number": Message("kind.number"),
    "percent": Message("kind.percentage"),
    "currency": Message("kind.currency"),
    "bool": Message("kind.bool"),
    "choice": Message("kind.choice"),
    "list": Message("kind.list"),
}
NUMERIC = ("money", "number", "percent")
