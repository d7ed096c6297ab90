"""Messages: a code, its parameters, and a sentence in every language; none missing, none left over."""

from __future__ import annotations

import ast
import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

import tabellion
from tabellion import messages
from tabellion.errors import Permanent
from tabellion.installed_pipelines import installed_pipelines
from tabellion.messages import (
    LANGUAGES,
    Message,
    catalogue,
    join_sentences,
    quote_value,
    restore_text,
    translatable,
    translate,
)
from tabellion.web.pages import static

PACKAGES = {"tabellion", *(package for one in installed_pipelines().values() for package in one.catalogues)}
CATALOGUES = sorted(path for one in PACKAGES for path in (Path(str(files(one))) / "locale").glob("*/*.po"))
SOURCES = sorted(Path(tabellion.__file__).parent.rglob("*.py"))
FOLDERS = [Path(str(files(one))) for one in static.packages()]
PAGES = [path for one in FOLDERS for path in (*one.glob("pages/*.py"), *one.glob("pages.py"), *one.glob("routes/*.py"))]
HOLE = re.compile(r"\{(\w+)\}")
SAID = re.compile(r"""\b(?:t|textOr)\(\s*["'`]([a-z_]+\.[a-z_0-9.]+)["'`]\s*[,)]""")
#: Beginnings of codes whose ends are values: `t("base.role_" ~ role)`, t(`base.role_${role}`).
MADE = re.compile(r"""\b(?:t|textOr)\(\s*["'`]([a-z_]+\.[a-z_0-9.]*)(?:["']\s*[~+]|\$\{)""")
BEGUN = re.compile(r"""["'`]([a-z_]+\.[a-z_0-9]+_)["'`]""")


def holes(template: messages.MessageTemplate) -> set[str]:
    return set(HOLE.findall(template if isinstance(template, str) else " ".join(template)))


def scripts() -> list[Path]:
    found = [path for one in FOLDERS for path in (*one.glob("templates/*.html"), *one.glob("static/*.js"))]
    return sorted(found)


# -- the catalogues ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: f"{path.parts[-4]}-{path.parts[-2]}-{path.stem}")
def test_a_catalogue_is_valid_gettext(path: Path) -> None:
    """Babel reads the same entries as we do, each once, with two plural forms or none."""
    theirs: dict[str, messages.MessageTemplate] = {}
    for entry in read_po(BytesIO(path.read_bytes()), abort_invalid=True):
        if entry.id:
            code = entry.id if isinstance(entry.id, str) else entry.id[0]
            text = entry.string or ""
            theirs[code] = text if isinstance(text, str) else (text[0], text[1])
    ours = list(messages.read_catalogue(path.read_text(encoding="utf-8")))
    assert dict(ours) == theirs
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("domain", ["messages", "pages"])
def test_every_language_has_the_same_codes(domain: str) -> None:
    """With the same parameters, and as many forms where something is counted."""
    english = messages.domain("en", domain)
    for language in LANGUAGES:
        found = messages.domain(language, domain)
        assert found.keys() == english.keys()
        for code, template in found.items():
            assert holes(template) == holes(english[code]), (language, code)
            assert isinstance(template, str) == isinstance(english[code], str), (language, code)
            assert all(one.strip() for one in ([template] if isinstance(template, str) else template))


def test_a_catalogue_is_read_with_its_markers() -> None:
    """Texts over several lines, plural forms and comments; fuzzy and obsolete entries are ignored."""
    text = """# A comment.
msgid ""
msgstr ""
"Language: en\\n"

#. for translators
msgid "a.long"
msgstr ""
"first \\"part\\", "
"second part"

msgid "a.count"
msgid_plural "a.count"
msgstr[0] "{n} day"
msgstr[1] "{n} days"

#, fuzzy
msgid "a.guess"
msgstr "perhaps"

#~ msgid "a.gone"
#~ msgstr "gone"
"""
    assert dict(messages.read_catalogue(text)) == {
        "a.long": 'first "part", second part', "a.count": ("{n} day", "{n} days"),
    }  # fmt: skip


def test_french_punctuation_has_no_break_spaces() -> None:
    """No line ends before a punctuation mark."""
    loose = re.compile(" [:;?!%»]|« ")
    texts = [
        one for template in catalogue("fr").values() for one in ([template] if isinstance(template, str) else template)
    ]
    assert not [text for text in texts if loose.search(text)]


def test_a_module_of_a_pipeline_has_its_messages_without_the_registry() -> None:
    """A program may import it directly: the registry is loaded for the first code that no catalogue has."""
    code = "from tabellion.pipelines.documents.review.rejection import REJECTIONS; print(REJECTIONS['not_ours'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "It is not addressed to us\n"


