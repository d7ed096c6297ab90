"""What the API answers: typed dictionaries beside the code that makes them, from which OpenAPI is derived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12


class Answer(TypedDict):
    """The base of every object that the API answers: its name and docstring are those of the published schema."""


@dataclass(frozen=True, slots=True)
class Doc:
    """What the OpenAPI document says of a key: `Annotated[int, Doc("…")]`."""

    text: str

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        # By this name pydantic finds it, which is loaded only where somebody asks for the document.
        return {**handler(schema), "description": self.text}
