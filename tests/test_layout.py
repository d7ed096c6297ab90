"""The house rules that a program can check: layers, sizes, names, public names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import tabellion
from tabellion.engine.schema import Schema
from tests.glossary import glossary
from tests.table_writers import changed_tables, module_names

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
    "web config config_keys config_values document installed_pipelines pipeline retention sla",
    "cli celery __init__ __main__",
    "extractions",
    "pipelines",
]
LAYER = {name: place for place, names in enumerate(LAYERS) for name in names.split()}
LONGEST = 400
#: The modules that change each table; a folder where several do. Schemas create and migrate them.
OWNERS = {
    "batch_callbacks": "pipelines/batches/receiving.py pipelines/batches/retention.py",
    "batch_chunks": "pipelines/batches/chunk_rows.py",
    "batch_entities": "pipelines/batches/entity_versions.py",
    "batch_pis": "pipelines/batches/entity_rows.py",
    "batch_refs": "pipelines/batches/ref_rows.py",
    "batch_versions": "pipelines/batches/entity_versions.py",
    "batches": "pipelines/batches/batch_rows.py",
    "extraction_queue": "extractions/lookup.py",
    **dict.fromkeys(
        ("rdprm_searches", "search_sessions", "tabellion_registry_companies", "tabellion_registry_statements"),
        "pipelines/registries",
    ),
    "tabellion_api_keys": "accounts/keys.py",
    "tabellion_attempts": "engine",
    "tabellion_audit_head": "accounts/audit.py",
    "tabellion_audit_log": "accounts/audit.py",
    "tabellion_counts": "engine/register_tables.py engine/counts.py",
    "tabellion_documents": "pipelines/documents/states.py",
    "tabellion_extracted_fields": "pipelines/documents/extracted_fields.py",
    "tabellion_field_decisions": "pipelines/documents/review/decisions.py",
    "tabellion_gates": "engine/gates/row.py",
    "tabellion_idempotency_keys": "web/idempotency.py",
    "tabellion_leftovers": "engine/retention.py",
    "tabellion_memos": "engine/memo.py engine/memos_retention.py",
    "tabellion_processed_documents": "pipelines/documents/processed_documents.py",
    "tabellion_queues": "engine/control_rows.py",
    "tabellion_retention": "engine/retention.py",
    "tabellion_review_drafts": "pipelines/documents/review/drafts.py",
    "tabellion_review_items": "pipelines/documents/review/item_changes.py",
    "tabellion_secrets": "accounts/shared_secrets.py",
    "tabellion_sessions": "accounts/session_rows.py",
    "tabellion_sign_in_links": "accounts/link_rows.py",
    "tabellion_sign_in_tries": "web/throttle.py",
    "tabellion_sla": "monitor/sla/alerts.py",
    "tabellion_snapshots": "monitor/hourly_snapshots.py monitor/snapshots_retention.py",
    "tabellion_superseded_outputs": "pipelines/documents/superseded.py",
    "tabellion_users": "accounts/users.py",
    "tabellion_webhook_deliveries": "delivery/deliveries.py delivery/deliveries_retention.py",
    "tabellion_webhook_endpoints": "delivery/endpoints.py",
    "tabellion_workers": "engine/worker/heartbeat.py",
    **dict.fromkeys(("website_analyses", "website_jobs"), "pipelines/websites"),
}
#: Names with several meanings, and the modules that define them. To be emptied, never extended. The `Schema` of a model
#: is documented for models of third parties, and `Step` is a former name that they may import.
SEVERAL_MEANINGS = {
    "Change": "pipelines/documents/review/editing.py pipelines/documents/states.py",
    "Document": "pipelines/documents/outputs.py pipelines/documents/routes/documents.py",
    "Fetch": "pipelines/documents/output_pointers.py pipelines/websites/site/robots.py",
    "Handler": "pipelines/batches/queues.py pipelines/documents/queues.py",
    "Id": (
        "pipelines/batches/commands/batches.py pipelines/batches/request.py pipelines/websites/routes/website_files.py"
    ),
    "Json": "cli/options.py pipelines/batches/commands/batches.py",
    "Kind": "pipelines/websites/analysis_type.py reading/sniff.py",
    "Name": "pipelines/documents/routes/review_bodies.py pipelines/websites/routes/websites.py",
    "Outcome": (
        "engine/settlement.py pipelines/batches/callbacks.py pipelines/documents/review/editing.py "
        "pipelines/websites/commands/following.py"
    ),
    "Part": "models/base.py pipelines/documents/review/priority.py",
    "Place": (
        "cli/options.py pipelines/batches/commands/batches.py pipelines/documents/review/editing.py "
        "pipelines/registries/waiting_line.py"
    ),
    "Progress": "pipelines/documents/compact.py pipelines/documents/export.py pipelines/websites/commands/following.py",
    "Reason": "pipelines/documents/review_reasons.py pipelines/websites/submit.py",
    "Rules": "net/guard.py pipelines/websites/rules/apply.py",
    "Schema": "engine/schema.py models/base.py",
    "State": "engine/sql.py pipelines/documents/review/fields.py pipelines/documents/row.py",
    "Status": "pipelines/documents/review/queue.py pipelines/documents/row.py",
    "StatusName": "extractions/routes/extractions.py pipelines/websites/routes/websites.py",
    "Step": "engine/retention.py pipelines/registries/profile.py",
    "Types": "pipelines/documents/export.py pipelines/documents/review/fields.py pipelines/documents/settings.py",
    "Word": (
        "extractions/routes/extractions.py extractions/routes/pages.py "
        "pipelines/documents/routes/documents.py pipelines/documents/routes/pages.py "
        "pipelines/websites/routes/pages.py reading/page.py"
    ),
    "Words": "pipelines/documents/page_words.py pipelines/documents/routes/review_bodies.py",
}
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


#: What a pipeline's name means elsewhere: a way to read a page, and an extra.
OTHER_MEANINGS = {"ocr": ("reading/", "cli/read.py"), "websites": ("extras.py",)}


def test_no_module_has_a_special_case_for_a_pipeline() -> None:
    """The name of a pipeline is a value below `pipelines` only: as a text of its own, or quoted within SQL."""
    names = [path.name for path in (SOURCE / "pipelines").iterdir() if (path / "pipeline.py").is_file()]
    assert names
    for path in modules():
        place = path.relative_to(SOURCE).as_posix()
        foreign = [name for name in names if not place.startswith(("pipelines/", *OTHER_MEANINGS.get(name, ())))]
        for node in ast.walk(ast.parse(path.read_text())):
            if foreign and isinstance(node, ast.Constant) and isinstance(node.value, str):
                is_in_sql = bool(re.search(rf"[=(,]\s*'({'|'.join(foreign)})'", node.value))
                assert not is_in_sql | (node.value in foreign), f"{place}:{node.lineno}: {node.value}"


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


def public_types(tree: ast.Module) -> Iterator[str]:
    """The public names in CapWords of a module's classes and of its aliases, however these are bound.

    A type variable has a meaning within its functions only.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
    blocks = [tree.body]
    while blocks:
        for node in blocks.pop():
            if isinstance(node, ast.If | ast.Try):
                blocks += [node.body, node.orelse]
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if type(node).__name__ == "TypeAlias":  # the statement `type`, since Python 3.12
                targets = [node.name]  # type: ignore[attr-defined]
            value = getattr(node, "value", None)
            if isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec"):
                continue
            for target in targets:
                if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", target.id):
                    yield target.id


