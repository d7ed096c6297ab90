"""`tabellion submit`: documents into the service, over HTTP or straight into its database."""

from __future__ import annotations

import asyncio
import glob
import json as json_module
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli.adminkey import path_in
from tabellion.cli.options import Json
from tabellion.cli.up import load_config
from tabellion.engine.log import printable
from tabellion.errors import ConfigurationError
from tabellion.pipelines.documents.commands.client import DirectClient, RemoteClient
from tabellion.pipelines.documents.local_files import SUFFIXES
from tabellion.pipelines.documents.lookup import ENDED

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.pipelines.documents.commands.client import Client

AT_ONCE = 4  #: files submitted at the same time
POLL = 0.5  #: seconds between two queries of the status


def submit(
    context: typer.Context,
    paths: Annotated[list[str], typer.Argument(help="Files, folders or patterns.", metavar="PATH")],
    type: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option("--type", "-t", help="The document type. [default: detected]")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model to read with. [default: local]")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            "-u",
            envvar="TABELLION_URL",
            help="Submit to a running server at this URL. [default: straight to the database]",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", envvar="TABELLION_KEY", help="API key for --url. [default: the one in the data folder]"),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="The data folder. [default: ./tabellion-data]")] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until every document has been processed.")] = False,
    json: Json = False,
) -> None:
    """Submit documents: files, folders, or a quoted pattern.

    Exit code 0 if all were accepted (with --wait: and read), 6 if some were not, 5 if none were.

    Examples:

        tabellion submit invoice.pdf scans/ --wait

        tabellion submit "archive/2025-*.pdf" --type invoice --json

        tabellion submit *.pdf --url http://127.0.0.1:8080
    """
    files = list(_documents(paths))
    if not files:
        raise typer.BadParameter("no documents found")
    config = load_config(context, data)
    if url is not None:
        key = key or _read_saved_key(config)
        if not key:
            raise ConfigurationError(
                f"{url} requires an API key: set TABELLION_KEY, or name its data folder with --data"
            )
    results = asyncio.run(_submit_files(config, files, type, model, url, key, wait, quiet=json))
    if json:
        typer.echo(json_module.dumps(results, ensure_ascii=False, indent=2))
    bad = sum(result["status"] in ("rejected", "failed") for result in results)
    if bad:
        raise typer.Exit(5 if bad == len(results) else 6)


def _documents(paths: Iterable[str]) -> Iterator[Path]:
    """The files, the documents in folders, and the matches of patterns, each once."""
    listed: set[Path] = set()
    for text in paths:
        path = Path(text)
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
        elif glob.has_magic(text) and not path.exists():
            found = sorted(Path(name) for name in glob.glob(text, recursive=True) if Path(name).is_file())
        else:
            found = [path]
        for file in found:
            if file not in listed:
                listed.add(file)
                yield file


def _read_saved_key(config: Config) -> str:
    try:
        return path_in(config.data).read_text().strip()
    except OSError:
        return ""


async def _submit_files(
    config: Config, files: Sequence[Path], type: str | None, model: str | None, url: str | None, key: str | None,  # noqa: A002
    wait: bool, *, quiet: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    client: Client = DirectClient(config) if url is None else RemoteClient(url, key or "")
    results: list[dict[str, Any]] = []
    turns = asyncio.Semaphore(AT_ONCE)

    async def submit_file(path: Path) -> dict[str, Any]:
        async with turns:
            return {"file": str(path), **await client.submit(path, type, model)}

    async with client:
        tasks = [asyncio.create_task(submit_file(path)) for path in files]
        try:
            for task in tasks:
                result = await task
                results.append(result)
                if not quiet and (not wait or result["status"] == "rejected"):
                    _print_result(result)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if wait:
            if (warning := await client.warning()) and not quiet:
                typer.echo(warning, err=True)
            await _wait_for_results(client, results, quiet=quiet)
    return results


async def _wait_for_results(client: Client, results: list[dict[str, Any]], *, quiet: bool) -> None:
    pending = {result["id"]: result for result in results if "id" in result}
    while pending:
        for id_, state in (await client.states(list(pending))).items():
            if state["status"] in ENDED:
                result = pending.pop(id_)
                result.update(state)
                if not quiet:
                    _print_result(result)
        if pending:
            await asyncio.sleep(POLL)


def _print_result(result: dict[str, Any]) -> None:
    error = result.get("error") or {}
    reason = f"{error.get('code', '')}: {error.get('message', '')}" if error else ""
    original = f"of {result['duplicate_of']}" if result.get("duplicate_of") else ""
    parts = (result["status"].ljust(10), result.get("id", "").ljust(26), printable(result["file"]), original, reason)
    typer.echo("  ".join(part for part in parts if part.strip()))
