"""`tabellion types`: document types checked, listed and shown."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of
from tabellion.engine.log import printable
from tabellion.errors import ConfigurationError
from tabellion.models.strict import strict
from tabellion.reading.types import typefile
from tabellion.reading.types.yamlnode import TypeFileError

if TYPE_CHECKING:
    from tabellion.reading.types.doctype import DocumentType, FieldSpec

SCHEMAS = ("json", "gemini", "openai", "form", "prompt", "hints")

types = typer.Typer(
    help="Check, list and show document types: the YAML files that say which fields a kind of document has.",
    epilog="Examples: `tabellion types check types/lease.yaml` · `tabellion types list --json` · "
    "`tabellion types show invoice --schema openai`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@types.command("check")
def check(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(help="Type files. [default: all in your folders]")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List every error in a type file, by line and column, with the fix.

    Exits with 3 if there is an error, with 5 if a file cannot be read.

    Examples:

        tabellion types check types/lease.yaml

        tabellion types check --json | jq '.[].mistakes[]'
    """

    folders = config_of(context).types
    paths = files or [path for path in typefile.available(folders).values() if path.parent != typefile.SHIPPED]
    results = [_check_file(path) for path in paths]
    if json:
        output.as_json(results)
    elif not results:
        typer.echo(f"no type files in {', '.join(str(folder) for folder in folders)}")
    else:
        for result in results:
            _tell(result)
    if any(result["error"] for result in results):
        raise typer.Exit(5)
    if any(result["mistakes"] for result in results):
        raise typer.Exit(3)


def _check_file(path: Path) -> dict[str, Any]:
    made: dict[str, Any] = {"file": str(path), "ok": False, "mistakes": [], "error": None}
    try:
        doctype = typefile.read(path)
    except TypeFileError as error:
        return made | {"mistakes": [asdict(mistake) for mistake in error.mistakes]}
    except ConfigurationError as error:
        return made | {"error": str(error)}
    return made | {"ok": True, "type": _summary(doctype)}


def _tell(result: dict[str, Any]) -> None:
    if result["error"]:
        typer.echo(f"error: {printable(result['error'])}", err=True)
    elif result["ok"]:
        made = result["type"]
        typer.echo(f"{result['file']}: ok, {made['name']} {made['version']}, "
                   f"{made['fields']} fields, {made['rules']} rules")  # fmt: skip
    for one in result["mistakes"]:
        typer.echo(f"{result['file']}:{one['line']}:{one['column']}: {printable(one['what'])}")
        if one["fix"]:
            first, *more = one["fix"].split("\n")
            for line in (f"   fix: {first}", *more):
                typer.echo(printable(line))


@types.command("list")
def list_(context: typer.Context, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the document types: your own first, then the built-in ones.

    Examples:

        tabellion types list
    """

    found = []
    for name, path in typefile.available(config_of(context).types).items():
        result = _check_file(path)
        wrong = result["error"] or f"{len(result['mistakes'])} errors: tabellion types check {path}"
        one = {"name": name, "version": "", "title": "", "fields": None, "rules": None} | result.get("type", {})
        one["from"] = "shipped" if path.parent == typefile.SHIPPED else str(path)
        found.append(one | {"wrong": None if result["ok"] else wrong})
    if json:
        output.as_json(found)
        return
    rows = [
        (one["name"], one["version"], one["title"], one["fields"], one["rules"], one["wrong"] or one["from"])
        for one in found
    ]
    output.show(output.table("", ("name", "version", "title", "fields", "rules", "from"), rows))


@types.command("show")
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A type's name, or the path of its file.")],
    schema: Annotated[str | None, typer.Option(help=f"What it compiles to: {', '.join(SCHEMAS)}.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
    made = doctype.json_schema(quotes=schema != "json")
    return strict(made) if schema == "openai" else made


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
        "description": doctype.description, "file": doctype.file, "fields": [asdict(one) for one in doctype.fields],
        "rules": rules, "recognise": doctype.recognise, **sections,
    }  # fmt: skip


def _limits(one: FieldSpec) -> str:
    bounds = [f"{sign} {bound}" for sign, bound in (("≥", one.least), ("≤", one.most)) if bound is not None]
    options = ", ".join(one.options)
    if len(options) > 60:
        options = f"{len(one.options)} options"
    return ", ".join(limit for limit in (*bounds, one.pattern, options) if limit)


def _show(doctype: DocumentType) -> None:
    rows: list[tuple[Any, ...]] = []
    for one in doctype.fields:
        rows.append((one.name, one.kind, "yes" if one.required else "", one.threshold, _limits(one)))
        rows += [(f"  .{column.name}", column.kind, "yes" if column.required else "", "", "") for column in one.items]
    rules = [(rule.name, rule.severity, rule.text) for rule in doctype.rules]
    title = f"{doctype.name} {doctype.version}: {doctype.description or doctype.title}"
    output.show(
        output.table(title, ("field", "type", "required", "threshold", "limits"), rows),
        output.table("", ("rule", "severity", "holds when"), rules),
    )
