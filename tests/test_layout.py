"""The house rules that a program can check: layers, sizes, names, public names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tabellion
from tests.glossary import glossary

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tabellion"
#: Lower layers first, packages and modules of one layer on one line: a layer imports itself and those above this line.
LAYERS = [
    "answers",
    "messages",
    "errors",
    "extras",
    "net",
    "engine",
    "storage",
    "delivery",
    "reading",
    "models",
    "accounts",
    "monitor testing",
    "web config config_keys config_values document pipeline retention sla",
    "cli celery __init__ __main__",
    "extractions",
    "pipelines",
]
LAYER = {name: place for place, names in enumerate(LAYERS) for name in names.split()}
LONGEST = 400
FORBIDDEN = re.compile(r"(Manager|Service|Helper|Util|Processor|Coordinator|Orchestrator|Common)")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def imports(tree: ast.AST, *, for_types: bool = True) -> Iterator[str]:
    """The modules of tabellion that are imported anywhere, or with `for_types=False` anywhere that is run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "an import names the whole module"
            yield from (
                f"{node.module}.{alias.name}" for alias in node.names if f"{node.module}.".startswith("tabellion.")
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tabellion."))
        elif for_types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from imports(node, for_types=for_types)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_downward(path: Path) -> None:
    """A module imports only its own layer and those below it."""
    own = LAYER[path.relative_to(SOURCE).with_suffix("").parts[0]]
    for target in imports(ast.parse(path.read_text())):
        name = target.split(".")[1]
        # A name of the package itself, such as its version, is in no layer.
        assert LAYER.get(name, 0) <= own, f"{path.name} imports {target}"


def test_every_module_has_a_layer() -> None:
    """A new package or module at the top must be placed in LAYERS."""
    top = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert top == set(LAYER)


def test_no_modules_import_each_other() -> None:
    """Imports form no cycle, also if those within functions are counted: these would only hide it."""
    paths = {module_name(path): path for path in modules()}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        targets = imports(ast.parse(path.read_text()), for_types=False)
        graph[name] = {target if target in paths else target.rpartition(".")[0] for target in targets} & paths.keys()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import each other: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("path", sorted((SOURCE / "pipelines").rglob("*.py")), ids=str)
def test_no_pipeline_imports_another(path: Path) -> None:
    """What two of them need is below both."""
    own = path.relative_to(SOURCE / "pipelines").parts[0]
    for target in imports(ast.parse(path.read_text())):
        parts = target.split(".")
        assert parts[1] != "pipelines" or parts[2] == own, f"{path.name} imports {target}"


@pytest.mark.parametrize("path", sorted((SOURCE / "pipelines").rglob("*.py")), ids=str)
def test_no_pipeline_uses_files_of_another(path: Path) -> None:
    """Neither a path that is put together nor a text with one names the folder of another pipeline."""
    own = path.relative_to(SOURCE / "pipelines").parts[0]
    others = [one.name for one in (SOURCE / "pipelines").iterdir() if one.is_dir() and one.name != own]
    for node in ast.walk(ast.parse(path.read_text())):
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else [node]
        for text in [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]:
            assert len(parts) == 1 or text.split("/")[0] not in others, f"{path.name}: {text}"
            assert not re.search(rf"pipelines[./](?:{'|'.join(others)})\b", text), f"{path.name}: {text}"


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
