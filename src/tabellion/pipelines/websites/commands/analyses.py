"""`tabellion analyses`: checks, lists and shows analysis types."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of
from tabellion.cli.options import Json, group
from tabellion.cli.type_files import check_file, report
from tabellion.pipelines.websites import analysis_type_file
from tabellion.pipelines.websites.analysis_type import AnalysisType
from tabellion.pipelines.websites.settings import settings_of

analyses = group(
    help="Check, list and show analysis types: the YAML files that say what is asked about a website.",
    epilog="Examples: `tabellion analyses check analyses/hiring.yaml` · `tabellion analyses list --json` · "
    "`tabellion analyses show profile`",
)


@analyses.command("check")
def check(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(help="Type files. [default: all in your folders]")] = None,
    json: Json = False,
) -> None:
    """Check analysis types and list every mistake with its line.

    Exits with 3 if there is a mistake, with 5 if a file cannot be read.

    Examples:

        tabellion analyses check

        tabellion analyses check analyses/hiring.yaml --json
    """
    folders = settings_of(config_of(context)).folders
    known = analysis_type_file.find_files(folders)
    paths = files or [path for path in known.values() if path.parent != analysis_type_file.SHIPPED]
    none = f"no analysis types in {', '.join(map(str, folders))}; the included ones are valid"
    report([_check_file(path) for path in paths], ("fields",), none, json=json)


@analyses.command("list")
def list_types(context: typer.Context, json: Json = False) -> None:
    """List the analysis types: your own first, then the built-in ones.

    Example: tabellion analyses list
    """
    rows = []
    for name, path in analysis_type_file.find_files(settings_of(config_of(context)).folders).items():
        result = _check_file(path)
        is_shipped = path.parent == analysis_type_file.SHIPPED
        facts = {"name": name, "version": "", "title": "", "fields": None, "models": [], **result.get("type", {})}
        rows.append(facts | {"from": "shipped" if is_shipped else str(path), "ok": result["ok"]})
    if json:
        output.as_json(rows)
        return
    shown = [
        (row["name"], row["version"], row["title"], row["fields"], ", ".join(row["models"]) or "as configured",
         row["from"] if row["ok"] else "mistakes: run `tabellion analyses check`")
        for row in rows
    ]  # fmt: skip
    output.show(output.table("", ("name", "version", "title", "fields", "models", "from"), shown))


@analyses.command("show")
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A type's name, or the path of its file.")],
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of the answers of models.")] = False,
    json: Json = False,
) -> None:
    """Show one analysis type: its fields, prompts and budget.

    Examples:

        tabellion analyses show profile

        tabellion analyses show profile --schema
    """
    kind = analysis_type_file.load(name, settings_of(config_of(context)).folders)
    if schema:
        output.as_json(kind.json_schema())
    elif json:
        output.as_json(asdict(kind))
    else:
        rows = [(spec.name, spec.kind, "yes" if spec.required else "", spec.description) for spec in kind.fields]
        title = f"{kind.name} {kind.version}: {kind.description() or kind.title()}"
        output.show(output.table(title, ("field", "type", "required", "description"), rows))
        typer.echo(f"budget: {kind.budget:,} tokens; rules: {kind.rules or 'none, it needs a model'}\n")
        typer.echo(f"system:\n{kind.system}\nuser:\n{kind.user}")


def _check_file(path: Path) -> dict[str, Any]:
    return check_file(path, analysis_type_file.read_file, _summarize)


def _summarize(kind: AnalysisType) -> dict[str, Any]:
    return {
        "name": kind.name, "version": kind.version, "title": kind.title(), "fields": len(kind.fields),
        "models": list(kind.models), "rules": kind.rules, "budget": kind.budget,
    }  # fmt: skip
