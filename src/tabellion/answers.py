"""Typed dictionaries of the API's answers, declared beside the code that makes them; OpenAPI is derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict  # pydantic requires this one before Python 3.12


class Answer(TypedDict):
    """The base of every object that the API answers: its name and docstring are those of the published schema."""


@dataclass(frozen=True, slots=True)
class Doc:
    """The description of a key in the OpenAPI document: `Annotated[int, Doc("…")]`."""

    text: str

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        # pydantic looks for this method; it is not imported here, as only the OpenAPI document needs it.
        return {**handler(schema), "description": self.text}