def test_aliases_are_public_types_too() -> None:
    """However they are written; constants, private names and type variables are not."""
    source = """
Kind = Literal["a"]
Id = NewType("Id", str)
Level: TypeAlias = int
Colour = Enum("Colour", "RED")
if TYPE_CHECKING:
    Late = int
_Row = dict
LIMIT = 3
OCR = Literal["auto"]
Value = TypeVar("Value")
lower = int
class Box:
    Inner = int
"""
    assert set(public_types(ast.parse(source))) == {"Kind", "Id", "Level", "Colour", "Late", "Box"}


def test_one_name_means_one_type() -> None:
    """No two modules have a public class or alias of the same name."""
    found: dict[str, list[str]] = {}
    for path in modules():
        for name in sorted(set(public_types(ast.parse(path.read_text())))):
            found.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    several = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert several == {name: paths.split() for name, paths in SEVERAL_MEANINGS.items()}


def schemas() -> list[Schema]:
    """Every schema that a module of tabellion declares."""
    declaring = [
        name for name, path in module_names().items() if re.search(r"^\w*SCHEMA = Schema\(", path.read_text(), re.M)
    ]
    found = {
        id(one): one for name in declaring for one in vars(import_module(name)).values() if isinstance(one, Schema)
    }
    return list(found.values())


def writers() -> dict[str, set[str]]:
    """The modules that change each table, without those that create it."""
    found: dict[str, set[str]] = {}
    for name, path in module_names().items():
        if path.name != "tables.py":
            for table in changed_tables(name, path):
                found.setdefault(table, set()).add(str(path.relative_to(SOURCE)))
    return found


def test_every_table_has_an_owner() -> None:
    """Tables are changed only by their owners, which are all listed."""
    tables = {table for schema in schemas() for table in schema.tables}
    assert tables == OWNERS.keys()
    written = writers()
    for table, owners in OWNERS.items():
        by_owner = {
            owner: {path for path in written.get(table, ()) if path == owner or path.startswith(f"{owner}/")}
            for owner in owners.split()
        }
        assert written.get(table, set()) == set().union(*by_owner.values()), f"others change {table}"
        assert all(by_owner.values()), f"not every owner changes {table}"


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
