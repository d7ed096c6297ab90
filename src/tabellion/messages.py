"""Messages: a code with its parameters, and its sentence in each language."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Annotated, Any

from tabellion.answers import Answer, Doc

LANGUAGES = {"en": "English", "fr": "Français"}
DEFAULT = "en"
PACKAGES = ["tabellion"]  #: packages with catalogues: `locale/<language>/messages.po` and `pages.po`
#: Called once for a code that no catalogue has: modules of a pipeline may be used before the registry was.
load_pipelines: Callable[[], object] | None = None
#: A sentence, or its singular and plural.
MessageTemplate = str | tuple[str, str]
Translatable = Annotated[
    dict[str, Any], Doc("The code and parameters of each text that is a message, or a list of these.")
]

_DEEPEST = 8  # messages within messages; the data of a reading child is not trusted
_HOLE = re.compile(r"\{(\w+)\}")
#: Where French has a no-break space.
_TIED = re.compile(r" (?=[:;?!%»])|(?<=«) ")


class CatalogueError(ValueError):
    """A catalogue is missing, cannot be read, or has codes of another one."""


class Message(str):
    """A sentence for people that is stored, compared and translated by its code; as a text it is in English.

    >>> Message("attempt.timed_out", seconds=30)
    'timed out after 30 s'
    """

    __slots__ = ("code", "params")
    code: str
    params: dict[str, Any]

    def __new__(cls, code: str, /, **params: Any) -> Message:
        """The message of a code.

        Parameters are texts, numbers, other messages, lists of these, or a text by language: `{"en": …, "fr": …}`.
        """
        plain_params = {name: _plain(value) for name, value in params.items()}
        return cls._create(translate(DEFAULT, code, **plain_params), code, plain_params)

    @classmethod
    def _create(cls, text: str, code: str, params: dict[str, Any]) -> Message:
        message = super().__new__(cls, text)
        message.code, message.params = code, params
        return message

    @classmethod
    def from_stored(cls, text: str, form: Any) -> str:
        """The message of a stored text and its form; the text alone if it has no form."""
        if not isinstance(form, Mapping) or not isinstance(form.get("code"), str):
            return text
        params = {name: _restore_value(value) for name, value in (form.get("params") or {}).items()}
        return cls._create(text, form["code"], params)

    @property
    def form(self) -> dict[str, Any]:
        """The code and parameters as JSON."""
        return {"code": self.code, "params": {name: _json(value) for name, value in self.params.items()}}

    def __str__(self) -> str:
        return self  # so that `str(error)` is a message too

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.code,), self.params


class Translated(Answer, total=False):
    """The forms of texts that can be translated."""

    translatable: Translatable


def translatable(**texts: Any) -> Translated:
    """The forms of texts, to be stored beside them for translation: `{"translatable": {name: form}}`, or nothing.

    A text may be a list of texts: its form is a list too, with None for texts that are not messages.
    """
    forms = {name: form for name, text in texts.items() if (form := _form(text)) is not None}
    return {"translatable": forms} if forms else {}


def translate(language: str, code: str, /, **params: Any) -> str:
    """The sentence of a code in a language, with its parameters filled in; `n` selects singular or plural."""
    template = _find_template(language, code)
    if template is None:  # a mistyped code must not hide what went wrong
        return f"{code} {json.dumps(params, default=str)}" if params else code
    text = template if isinstance(template, str) else template[0 if _is_one(language, params.get("n")) else 1]
    return _HOLE.sub(lambda hole: _format_param(language, params.get(hole[1], hole[0])), text)


def is_known(code: str) -> bool:
    """Whether a catalogue has this code."""
    return _find_template(DEFAULT, code) is not None


def _find_template(language: str, code: str) -> MessageTemplate | None:
    global load_pipelines
    template = catalogue(language).get(code) or catalogue(DEFAULT).get(code)
    if template is None and load_pipelines is not None:
        load, load_pipelines = load_pipelines, None
        load()
        return _find_template(language, code)
    return template


def add(package: str, *, check: bool = False) -> None:
    """Adds the catalogues of a package, as the registry does with those that a pipeline declares.

    With `check`, they are read at once, and left out with a CatalogueError if that fails.
    """
    if package in PACKAGES:
        return
    PACKAGES.append(package)
    _clear()
    try:
        for language in LANGUAGES if check else ():
            catalogue(language)
    except CatalogueError:
        PACKAGES.remove(package)
        _clear()
        raise


def _clear() -> None:
    catalogue.cache_clear()
    domain.cache_clear()


@functools.cache
def catalogue(language: str) -> dict[str, MessageTemplate]:
    """Every text of a language by its code."""
    return {**domain(language, "messages"), **domain(language, "pages")}


@functools.cache
def domain(language: str, name: str) -> dict[str, MessageTemplate]:
    """The texts of one kind in a language: `messages`, or `pages` for texts of pages only."""
    found: dict[str, MessageTemplate] = {}
    for package in PACKAGES:
        entries = _read_file(package, f"locale/{language}/{name}.po")
        if repeated := found.keys() & entries.keys():
            codes = ", ".join(sorted(repeated))
            raise CatalogueError(f"{package}/locale/{language}/{name}.po has codes of another package: {codes}")
        found |= entries
    return {code: _insert_no_break_spaces(template) for code, template in found.items()} if language == "fr" else found


def _read_file(package: str, path: str) -> dict[str, MessageTemplate]:
    try:
        file = files(package).joinpath(*path.split("/"))
    except (ModuleNotFoundError, TypeError) as error:
        raise CatalogueError(f"there is no package {package!r} with catalogues") from error
    try:
        return dict(read_catalogue(file.read_text(encoding="utf-8"))) if file.is_file() else {}
    except ValueError as error:
        raise CatalogueError(f"{package}/{path}: {error}") from error


def read_catalogue(text: str) -> Iterator[tuple[str, MessageTemplate]]:
    """The entries of a gettext catalogue (`.po`); fuzzy and obsolete ones are skipped.

    Raises a CatalogueError with the line that is wrong.
    """
    entry: dict[str, str] = {}
    name, is_fuzzy = "", False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if not line.strip():
            yield from _complete_entry(entry)
            entry, name, is_fuzzy = {}, "", False
        elif line.startswith("#"):
            is_fuzzy = is_fuzzy or (line.startswith("#,") and "fuzzy" in line)
        elif not is_fuzzy:
            keyword, _, rest = line.partition(" ") if not line.startswith('"') else (name, "", line)
            name = keyword
            try:
                entry[name] = entry.get(name, "") + json.loads(rest)
            except (ValueError, TypeError):
                raise CatalogueError(f"line {number} has no text in double quotes: {line}") from None


def _complete_entry(entry: Mapping[str, str]) -> Iterator[tuple[str, MessageTemplate]]:
    if code := entry.get("msgid"):
        several = "msgstr[0]" in entry
        if missing := {"msgstr[1]" if several else "msgstr"} - entry.keys():
            raise CatalogueError(f"{code} has no {missing.pop()}")
        yield code, (entry["msgstr[0]"], entry["msgstr[1]"]) if several else entry["msgstr"]


def select_page_texts(language: str, prefixes: Iterable[str]) -> dict[str, MessageTemplate]:
    """The texts of pages whose codes begin with one of these and a dot, for a page's script."""
    starts = tuple(f"{prefix}." for prefix in prefixes)
    return {code: template for code, template in domain(language, "pages").items() if code.startswith(starts)}


