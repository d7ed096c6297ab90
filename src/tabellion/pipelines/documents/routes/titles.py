"""What document types and their fields are called on pages."""

from __future__ import annotations

from fastapi import Request

from tabellion import messages
from tabellion.pipelines.documents.served import served_documents
from tabellion.web.pages.page import language_of


def type_titles(request: Request) -> dict[str, str]:
    """What each document type of this environment is called here."""
    return {
        one.name: type_title(request, one.name, one.title) for one in served_documents(request).settings.types.all()
    }


def field_titles(request: Request) -> dict[str, dict[str, str]]:
    """What the types of this environment call their fields."""
    return {kind.name: {one.name: one.title for one in kind} for kind in served_documents(request).settings.types.all()}


def type_title(request: Request, name: str, given: str) -> str:
    """What a document type is called here: as its file says, in words of ours where it says nothing."""
    key = f"fields.type.{name}"
    plain = not given or given == name.replace("_", " ").capitalize()
    return str(messages.domain(language_of(request), "pages").get(key, given or name)) if plain else given
