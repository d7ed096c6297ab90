"""The titles of document types and fields on pages."""

from __future__ import annotations

from fastapi import Request

from tabellion import messages
from tabellion.pipelines.documents.served import served_documents
from tabellion.web.pages.page import language_of


def type_titles(request: Request) -> dict[str, str]:
    """The title of each document type of this environment."""
    return {
        doctype.name: type_title(request, doctype.name, doctype.title)
        for doctype in served_documents(request).settings.types.all()
    }


def field_titles(request: Request) -> dict[str, dict[str, str]]:
    """The titles of the types' fields."""
    return {
        doctype.name: {spec.name: spec.title for spec in doctype}
        for doctype in served_documents(request).settings.types.all()
    }


def type_title(request: Request, name: str, title: str) -> str:
    """The title of a document type: from its file, or translated if that has none."""
    key = f"fields.type.{name}"
    is_default = not title or title == name.replace("_", " ").capitalize()
    return str(messages.domain(language_of(request), "pages").get(key, title or name)) if is_default else title