def _is_one(language: str, n: Any) -> bool:
    return bool(n == 1 or (language == "fr" and n == 0))


def _insert_no_break_spaces(template: MessageTemplate) -> MessageTemplate:
    """French typography: a no-break space before : ; ? ! % and inside quotes."""
    if isinstance(template, str):
        return _TIED.sub("\N{NO-BREAK SPACE}", template)
    singular, plural = template
    return _TIED.sub("\N{NO-BREAK SPACE}", singular), _TIED.sub("\N{NO-BREAK SPACE}", plural)


def _format_param(language: str, value: Any) -> str:
    if isinstance(value, Message) and language != DEFAULT:
        return translate(language, value.code, **value.params)
    if isinstance(value, list | tuple):
        return ", ".join(_format_param(language, item) for item in value)
    if isinstance(value, Mapping):
        return str(value.get(language) or next(iter(value.values()), ""))
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:g}"
        return text if language == DEFAULT else text.replace(",", "\N{NO-BREAK SPACE}").replace(".", ",")
    return str.__str__(value) if isinstance(value, str) else str(value)


def _plain(value: Any) -> Any:
    """A parameter as it is stored: a type that JSON has."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | Mapping | None) else str(value)


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(item) for item in value]
    return value.form if isinstance(value, Message) else value


def _form(text: Any) -> Any:
    if isinstance(text, list | tuple):
        forms = [_form(item) for item in text]
        return forms if any(form is not None for form in forms) else None
    return text.form if isinstance(text, Message) else None


def _restore_value(value: Any, depth: int = 0) -> Any:
    if isinstance(value, list):
        return [_restore_value(item, depth + 1) for item in value]
    if not isinstance(value, Mapping) or "code" not in value or depth > _DEEPEST:
        return value
    params = {str(name): _restore_value(item, depth + 1) for name, item in (value.get("params") or {}).items()}
    return Message(str(value["code"]), **params)


def quote_value(value: Any) -> Any:
    """A value within a sentence: a text in the language's quotes, anything else as its `repr`."""
    return Message("value.quoted", text=value) if isinstance(value, str) else repr(value)


def load_form(stored: str | None) -> dict[str, Any] | None:
    """The code and parameters of a stored text, from JSON; None if it is not a message."""
    try:
        form = json.loads(stored or "null")
    except ValueError:
        return None
    return form if isinstance(form, dict) else None


def has_code(texts: Iterable[str], code: str) -> bool:
    """Whether one of these texts is the message of this code."""
    return any(isinstance(text, Message) and text.code == code for text in texts)


def restore_text(data: Mapping[str, Any], name: str) -> Any:
    """A text, or a list of texts, with the messages restored from `translatable`."""
    text, form = data[name], (data.get("translatable") or {}).get(name)
    if isinstance(text, list):
        forms = form if isinstance(form, list) and len(form) == len(text) else [None] * len(text)
        return [Message.from_stored(item, item_form) for item, item_form in zip(text, forms, strict=True)]
    return Message.from_stored(text, form) if isinstance(text, str) else text


def join_sentences(texts: Iterable[str]) -> str:
    """Several sentences as one."""
    return functools.reduce(
        lambda first, second: Message("text.both", first=first, second=second) if first else second, texts, ""
    )
