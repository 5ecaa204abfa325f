"""``claw mcp``: the configured servers, their tools, and the changes that wait for the operator."""

import json
from typing import Annotated, Any

import typer
from claw import ClawError, ConfigError, HttpClients, PluginConfig, UsageError, nearest, t
from claw.runtime import AsJson, command_host, document, load_setup, with_label

from claw_mcp import start
from claw_mcp.fleet import Fleet
from claw_mcp.offers import full_name
from claw_mcp.record import ServerRecord
from claw_mcp.settings import McpSettings, read_settings

mcp_app = typer.Typer(no_args_is_help=True, help="Show MCP servers and their tools, and accept changed ones.")
_COUNTED = "{count} tools, {held} withheld"
Names = Annotated[list[str] | None, typer.Argument(help="Names of servers; default: all.")]


@mcp_app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the configured servers, with the number of tools and of withheld tools of each. Starts no server."""
    _, settings, fleet = _open_fleet()
    states = {name: _state(name, settings, fleet) for name in settings.mcp_servers}
    rows = [_row(name, settings, fleet) for name in settings.mcp_servers]
    if as_json:
        document("mcpServers", {"servers": rows})
        return
    for row in rows:
        template, values = states[row["name"]]
        typer.echo(f"{row['name']}  {t(template, **values)}  {row['where']}")
        if row["why"]:
            typer.echo(f"    {row['why']}")
        if row["withheld"]:
            names = ", ".join(f"{offer['name']} ({offer['why']})" for offer in row["withheld"])
            typer.echo("    " + t("withheld: {names}", names=names))
            typer.echo("    " + t("run: {command}", command=f"claw mcp show {row['name']}"))
            typer.echo("    " + t("run: {command}", command=f"claw mcp accept {row['name']}"))
    if not start.has_sdk() and (fault := start.server_fault(settings, fleet)):
        typer.echo(str(fault))
    if not rows:
        typer.echo(t("no server is configured (mcpServers)"))


@mcp_app.command()
def show(server: str, as_json: AsJson = False) -> None:
    """Show the tools of a server, word for word as a model reads them. ``!`` marks withheld ones."""
    _, settings, fleet = _open_fleet()
    _known(server, settings)
    record = fleet.record(server)
    held = {offer.name: why for offer, why in record.withheld}
    if as_json:
        offers = [
            {
                "name": offer.name,
                "tool": full_name(server, offer.name),
                "description": offer.description,
                "parameters": dict(offer.parameters),
                "effects": offer.effects,
                "withheld": held.get(offer.name, ""),
            }
            for offer in record.offers
        ]
        document("mcpServer", {"name": server, "offers": offers})
        return
    for offer in record.offers:
        mark = "! " + with_label(held[offer.name], "") if offer.name in held else ""
        typer.echo(f"{mark}{full_name(server, offer.name)}")
        for line in (*offer.description.splitlines(), json.dumps(dict(offer.parameters), ensure_ascii=False)):
            typer.echo(f"    {line}")


@mcp_app.command()
def accept(
    server: str,
    tools: Annotated[list[str] | None, typer.Argument(help="Names of tools; default: all that wait.")] = None,
    as_json: AsJson = False,
) -> None:
    """Accept the present tools of a server, and use them."""
    _, settings, fleet = _open_fleet()
    _known(server, settings)
    before = fleet.record(server)
    waiting = [offer.name for offer, _ in before.withheld]
    bare = [name.removeprefix(f"{server}__") for name in tools or ()]
    if strange := [name for name in bare if name not in waiting]:
        listed = ", ".join(waiting) or t("nothing")
        raise UsageError(
            "{name} does not wait for acceptance", fix="waiting: {listed}", name=strange[0], listed=listed
        )
    after = fleet.accept(server, bare)
    now = {offer.name for offer in after.visible} & set(waiting)
    if as_json:
        document("mcp-accepted", {"server": server, "tools": sorted(now)})
    else:
        typer.echo(t("accepted: {names}", names=", ".join(sorted(now))) if now else t("nothing waits"))


@mcp_app.command()
def refresh(servers: Names = None, as_json: AsJson = False) -> None:
    """Connect to the servers and record their tools. Exit code 1: a server could not be reached."""
    config, settings, fleet = _open_fleet()
    for name in servers or ():
        _known(name, settings)
    names = servers or list(settings.servers)
    failed = start.connect(config, settings, names)
    command_host().ask("mcp")  # which records, for every other command, whether the plugin has a fault now
    if as_json:
        rows = [_refreshed(name, fleet.record(name), failed.get(name)) for name in names]
        document("mcp-refreshed", {"servers": rows})
    for name in () if as_json else names:
        record = fleet.record(name)
        if name not in failed:
            typer.echo(with_label(name, t(_COUNTED, **_counts(record))))
            if record.withheld:
                typer.echo("  " + t("run: {command}", command=f"claw mcp show {name}"))
                typer.echo("  " + t("run: {command}", command=f"claw mcp accept {name}"))
            continue
        why = failed[name]
        typer.echo(_sentence(why), err=True)
        for line in getattr(why, "said", ())[-6:]:
            typer.echo(f"  | {line}", err=True)
        for command in start.fixes(name, settings.servers[name], why):
            typer.echo("  " + t("run: {command}", command=command), err=True)
    raise typer.Exit(1 if failed else 0)


def _refreshed(name: str, record: ServerRecord, failure: Any) -> dict[str, Any]:
    return {
        "name": name, "tools": [offer.name for offer in record.visible],
        "waiting": [offer.name for offer, _ in record.withheld], "error": _sentence(failure) if failure else "",
    }  # fmt: skip


def _sentence(why: ClawError) -> str:
    """Return what is wrong with a server; of a key of the config file, the key and the fix too."""
    return str(why) if isinstance(why, ConfigError) else why.problem


def _open_fleet() -> tuple[PluginConfig, McpSettings, Fleet]:
    whole_config = load_setup().config
    config = PluginConfig(whole_config, "mcp", HttpClients().client, whole_config.home / "plugins" / "mcp")
    settings = read_settings(config)
    return config, settings, start.fleet(config, settings)


def _known(name: str, settings: McpSettings) -> None:
    if name in settings.servers:
        return
    if name in settings.mcp_servers:
        raise UsageError("the MCP server {name} is disabled", name=name)
    near = nearest(name, settings.servers)
    raise UsageError(
        "no MCP server is called {name}",
        fix="did you mean {near}?" if near else "claw mcp list shows them",
        name=name,
        near=near,
    )


def _row(name: str, settings: McpSettings, fleet: Fleet) -> dict[str, Any]:
    server = settings.mcp_servers[name]
    record = fleet.record(name) if not server.disabled else ServerRecord("")
    template, values = _state(name, settings, fleet)
    return {
        "name": name,
        "state": template.format(**values),
        "where": server.url or " ".join((server.command or "", *server.args)),
        "known": record.known,
        "why": str(server.folder_fault(name) or record.why),
        "tools": [full_name(name, offer.name) for offer in record.visible],
        "withheld": [{"name": full_name(name, offer.name), "why": why} for offer, why in record.withheld],
    }


def _state(name: str, settings: McpSettings, fleet: Fleet) -> tuple[str, dict[str, int]]:
    """Return the English template and its values; documents have it in English."""
    if settings.mcp_servers[name].disabled:
        return "disabled", {}
    record = fleet.record(name)
    return (_COUNTED, _counts(record)) if record.known else ("not reached yet", {})


def _counts(record: ServerRecord) -> dict[str, int]:
    return {"count": len(record.visible), "held": len(record.withheld)}
