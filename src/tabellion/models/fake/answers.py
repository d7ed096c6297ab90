"""Builds answers from the content alone, so that the same content always gets the identical answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal

from tabellion.models.fake.content import Content, tokens_of
from tabellion.models.fake.form import FormFiller
from tabellion.models.fake.lines import lines_of

REPEATED_TOKENS = 8192  # how long a repetition loop runs where the request sets no limit
MOST_REPEATED = 65_536

Finish = Literal["stop", "length", "block"]


@dataclass(frozen=True, slots=True)
class Question:
    """A request, independent of its protocol."""

    model: str
    contents: tuple[Content, ...]
    instructions: tuple[Content, ...] = ()  #: counted as tokens, but not used for the answer
    schema: Mapping[str, Any] | None = None
    json: bool = False
    bare_enum: bool = False  #: an enum's value without quotes
    max_tokens: int | None = None
    thinking: bool = False
    show_thoughts: bool = False
    stream: bool = False
    stream_usage: bool = False


@dataclass(frozen=True, slots=True)
class FakeAnswer:
    """An answer, independent of its protocol."""

    text: str | None = field(repr=False)
    model: str
    digest: str  #: of the content and the model
    finish: Finish = "stop"
    thought: str | None = None
    input: Mapping[str, int] = field(default_factory=dict)  #: tokens by modality
    output: int = 0
    thoughts: int = 0

    @property
    def tokens(self) -> int:
        """All billed tokens."""
        return sum(self.input.values()) + self.output + self.thoughts


def build_answer(question: Question, met: frozenset[str]) -> FakeAnswer:
    """The answer, changed by the knobs in `met`."""
    content_digest = sha256("/".join(content.digest for content in question.contents).encode()).hexdigest()
    digest = sha256(f"{question.model}/{content_digest}".encode()).hexdigest()
    counted: Counter[str] = Counter()
    for content in (*question.instructions, *question.contents):
        counted[content.modality] += content.tokens
    thoughts = 16 + int(digest[:2], 16) % 64 if question.thinking else 0
    text = _front_matter(question, met) + _text(question, content_digest)
    answer = FakeAnswer(text, question.model, digest, input=counted, thoughts=thoughts)
    if question.show_thoughts or "thought" in met:
        answer = replace(answer, thought="Reading what was sent, line by line.", thoughts=max(thoughts, 16))
    answer = _apply_faults(_within(answer, question.max_tokens), question, met)
    return replace(answer, output=tokens_of(answer.text or ""))


def pieces(text: str) -> list[str]:
    """A text in the pieces of a stream."""
    size = max(16, -(-len(text) // 12))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def source(question: Question) -> str:
    """The text to answer from: that of the documents, or without documents all text."""
    documents = [content.text for content in question.contents if content.document and content.text.strip()]
    pictures = [content.text for content in question.contents if content.modality != "TEXT"]
    return "\n".join(documents or pictures or [content.text for content in question.contents])


def _text(question: Question, content_digest: str) -> str:
    text = source(question)
    if question.schema is not None:
        # A picture has no words: only its prompt can be searched.
        prompt = "\n".join(content.text for content in question.contents if content.modality == "TEXT")
        documents = any(content.document for content in question.contents)
        value = FormFiller(question.schema, text if documents else prompt, content_digest).fill()
        return str(value) if question.bare_enum else _dump_json(value)
    if question.json:
        labels = {label.replace(" ", "_"): values[0] for label, values in lines_of(text).labels.items()}
        return _dump_json(labels or {"text": text})
    return text


def _front_matter(question: Question, met: frozenset[str]) -> str:
    """The front matter that olmOCR puts before its markdown."""
    if "olmocr" not in question.model.lower() or question.schema is not None or question.json:
        return ""
    size = next((content.size for content in question.contents if content.size), None)
    rotated = "rotate90" in met and not (size and size[0] > size[1])
    return (
        f"---\nprimary_language: en\nis_rotation_valid: {not rotated}\nrotation_correction: {90 if rotated else 0}\n"
        f"is_table: False\nis_diagram: False\n---\n"
    )


def _within(answer: FakeAnswer, most: int | None) -> FakeAnswer:
    """The answer cut off at the token limit, as every provider does."""
    if most is None or answer.text is None or tokens_of(answer.text) <= most:
        return answer
    return replace(answer, text=answer.text[: most * 4], finish="length")


def _apply_faults(answer: FakeAnswer, question: Question, met: frozenset[str]) -> FakeAnswer:
    text = answer.text or ""
    if "block" in met:
        return replace(answer, text=None, thought=None, thoughts=0, finish="block")
    if "empty" in met:
        return replace(answer, text=None, finish="length", thoughts=question.max_tokens or 64)
    if "truncate" in met:
        return replace(answer, text=text[: max(1, len(text) // 2)], finish="length")
    if "repeat" in met:
        limit = min(question.max_tokens or REPEATED_TOKENS, MOST_REPEATED) * 4
        start = f"{text[: len(text) // 2]}" if question.schema is not None else f"{text}\n"
        loop = "0" if question.schema is not None else "and the same again "
        return replace(answer, text=(start + loop * (limit // len(loop) + 1))[:limit], finish="length")
    if "schema" in met:
        return replace(answer, text=_dump_json(_build_invalid(text)))
    return answer


def _build_invalid(text: str) -> Any:
    """JSON that cannot satisfy the schema the text satisfies."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return {"unexpected": True}
    names = list(value)[:-1] if len(value) > 1 else list(value)
    return {name: {"unexpected": [value[name]]} for name in names} | {"unexpected": True}


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
