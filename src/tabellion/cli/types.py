"""`tabellion types`: checks, lists and shows document types."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of
from tabellion.cli.options import Json, group
from tabellion.cli.type_files import check_file, report
from tabellion.models.strict import make_strict
from tabellion.reading.types import typefile

if TYPE_CHECKING:
    from tabellion.reading.types.doctype import DocumentType
    from tabellion.reading.types.field_spec import FieldSpec

SCHEMAS = ("json", "gemini", "openai", "form", "prompt", "hints")

types = group(
    help="Check, list and show document types: the YAML files that say which fields a kind of document has.",
    epilog="Examples: `tabellion types check types/lease.yaml` · `tabellion types list --json` · "
    "`tabellion types show invoice --schema openai`",
)


@types.command("check")
def check(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(help="Type files. [default: all in your folders]")] = None,
    json: Json = False,
) -> None:
    """List every error in a type file, by line and column, with the fix.

    Exits with 3 if there is an error, with 5 if a file cannot be read.

    Examples:

        tabellion types check types/lease.yaml

        tabellion types check --json | jq '.[].mistakes[]'
    """
    folders = config_of(context).types
    paths = files or [path for path in typefile.available(folders).values() if path.parent != typefile.SHIPPED]
    none = f"no type files in {', '.join(str(folder) for folder in folders)}"
    report([_check_file(path) for path in paths], ("fields", "rules"), none, json=json)


def _check_file(path: Path) -> dict[str, Any]:
    return check_file(path, typefile.read, _summary)


@types.command("list")
def list_(context: typer.Context, json: Json = False) -> None:
    """List the document types: your own first, then the built-in ones.

    Examples:

        tabellion types list
    """
    columns = ("name", "version", "title", "fields", "rules")
    listed = []
    for name, path in typefile.available(config_of(context).types).items():
        result = _check_file(path)
        problem = result["error"] or f"{len(result['mistakes'])} errors: tabellion types check {path}"
        entry = {"name": name, "version": "", "title": "", "fields": None, "rules": None} | result.get("type", {})
        entry["from"] = "shipped" if path.parent == typefile.SHIPPED else str(path)
        listed.append(entry | {"wrong": None if result["ok"] else problem})
    if json:
        output.as_json(listed)
        return
    rows = [[*(entry[column] for column in columns), entry["wrong"] or entry["from"]] for entry in listed]
    output.show(output.table("", (*columns, "from"), rows))


@types.command("show")
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A type's name, or the path of its file.")],
    schema: Annotated[str | None, typer.Option(help=f"What it compiles to: {', '.join(SCHEMAS)}.")] = None,
    json: Json = False,
) -> None:
    """Show one document type: its fields and rules, or what it compiles to.

    Examples:

        tabellion types show invoice

        tabellion types show invoice --schema gemini
    """
    if schema is not None and schema not in SCHEMAS:
        raise typer.BadParameter(f"--schema is one of {', '.join(SCHEMAS)}")
    doctype = typefile.load(name, config_of(context).types)
    if schema == "prompt" and not json:
        typer.echo(doctype.prompt())
    elif schema is not None:
        output.as_json(_compile_schema(doctype, schema))
    elif json:
        output.as_json(_whole(doctype))
    else:
        _show(doctype)


def _compile_schema(doctype: DocumentType, schema: str) -> Any:
    if schema == "form":
        return doctype.form()
    if schema == "prompt":
        return {"prompt": doctype.prompt()}
    if schema == "hints":
        return {name: asdict(hint) for name, hint in doctype.hints().items()}
    json_schema = doctype.json_schema(quotes=schema != "json")
    return make_strict(json_schema) if schema == "openai" else json_schema


def _summary(doctype: DocumentType) -> dict[str, Any]:
    return {
        "name": doctype.name, "version": doctype.version, "title": doctype.title, "digest": doctype.digest,
        "fields": len(doctype.fields), "rules": len(doctype.rules),
    }  # fmt: skip


def _whole(doctype: DocumentType) -> dict[str, Any]:
    rules = [
        {"name": rule.name, "rule": rule.text, "tolerance": rule.tolerance, "severity": rule.severity,
         "message": rule.message, "fields": list(rule.fields)}
        for rule in doctype.rules
    ]  # fmt: skip
    sections = {key: asdict(getattr(doctype, key)) for key in ("idempotency", "output", "processing", "locale")}
    return _summary(doctype) | {
        "description": doctype.description, "file": doctype.file, "fields": [asdict(field) for field in doctype.fields],
        "rules": rules, "recognise": doctype.recognise, **sections,
    }  # fmt: skip


def _limits(field: FieldSpec) -> str:
    bounds = [f"{sign} {bound}" for sign, bound in (("≥", field.least), ("≤", field.most)) if bound is not None]
    options = ", ".join(field.options)
    if len(options) > 60:
        options = f"{len(field.options)} options"
    return ", ".join(limit for limit in (*bounds, field.pattern, options) if limit)


def _show(doctype: DocumentType) -> None:
    rows: list[tuple[Any, ...]] = []
    for field in doctype.fields:
        rows.append((field.name, field.kind, "yes" if field.required else "", field.threshold, _limits(field)))
        rows += [(f"  .{column.name}", column.kind, "yes" if column.required else "", "", "") for column in field.items]
    rules = [(rule.name, rule.severity, rule.text) for rule in doctype.rules]
    title = f"{doctype.name} {doctype.version}: {doctype.description or doctype.title}"
    output.show(
        output.table(title, ("field", "type", "required", "threshold", "limits"), rows),
        output.table("", ("rule", "severity", "holds when"), rules),
    )
