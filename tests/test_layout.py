"""The house rules that a program can check: layers, sizes, names, public names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tabellion
from tests.glossary import glossary

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tabellion"
#: Lower layers first: a layer imports itself and what stands before it.
LAYERS = [
    "net", "engine", "storage", "delivery", "reading", "models", "accounts", "monitor", "web", "cli", "extractions",
    "pipelines",
]  # fmt: skip
BESIDE = {
    "errors": "net",
    "extras": "net",
    "pipeline": "web",
    "config": "web",
    "config_keys": "web",
    "document": "web",
    "testing": "monitor",
    "__init__": "cli",
    "__main__": "cli",
}
LONGEST = 400
FORBIDDEN = re.compile(r"(Manager|Service|Helper|Util|Processor|Coordinator|Orchestrator|Common)")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def layer_of(path: Path) -> int:
    parts = path.relative_to(SOURCE).parts
    name = parts[0] if len(parts) > 1 else BESIDE[path.stem]
    return LAYERS.index(name)


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tabellion"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tabellion"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_downward(path: Path) -> None:
    """A module imports only its own layer and those below it."""
    for target in imports(ast.parse(path.read_text())):
        parts = target.split(".")
        if len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS.index(parts[1]) <= layer_of(path), f"{path.name} imports {target}"
        elif len(parts) > 1 and parts[1] in BESIDE:
            assert LAYERS.index(BESIDE[parts[1]]) <= layer_of(path), f"{path.name} imports {target}"


@pytest.mark.parametrize("path", sorted((SOURCE / "pipelines").rglob("*.py")), ids=str)
def test_no_pipeline_imports_another(path: Path) -> None:
    """What two of them need is below both."""
    own = path.relative_to(SOURCE / "pipelines").parts[0]
    for target in imports(ast.parse(path.read_text())):
        parts = target.split(".")
        assert parts[1] != "pipelines" or parts[2] == own, f"{path.name} imports {target}"


def test_no_module_of_the_engine_uses_http() -> None:
    """Network access is in `net`."""
    for path in (SOURCE / "engine").rglob("*.py"):
        found = re.findall(
            r"^\s*(?:import|from) (httpx2?|urllib\.request|http\.client|aiohttp)", path.read_text(), re.M
        )
        assert not found, path


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_states_its_job_and_stays_short(path: Path) -> None:
    """A module opens with one line saying its job and stays under the size limit."""
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring, f"{path} has no docstring"
    assert len(docstring.splitlines()[0]) <= 120
    assert len(text.splitlines()) <= LONGEST


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_class_is_named_after_a_vague_role(path: Path) -> None:
    """No class is a Manager, Service, Helper or the like."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            assert not FORBIDDEN.search(node.name), f"{path}: {node.name}"


def test_public_names_are_sorted_and_importable() -> None:
    """`__all__` is sorted, complete and importable."""
    assert tabellion.__all__ == sorted(tabellion.__all__)
    for name in tabellion.__all__:
        assert getattr(tabellion, name).__name__ == name


def test_the_glossary_has_every_public_noun() -> None:
    """Each public class is a noun of the glossary, and no noun is explained twice."""
    nouns = glossary()
    public = [name for name in tabellion.__all__ if inspect.isclass(getattr(tabellion, name))]
    spelled = [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize() for name in public]
    assert [name for name in spelled if name not in nouns] == []
    assert len(nouns) == len(set(nouns))


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    """The error names the unknown attribute."""
    with pytest.raises(AttributeError, match="Wroker"):
        _ = tabellion.Wroker


def test_every_test_states_its_behaviour() -> None:
    """Each test function has a docstring."""
    missing = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
            if is_test and not ast.get_docstring(node):  # type: ignore[arg-type]
                missing.append(f"{path.name}:{node.name}")  # type: ignore[attr-defined]
    assert not missing


def test_the_lock_names_no_address() -> None:
    """The locked requirements carry hashes and no URL, and uv.lock is not committed."""
    for lock in (ROOT / folder / "requirements.lock" for folder in (".", "bench", "docs")):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
    assert "uv.lock" in (ROOT / ".gitignore").read_text()
