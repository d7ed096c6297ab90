"""olmOCR at DeepInfra: reads one page image into text in reading order."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tabellion.messages import Message
from tabellion.models.base import Ask, Blob, Part, Reply, Schema
from tabellion.models.errors import BadOutput, Rejected
from tabellion.models.openai import OpenAI
from tabellion.models.output import next_temperature
from tabellion.models.prices import Prices
from tabellion.models.remote import ANSWER_LIMIT

BASE_URL = "https://api.deepinfra.com/v1/openai"
MODEL = "allenai/olmOCR-2-7B-1025"
LONGEST_SIDE = 1288  # pixels: the model was trained with it
MOST_PIXELS = 100_000_000
MOST_TOKENS = 16384  # input and output together, as in training
TEMPERATURES = (0.1, 0.1, 0.2, 0.3, 0.5, 0.8, 0.9, 1.0)  # by try

#: The prompt that the model was trained with: others get worse answers (olmOCR, Apache-2.0).
PROMPT = (
    "Attached is one page of a document that you must process. Just return the plain text representation of this "
    "document as if you were reading it naturally. Convert equations to LateX and tables to HTML.\n"
    "If there are any figures or charts, label them with the following markdown syntax "
    "![Alt text describing the contents of the figure](page_startx_starty_width_height.png)\n"
    "Return your output as markdown, with a front matter section on top specifying values for the primary_language, "
    "is_rotation_valid, rotation_correction, is_table, and is_diagram parameters."
)


class DeepInfra(OpenAI):
    """olmOCR as its authors run it; other models of DeepInfra are called like any OpenAI-compatible one."""

    name = "deepinfra"

    def __init__(
        self, key: str, base_url: str | None = None, model: str = MODEL, *, prices: Prices | None = None,
        headers: Mapping[str, str] | None = None, answer_limit: int = ANSWER_LIMIT,
    ) -> None:  # fmt: skip
        super().__init__(key, base_url or BASE_URL, model, prices=prices, headers=headers, answer_limit=answer_limit)

    def _read_environment(self) -> dict[str, str]:
        return {}  # the variables of OpenAI's package may contain secrets, and this is another company

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """The page's text; `object` is the front matter about the page."""
        if "olmocr" not in self.model.lower():
            return await super().call(parts, schema, ask)
        if schema is not None:
            raise Rejected(Message("model.pages_only"))
        images = [part for part in parts if isinstance(part, Blob)]
        if len(images) != 1 or not images[0].type.startswith("image/"):
            raise Rejected(Message("model.one_image"))
        rotation = int(ask.hint.get("rotate", 0))
        page = await asyncio.to_thread(page_image, images[0].data, rotation)
        step = min(max(ask.attempt, 1), len(TEMPERATURES)) - 1
        page_ask = replace(ask, temperature=TEMPERATURES[step], hint={})
        question = "\n".join(part for part in parts if isinstance(part, str)) or PROMPT
        reply = await super().call([question, Blob(page, "image/png", images[0].name)], None, page_ask)
        return self._page(reply, page_ask, rotation)

    def _page(self, reply: Reply, ask: Ask, rotation: int) -> Reply:
        def bad(message: str, fault: Any, hint: Mapping[str, Any]) -> BadOutput:
            return BadOutput(message, fault, raw=reply.text, usage=reply.usage, cost=reply.cost, hint=hint)

        warmer = {"temperature": next_temperature(ask.temperature, TEMPERATURES)}
        total = reply.usage.input + reply.usage.output + reply.usage.thoughts
        if reply.finish != "stop" or total > MOST_TOKENS:
            raise bad(Message("model.page_unfinished", text=reply.finish, n=total), "truncated", warmer)
        try:
            front, text = front_matter(reply.text)
        except ValueError as error:
            raise bad(Message("model.front_matter", text=str(error)), "schema", warmer) from None
        if not front["is_rotation_valid"]:
            needed = (rotation + front["rotation_correction"]) % 360
            raise bad(Message("model.rotation", n=needed), "rotation", {"rotate": needed})
        return replace(reply, text=text, object=front)


def page_image(data: bytes, turn: int = 0) -> bytes:
    """A PNG with the model's longest side, rotated clockwise."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise Rejected(Message("model.image_too_large", width=opened.width, height=opened.height))
            image: Image.Image = ImageOps.exif_transpose(opened)
            if image.mode in ("RGBA", "LA", "PA", "P"):
                white = Image.new("RGBA", image.size, "white")
                image = Image.alpha_composite(white, image.convert("RGBA"))
            image = image.convert("RGB")
    except Rejected:
        raise
    except Exception as error:  # Pillow may raise anything for a damaged file
        raise Rejected(Message("model.image_unreadable", error=type(error).__name__)) from None
    if turn % 360:
        image = image.rotate(-turn, expand=True)
    scale = LONGEST_SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    png = io.BytesIO()
    image.resize(size, Image.Resampling.LANCZOS).save(png, "PNG")
    return png.getvalue()


def _words(value: str) -> str | None:
    value = value.strip("\"'")
    return None if value.lower() in ("", "null", "none", "~") else value


def _parse_boolean(value: str) -> bool:
    return {"true": True, "false": False}[value.lower()]


def _angle(value: str) -> int:
    return {"0": 0, "90": 90, "180": 180, "270": 270}[value]


KEYS = {
    "primary_language": _words, "is_rotation_valid": _parse_boolean, "rotation_correction": _angle,
    "is_table": _parse_boolean, "is_diagram": _parse_boolean,
}  # fmt: skip


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The front matter and the text: five known keys, each with a valid value, else a ValueError."""
    lines = text.lstrip("\ufeff\n ").splitlines()
    if not lines or lines[0].strip() != "---":
        raise ValueError(Message("front_matter.begins_otherwise"))
    values: dict[str, Any] = {}
    for number, line in enumerate(lines[1:20], 2):
        if line.strip() == "---":
            if missing := KEYS.keys() - values.keys():
                raise ValueError(Message("front_matter.missing", name=min(missing)))
            return values, "\n".join(lines[number:]).strip("\n")
        key, colon, value = (piece.strip() for piece in line.partition(":"))
        if not colon or key not in KEYS or key in values:
            raise ValueError(Message("front_matter.unknown_line", line=str(number)))
        try:
            values[key] = KEYS[key](value)
        except KeyError:
            raise ValueError(Message("front_matter.invalid", name=key)) from None
    raise ValueError(Message("front_matter.unfinished"))
