"""`tabellion registry`: checks and lists profiles, runs the practice portal, lists and unlocks accounts."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tabellion import extras
from tabellion.cli import output
from tabellion.cli.load import config_of
from tabellion.cli.options import Json, group
from tabellion.engine.gates import row as gate_row
from tabellion.engine.log import printable
from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries import profile_file
from tabellion.pipelines.registries.account_files import AccountFile
from tabellion.pipelines.registries.settings import GATE, load_profile, portal_place, settings_of
from tabellion.reading.types.yamlnode import TypeFileError

MISTAKES, MISMATCH = 3, 5  #: exit codes

registry = group(
    help="Check profiles of registry sites, run the practice portal, list accounts.",
    epilog="Examples: `tabellion registry portal` · `tabellion registry check registre-foncier` · "
    "`tabellion registry accounts --json` · `tabellion registry unlock registre-foncier account-1`",
)


@registry.command("check")
def check(
    context: typer.Context,
    profile: Annotated[str, typer.Argument(help="A profile's name, or the path of its file.")],
    task: Annotated[str | None, typer.Option("--task", help="Only this task. [default: all]")] = None,
    account: Annotated[str | None, typer.Option("--account", help="The account. [default: the first]")] = None,
    screenshot: Annotated[
        Path | None, typer.Option("--screenshot", help="The file for the screenshot. [default: PROFILE-check.png]")
    ] = None,
    json: Json = False,
) -> None:
    """Run the tasks of a profile with its sample values, and report the first step that no longer matches.

    Mistakes in the file are listed with their lines first. Exits with 3 if there is one, with 5 if a step does not
    match; a screenshot shows the page as it was.

    Examples:

        tabellion registry check registre-foncier

        tabellion registry check registries/registre-foncier.yaml --task index --json
    """
    with extras.explain_missing("browser"):
        from tabellion.pipelines.registries.checking import check_profile

    config = config_of(context)
    try:
        found = load_profile(config, profile)
    except TypeFileError as error:
        if json:
            output.as_json(
                {"profile": profile, "ok": False, "mistakes": [asdict(mistake) for mistake in error.mistakes]}
            )
        else:
            for line in str(error).splitlines():
                typer.echo(printable(line), err=True)
        raise typer.Exit(MISTAKES) from None
    picture = screenshot or Path(f"{found.name}-check.png")
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(check_profile(config, found, Path(folder), picture, task=task, account=account))
    if json:
        output.as_json(report)
    else:
        for line in describe_report(report):
            typer.echo(printable(line))
    if not report["ok"]:
        raise typer.Exit(MISMATCH)


def describe_report(report: dict[str, Any]) -> list[str]:
    """The lines of a report for people."""
    lines = [f"{report['profile']}: {walk['task']}: {walk['steps']} steps match" for walk in report["walked"]]
    if report["ok"]:
        return [*lines, f"{report['profile']}: all tasks match ({report['seconds']:.1f} s)"]
    failed = report["failed"]
    lines.append(f"{report['file']}:{failed['line']}: {failed['task']}: {failed['step']}: {failed['detail']}")
    return [
        *lines,
        f"the page: {failed['url']}",
        *([f"screenshot: {failed['screenshot']}"] if failed["screenshot"] else []),
    ]


@registry.command("list")
def list_profiles(context: typer.Context, json: Json = False) -> None:
    """List profiles: your own first, then the built-in ones.

    Example: tabellion registry list --json
    """

    config = config_of(context)
    folders = config.section("registries").get("profiles", [str(profile_file.FOLDER)])
    rows: list[dict[str, Any]] = []
    for name, path in sorted(profile_file.find_files(folders).items()):
        try:
            found = load_profile(config, name)
            rows.append(
                {"profile": name, "tasks": sorted(found.tasks), "url": found.url, "file": str(path), "ok": True}
            )
        except ConfigurationError as error:
            rows.append({"profile": name, "tasks": [], "url": "", "file": str(path), "ok": False, "error": str(error)})
    if json:
        output.as_json(rows)
    else:
        shown = [(row["profile"], ", ".join(row["tasks"]), row["url"] or "mistakes", row["file"]) for row in rows]
        output.show(output.table("", ("profile", "tasks", "site", "file"), shown))


@registry.command("accounts")
def accounts(context: typer.Context, json: Json = False) -> None:
    """List accounts by name, and which of them their site has refused; user names and passwords are never shown.

    Example: tabellion registry accounts
    """

    settings = settings_of(config_of(context))
    rows = []
    for found in settings.accounts.values():
        for account in found:
            file = AccountFile(settings.folder, account)
            rows.append(
                {
                    "profile": account.site, "account": account.name, "gate": account.gate, "refused": file.refusal(),
                    "session": file.has_state,
                }
            )  # fmt: skip
    if json:
        output.as_json(rows)
    else:
        shown = [
            (row["profile"], row["account"], "yes" if row["session"] else "", row["refused"] or "") for row in rows
        ]
        output.show(output.table("", ("profile", "account", "signed in", "refused"), shown))


@registry.command("unlock")
def unlock(
    context: typer.Context,
    profile: Annotated[str, typer.Argument(help="The profile.")],
    account: Annotated[str, typer.Argument(help="The account, as `registry accounts` names it.")],
) -> None:
    """Use an account again after you unlocked it at its site.

    Example: tabellion registry unlock registre-foncier account-1
    """

    config = config_of(context)
    settings = settings_of(config)
    known = {candidate.name: candidate for candidate in settings.accounts.get(profile, ())}
    if account not in known:
        names = ", ".join(known) or "none"
        raise ConfigurationError(f"{profile} has no account {account!r}; known: {names}")
    found = known[account]
    was_refused = AccountFile(settings.folder, found).clear_refusal()

    async def reset() -> None:
        assert config.gates_at is not None  # noqa: S101 - a loaded configuration has one
        async with config.gates_at.store() as store:
            row = gate_row.GateRow(store, found.gate, config.gates.get(found.gate, GATE))
            await row.edit({}, reset=True)

    asyncio.run(reset())
    typer.echo(f"{found.gate} is used again" if was_refused else f"{found.gate} was not refused; its gate is open")


@registry.command("portal")
def portal(
    context: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="Port. [default: that of registries.portal]")
    ] = None,
) -> None:
    """Run the practice portal: three registries to develop profiles and test against, until Ctrl-C.

    `POST /_faults` makes it misbehave: {"maintenance": ["foncier"]}, {"popup": true}, {"slow": 2}.

    Example: tabellion registry portal --port 8077
    """
    extras.require("server")

    from tabellion.pipelines.registries.portal.data import ALWAYS_LOCKED, PASSWORDS
    from tabellion.pipelines.registries.portal.server import run_portal

    host, chosen = portal_place(config_of(context)) if port is None else ("127.0.0.1", port)
    with run_portal(chosen, host, fix="choose another --port") as running:
        typer.echo(f"the practice portal: {running.url}   press Ctrl-C to stop")
        for name, password in PASSWORDS.items():
            typer.echo(f"account {name}, password {password}" + (" (always locked)" if name == ALWAYS_LOCKED else ""))
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            typer.echo("stopped")