# -- what the code says --------------------------------------------------------------------------------------------


def said_in_code() -> Iterator[tuple[Path, ast.Call]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Message" and node.args:
                yield path, node


def test_the_code_uses_only_existing_messages() -> None:
    """Every code of a message is in the catalogue, with exactly the given parameters."""
    count = 0
    for path, call in said_in_code():
        code = call.args[0]
        if not (isinstance(code, ast.Constant) and isinstance(code.value, str)):
            continue
        count += 1
        where = f"{path.name}:{call.lineno} {code.value}"
        assert code.value in messages.domain("en", "messages"), where
        given = {one.arg for one in call.keywords if one.arg is not None}
        wanted = holes(messages.domain("en", "messages")[code.value])
        if all(one.arg is not None for one in call.keywords):
            assert given - {"n"} == wanted - {"n"}, where
        else:
            assert given <= wanted, where
    assert count > 200


#: Errors for whoever installs, declares or programs: what they say is in English, like the code and its documentation.
TECHNICAL = {
    "BadQuery", "BadSignature", "BrokerUnreachable", "ConfigurationError", "DeclarationError", "LeaseLost", "StoreError"
}  # fmt: skip


def has_words(text: ast.expr) -> bool:
    """Whether an argument is a text with words in it, other than a message."""
    if isinstance(text, ast.JoinedStr):
        return any(map(has_words, text.values))
    if isinstance(text, ast.IfExp | ast.BoolOp | ast.BinOp):
        return any(has_words(node) for node in ast.iter_child_nodes(text) if isinstance(node, ast.expr))
    return isinstance(text, ast.Constant) and bool(re.search("[a-z]{2} | [a-z]{2}", str(text.value)))


def test_errors_that_people_see_are_messages() -> None:
    """What a job fails with is stored by its code, and shown in the language of the page."""
    trees = {path: ast.parse(path.read_text()) for path in SOURCES if not {"cli", "commands"} & {*path.parts}}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = {node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases} for node in classes}
    shown = {"TabellionError"}
    while more := {name for name in bases if bases[name] & shown} - shown - TECHNICAL:
        shown |= more
    calls = [(path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    plain = [
        f"{path.name}:{call.lineno}"
        for path, call in calls
        if ast.unparse(call.func).rpartition(".")[2] in shown and any(map(has_words, call.args))
    ]
    assert len(shown) > 60
    assert plain == []


def test_stored_errors_and_hints_are_messages() -> None:
    """So are the error of a settlement and what a request should have sent."""
    found = {
        str(path.relative_to(Path(tabellion.__file__).parent))
        for path in SOURCES
        if not {"cli", "commands"} & {*path.parts}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if (ast.unparse(node.func), keyword.arg) in {("Problem", "expected"), ("Settlement", "error")}
        and has_words(keyword.value)
    }
    assert found == set(), "use a Message"


def test_no_message_is_left_over() -> None:
    """Unused messages are removed from the catalogue."""
    text = "\n".join(path.read_text() for path in [*SOURCES, *scripts()])
    said = set(re.findall(r'"([a-z_]+\.[a-z0-9_]+)"', text))
    values = set(re.findall(r"""["']([A-Za-z0-9_]+)["']""", text))
    makers = re.findall(r'f"([a-z_]+\.[a-z0-9_]*)\{[^"]*\}([a-z0-9_]*)"', text)
    made = {f"{start}{value.lower()}{end}" for start, end in makers for value in values}
    left = messages.domain("en", "messages").keys() - said - made
    assert not {code for code in left if not code.startswith(("model.status_", "sla."))}


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.name)
def test_pages_use_only_existing_messages(path: Path) -> None:
    """Every code in a template or script is known, and for a composed code there are some with its prefix."""
    text = path.read_text()
    for code in SAID.findall(text):
        assert code in messages.domain("en", "pages"), code
    for start in MADE.findall(text):
        assert [code for code in messages.domain("en", "pages") if code.startswith(start)], start


def test_no_text_of_a_page_is_left_over() -> None:
    """Unused texts of pages are removed from the catalogue."""
    everything = "\n".join(path.read_text() for path in [*scripts(), *PAGES])
    starts = (*MADE.findall(everything), *BEGUN.findall(everything))
    unsaid = [
        code
        for code in messages.domain("en", "pages")
        if not re.search(rf"""["'`]{re.escape(code)}["'`]""", everything)
        and not code.startswith((*starts, "base.error_", "base.problem_", "fields."))
    ]
    assert not unsaid


def test_shipped_fields_have_titles() -> None:
    """Where their type's file gives none; and every title belongs to a field."""
    from tabellion.pipelines.documents.settings import Types

    wanted = set()
    for one in Types([]).all():
        wanted.add(f"fields.type.{one.name}")
        for field in [part for spec in one for part in (spec, *spec.items)]:
            if field.title == field.name.replace("_", " ").capitalize():
                wanted.add(f"fields.{field.name}")
    assert {code for code in messages.domain("en", "pages") if code.startswith("fields.")} == wanted


def test_shipped_rules_are_translated() -> None:
    """Every message of every shipped type."""
    from tabellion.pipelines.documents.settings import Types

    rules = [rule for one in Types([]).all() for rule in one.rules]
    assert len(rules) > 20
    assert all(rule.messages.keys() == LANGUAGES.keys() for rule in rules)


# -- a message -----------------------------------------------------------------------------------------------------


def test_a_message_is_its_english_text_with_a_code() -> None:
    """It passes through everything that accepts a string, and through an exception."""
    message = Message("attempt.timed_out", n=30.0)
    assert message == "timed out after 30 s"
    assert message.form == {"code": "attempt.timed_out", "params": {"n": 30.0}}
    error = str(Permanent(message))
    assert isinstance(error, Message)
    assert error.code == "attempt.timed_out"
    assert translate("fr", message.code, **message.params) == "délai dépassé après 30 s"


def test_a_message_may_contain_messages() -> None:
    """Each in its own language; numbers, lists, and texts by language too."""
    message = Message("gate.closed", value=quote_value("gemini"), detail=Message("gate.too_many_waiting"))
    assert message == "gate 'gemini' is closed: too many callers are waiting"
    assert translate("fr", message.code, **message.params).startswith("l’accès «\N{NO-BREAK SPACE}gemini")
    rule = Message("issue.rule", rule={"en": "It is wrong", "fr": "C’est faux"}, seen=["a", Decimal("1.50")])
    assert rule == "It is wrong (a, 1.50)"
    assert translate("fr", rule.code, **rule.params) == "C’est faux (a, 1.50)"
    assert (
        Message("unreadable.bytes_over_limit", n=12345678, limit=5) == "the file has 12,345,678 bytes; the limit is 5"
    )


def test_plurals() -> None:
    """In French zero is singular."""
    assert [translate("en", "base.days", n=n) for n in (0, 1, 2)] == ["0 days", "1 day", "2 days"]
    assert [translate("fr", "base.days", n=n) for n in (0, 1, 2)] == ["0 jour", "1 jour", "2 jours"]
    assert Message("value.rows", n=1) == "(1 row)"


def test_parameters_are_substituted_once() -> None:
    """What looks like a parameter in a value stays as it is."""
    assert translate("en", "people.added", name="{name} {role}") == "{name} {role} was added."


def test_a_message_survives_storing_copying_and_pickling() -> None:
    """With its code and parameters, those of nested messages too."""
    original = Message("note.page_failed", n=3, detail=Message("unreadable.page_damaged"))
    data = {"message": original, **translatable(message=original)}
    again = restore_text({"message": str.__str__(original), "translatable": data["translatable"]}, "message")
    for one in (again, copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert isinstance(one, Message)
        assert one == original
        assert one.form == original.form


def test_a_text_without_a_code_stays_a_text() -> None:
    """Texts of older versions and of providers; a list may mix both."""
    assert translatable(message="plain") == {}
    assert restore_text({"message": "plain"}, "message") == "plain"
    mixed = ["plain", Message("value.nothing")]
    data = {"reasons": list(map(str, mixed)), **translatable(reasons=mixed)}
    assert data["translatable"] == {"reasons": [None, {"code": "value.nothing", "params": {}}]}
    assert [getattr(one, "code", None) for one in restore_text(data, "reasons")] == [None, "value.nothing"]


def test_an_unknown_code_hides_nothing() -> None:
    """A row of a newer version is shown as it was written; a wrong code still shows its parameters."""
    assert (
        restore_text({"message": "as written", "translatable": {"message": {"code": "x.new"}}}, "message")
        == "as written"
    )
    assert Message("x.new", n=1) == 'x.new {"n": 1}'


@pytest.mark.parametrize(
    "form", [None, 5, [], {}, {"code": 5}, {"code": "value.nothing", "params": {"a": {"code": {}}}}]
)
def test_an_invalid_message_is_handled(form: object) -> None:
    """A compromised child may send anything."""
    assert restore_text({"message": "text", "translatable": {"message": form}}, "message") == "text"


def test_sentences_are_joined() -> None:
    """A single one stays as it is."""
    one, two = Message("value.nothing"), Message("gate.too_many_waiting")
    assert join_sentences([one]) is one
    assert join_sentences([one, two]) == "(nothing); too many callers are waiting"
