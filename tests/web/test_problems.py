"""Problems: their codes are declared and have a meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tabellion
from tabellion import messages
from tabellion.installed_pipelines import installed_pipelines
from tabellion.web.blueprint import with_shared
from tabellion.web.problems import CODES, Problem

SOURCE = Path(tabellion.__file__).parent


def raised_codes(folder: Path) -> Iterator[str]:
    """The codes of the problems that modules raise."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem" and len(node.args) > 1:
                codes = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
                yield from map(str, codes[1:])


@pytest.mark.parametrize("folder", ["web", "extractions", *(f"pipelines/{name}" for name in installed_pipelines())])
def test_every_code_that_is_raised_is_declared(folder: str) -> None:
    """Among those of every installation, or in the blueprint of the pipeline that raises it."""
    pipeline = installed_pipelines().get(folder.rpartition("/")[2])
    blueprint = pipeline.blueprint() if pipeline is not None else None
    declared = {code for part in with_shared([blueprint] if blueprint else []) for code in part.problems}
    assert set(raised_codes(SOURCE / folder)) <= {*CODES, *declared}


def test_every_declared_code_has_a_meaning() -> None:
    """In the catalogues of the pipeline that declares it."""
    parts = with_shared(part for one in installed_pipelines().values() if (part := one.blueprint()) is not None)
    codes = [*CODES, *(code for part in parts for code in part.problems)]
    assert len(codes) == len(set(codes))
    assert [code for code in codes if not messages.is_known(f"problem.{code}")] == []


def test_a_code_without_a_meaning_is_refused() -> None:
    """With what to add."""
    with pytest.raises(ValueError, match=r"no catalogue has problem\.checksum_busy"):
        Problem(409, "checksum_busy")


def is_sentence(text: ast.expr) -> bool:
    """Whether an expression contains a sentence that is not the code or a parameter of a message."""
    if isinstance(text, ast.BoolOp):
        return any(map(is_sentence, text.values))
    if isinstance(text, ast.IfExp):
        return is_sentence(text.body) or is_sentence(text.orelse)
    if isinstance(text, ast.BinOp):
        return is_sentence(text.left) or is_sentence(text.right)
    return isinstance(text, ast.JoinedStr) or (isinstance(text, ast.Constant) and bool(text.value))


def plain_sentences(source: str) -> Iterator[int]:
    """The lines with a detail or fix of a problem that is a sentence, not a message."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and "Problem" in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
            named = [keyword.value for keyword in node.keywords if keyword.arg in ("detail", "fix")]
            yield from (text.lineno for text in [*node.args[2:3], *named] if is_sentence(text))


def test_details_and_fixes_are_messages() -> None:
    """Pages in another language show them in theirs: no problem has a sentence in its code."""
    paths = [path for path in SOURCE.rglob("*.py") if list(plain_sentences(path.read_text()))]
    assert [f"{path.relative_to(SOURCE)}:{line}" for path in paths for line in plain_sentences(path.read_text())] == []


@pytest.mark.parametrize(
    "text", ['"gone"', 'f"{n} gone"', '"gone" if n else Message("x")', 'reason or "gone"', '"gone: " + reason']
)
def test_a_sentence_in_a_problem_is_noticed(text: str) -> None:
    """As its detail and as its fix, by position or by name."""
    calls = [f'Problem(404, "file_gone", {text})', f'Problem(404, "file_gone", detail={text})',
             f'problems.Problem(404, "file_gone", Message("x"), fix={text})']  # fmt: skip
    assert [list(plain_sentences(call)) for call in calls] == [[1], [1], [1]]
