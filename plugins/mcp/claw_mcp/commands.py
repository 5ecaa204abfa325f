"""``claw mcp``: the configured servers, their tools, and the changes that wait for the operator."""

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import ClawError, ConfigError, HttpClients, PluginConfig, UsageError, nearest, t
from claw.runtime import (
    AsJson,
    Config,
    command_host,
    definition_tokens,
    document,
    load_setup,
    printable,
    with_label,
)
from claw_config_sdk import file_of, set_value, unset_value

from claw_mcp import start
from claw_mcp.environment import SERVERS, install_server, remove_server
from claw_mcp.fleet import Fleet
from claw_mcp.login import log_in
from claw_mcp.offers import full_name, known_names
from claw_mcp.plugin_servers import read_settings
from claw_mcp.prompts import Arguments, Prompt, prompt_text
from claw_mcp.record import ServerRecord
from claw_mcp.serve import serve
from claw_mcp.settings import NAME_RULE, McpSettings, is_name

mcp_app = typer.Typer(
    no_args_is_help=True, help="Add, show and remove MCP servers, log in at them, and accept changed tools."
)
_COUNTED = "{count} tools, {held} withheld"
Headers = Annotated[
    list[str] | None,
    typer.Option(help="'Name: value', sent with each request; write a secret as '${VARIABLE}'."),
]
Variables = Annotated[
    list[str] | None, typer.Option(help="NAME=value for the program; NAME alone = claw's own variable.")
]
Names = Annotated[list[str] | None, typer.Argument(help="Names of servers; default: all.")]


@mcp_app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the configured servers, with the number of tools and of withheld tools of each. Starts no server."""
    config, settings, fleet = _open_fleet()
    states = {name: _state(name, settings, fleet) for name in settings.mcp_servers}
    rows = [_row(name, settings, fleet) for name in settings.mcp_servers]
    if as_json:
        document("mcpServers", {"servers": rows})
        return
    for row in rows:
        template, values = states[row["name"]]
        source = t(", of the plugin {plugin}", plugin=row["plugin"]) if row["plugin"] else ""
        typer.echo(f"{row['name']}  {t(template, **values)}  {row['where']}{source}")
        if row["why"]:
            typer.echo(f"    {row['why']}")
        if row["login"] == "needed":
            typer.echo("    " + t("run: {command}", command=f"claw mcp login {row['name']}"))
        if row["withheld"]:
            names = [f"{offer['name']} ({offer['why']})" for offer in row["withheld"]]
            typer.echo("    " + t("withheld: {names}", names=names))
            typer.echo("    " + t("run: {command}", command=f"claw mcp show {row['name']}"))
            typer.echo("    " + t("run: {command}", command=f"claw mcp accept {row['name']}"))
    if not start.has_sdk() and (fault := start.server_fault(settings, fleet)):
        typer.echo(str(fault))
    for wrong in config.faults:
        typer.echo(str(wrong))
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
            typer.echo(f"    {printable(line)}")


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
        listed = [*waiting] or t("nothing")
        raise UsageError(
            "{name} does not wait for acceptance", fix="waiting: {listed}", name=strange[0], listed=listed
        )
    after = fleet.accept(server, bare)
    now = {offer.name for offer in after.visible} & set(waiting)
    if as_json:
        document("mcp-accepted", {"server": server, "tools": sorted(now)})
    else:
        typer.echo(t("accepted: {names}", names=sorted(now)) if now else t("nothing waits"))


@mcp_app.command()
def refresh(servers: Names = None, as_json: AsJson = False) -> None:
    """Connect to the servers and record their tools. Exit code 1: a server could not be reached.

    A server that a plugin ships is started for the first time when you name it.
    """
    config, settings, fleet = _open_fleet()
    for name in servers or ():
        _known(name, settings)
    of_all = [name for name, one in settings.servers.items() if not one.plugin or fleet.record(name).known]
    _connect(servers or of_all, config, settings, fleet, as_json)


def _connect(
    names: list[str], config: PluginConfig, settings: McpSettings, fleet: Fleet, as_json: bool
) -> None:
    """Connect to servers, record their tools, say what came, and exit: with 1 if one could not be reached, else 0."""
    failed = start.connect(config, settings, names)
    command_host().ask("mcp")  # which records, for every other command, whether the plugin has a fault now
    if as_json:
        rows = [_refreshed(name, fleet.record(name), failed.get(name)) for name in names]
        document("mcp-refreshed", {"servers": rows})
    for name in () if as_json else names:
        record = fleet.record(name)
        if name not in failed:
            typer.echo(with_label(name, t(_COUNTED, **_counts(record))))
            typer.echo("  " + t("about {count:token|tokens} in each request", count=_tokens(name, record)))
            if settings.servers[name].plugin and record.visible:
                tool = full_name(name, record.visible[0].name)
                said = t(
                    "name its tools in an allow list: {command}",
                    command=f"claw config set 'tools.alsoAllow[]' {tool}",
                )
                typer.echo(f"  {said}")
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


@mcp_app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name of yours: its tools are NAME__tool.")],
    command: Annotated[list[str] | None, typer.Argument(help="After --: the program and its arguments.")] = None,
    url: Annotated[str, typer.Option(help="Address of a server, in place of a program.")] = "",
    header: Headers = None,
    env: Variables = None,
    connect: Annotated[bool, typer.Option(help="Start it now, and record its tools.")] = True,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Add a server to the config file, and connect to it. Exit code 1: it is added, and could not be reached.

    claw mcp add time -- mcp-server-time --local-timezone UTC
    """
    _require_new(name)
    entry: dict[str, Any] = dict(zip(("command", "args"), _program(command or ()), strict=False))
    entry |= {"url": url} if url else {}
    entry |= {"headers": dict(_pair(one, ":", "--header") for one in header)} if header else {}
    entry |= {"env": dict(_variable(one) for one in env)} if env else {}
    file = _write(name, entry, as_json)
    if connect:
        _connect([name], *_open_fleet(), as_json)
    elif as_json:
        document("mcp-added", {"server": name, "file": str(file)})


@mcp_app.command()
def install(
    name: Annotated[str, typer.Argument(help="A name of yours: its tools are NAME__tool.")],
    package: Annotated[str, typer.Argument(help="The Python package of the server, as pip takes it.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="After --: arguments of its program.")] = None,
    program: Annotated[str, typer.Option(help="Its program, when it has several.")] = "",
    env: Variables = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Install a server into an environment of its own, add it to the config file, and connect to it.

    claw mcp install time mcp-server-time -- --local-timezone UTC
    """
    config, _ = _require_new(name)
    folder = config.state_dir / SERVERS / name
    if not yes:
        if as_json or not sys.stdin.isatty():
            problem = "confirmation is needed, but there is no terminal"
            raise UsageError(problem, fix="add --yes to proceed without confirmation")
        said = "{package} is installed into {folder}, and its program runs with your rights. Go on?"
        if not typer.confirm(t(said, package=package, folder=folder), default=True):
            raise typer.Exit(1)
    entry: dict[str, Any] = {"args": list(arguments)} if arguments else {}
    entry |= {"env": dict(_variable(one) for one in env)} if env else {}
    entry = {"command": str(install_server(folder, package, program, os.environ)), **entry}
    try:
        _write(name, entry, as_json)
    except BaseException:
        remove_server(folder)
        raise
    _connect([name], *_open_fleet(), as_json)


@mcp_app.command()
def remove(server: str, as_json: AsJson = False) -> None:
    """Remove a server from the config file, with the record of its tools and the environment that claw made for it."""
    config, settings, fleet = _open_fleet()
    if server not in settings.mcp_servers:
        raise _unknown(server, settings.mcp_servers)
    if plugin := settings.mcp_servers[server].plugin:
        problem, fix = "the plugin {plugin} ships the MCP server {name}", "claw plugins disable {plugin}"
        raise UsageError(problem, fix=fix, plugin=plugin, name=server)
    file = file_of(os.environ)
    unset_value(file, f"mcpServers.{server}", os.environ)
    fleet.forget(server)
    remove_server(config.state_dir / SERVERS / server)
    if as_json:
        document("mcp-removed", {"server": server, "file": str(file)})
    else:
        typer.echo(t("{name} is removed from {file}", name=server, file=file))


@mcp_app.command()
def login(
    server: str,
    paste: Annotated[
        bool, typer.Option(help="Read the redirected address from stdin; open no port.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Log in at a remote server (OAuth), and connect to it.

    It prints an address to open in a browser, on this machine or another. The tokens are kept in a file that only you
    can read, and renewed without a question.
    """
    config, settings, fleet = _open_fleet()
    _known(server, settings)
    file = fleet.login(server)
    if file is None:
        raise UsageError("{name} is a program: only a server at an address has a login", name=server)

    async def log_in_here() -> bool:
        async with start.short_network() as http:
            return await log_in(server, settings.servers[server], file, http, paste=paste)

    asked = asyncio.run(log_in_here())
    if not as_json:
        typer.echo(
            t("logged in at {name}", name=server) if asked else t("{name} asks for no login", name=server)
        )
    _connect([server], config, settings, fleet, as_json)


@mcp_app.command()
def prompts(server: str, prompt: Prompt = "", arguments: Arguments = None, as_json: AsJson = False) -> None:
    """Print the prompts of a server, or one of them with its arguments filled in. Connects to the server.

    claw mcp prompts docs summarize topic=bears
    """
    config, settings, _ = _open_fleet()
    _known(server, settings)
    text = prompt_text(config, settings, server, prompt, arguments or ())
    if as_json:
        document("mcpPrompts", {"server": server, "prompt": prompt, "text": text})
    else:
        typer.echo(text)


@mcp_app.command()
def logout(server: str, as_json: AsJson = False) -> None:
    """Forget the tokens of a login. The server may keep the login itself: end it there."""
    _, settings, fleet = _open_fleet()
    _known(server, settings)
    file = fleet.login(server)
    was_there = bool(file and file.remove())
    if as_json:
        document("mcp-logged-out", {"server": server, "removed": was_there})
    else:
        typer.echo(t("the login at {name} is removed", name=server) if was_there else t("nothing"))


mcp_app.command()(serve)


def _require_new(name: str) -> tuple[PluginConfig, McpSettings]:
    """Refuse a name that a server cannot have, or that one has."""
    if not is_name(name):
        raise UsageError("{name} is no name for a server", fix=NAME_RULE, name=name)
    config, settings = _read(load_setup().config)
    if name in settings.mcp_servers and not settings.mcp_servers[name].plugin:
        fix = "claw mcp remove {name} removes it"
        raise UsageError("an MCP server {name} is configured already", fix=fix, name=name)
    return config, settings


def _write(name: str, entry: dict[str, Any], as_json: bool) -> Path:
    """Write a server into the config file, and return the file."""
    file = file_of(os.environ)
    set_value(file, f"mcpServers.{name}", entry, os.environ, check=lambda key, config: _read(config))
    if not as_json:
        typer.echo(t("{name} is in {file}", name=name, file=file))
    return file


def _program(words: Sequence[str]) -> tuple[Any, ...]:
    """Return the program, and its arguments if there are any."""
    return (words[0], list(words[1:])) if words[1:] else tuple(words)


def _variable(text: str) -> tuple[str, str]:
    """Return a variable for the program: a name alone refers to claw's own variable, so that no secret is typed here."""
    return _pair(text, "=", "--env") if "=" in text else (text, f"${{{text}}}")


def _pair(text: str, sign: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not (found and name.strip()):
        problem = "{option} {text} has no name and value"
        raise UsageError(problem, fix="write {option} 'NAME{sign}VALUE'", option=option, text=text, sign=sign)
    return name.strip(), value.strip() if sign == ":" else value


def _refreshed(name: str, record: ServerRecord, failure: Any) -> dict[str, Any]:
    return {
        "name": name, "tools": [offer.name for offer in record.visible],
        "waiting": [offer.name for offer, _ in record.withheld], "tokens": _tokens(name, record),
        "error": _sentence(failure) if failure else "",
    }  # fmt: skip


def _sentence(why: ClawError) -> str:
    """Return what is wrong with a server; of a key of the config file, the key and the fix too."""
    return str(why) if isinstance(why, ConfigError) else why.problem


def _open_fleet() -> tuple[PluginConfig, McpSettings, Fleet]:
    config, settings = _read(load_setup().config)
    return config, settings, start.fleet(config, settings)


def _read(whole_config: Config) -> tuple[PluginConfig, McpSettings]:
    config = PluginConfig(whole_config, "mcp", HttpClients().client, whole_config.home / "plugins" / "mcp")
    return config, read_settings(config)


def _known(name: str, settings: McpSettings) -> None:
    if name in settings.servers:
        return
    if name in settings.mcp_servers:
        raise UsageError("the MCP server {name} is disabled", name=name)
    raise _unknown(name, settings.servers)


def _unknown(name: str, known: Iterable[str]) -> UsageError:
    near = nearest(name, known)
    return UsageError(
        "no MCP server is called {name}",
        fix="did you mean {near}?" if near else "claw mcp list shows them",
        name=name,
        near=near,
    )


def _row(name: str, settings: McpSettings, fleet: Fleet) -> dict[str, Any]:
    server = settings.mcp_servers[name]
    record = fleet.record(name) if not server.disabled else ServerRecord("")
    template, values = _state(name, settings, fleet)
    login = fleet.login(name)
    return {
        "name": name,
        "state": template.format(**values),
        "plugin": server.plugin,
        "where": server.url or " ".join((server.command or "", *server.args)),
        "known": record.known,
        "login": "needed" if record.needs_login else "done" if login and login.read() else "",
        "why": str(server.config_fault(name) or record.why),
        "tools": list(known_names({name: record.visible})),
        "tokens": _tokens(name, record),
        "withheld": [{"name": full_name(name, offer.name), "why": why} for offer, why in record.withheld],
    }


def _state(name: str, settings: McpSettings, fleet: Fleet) -> tuple[str, dict[str, int]]:
    """Return the English template and its values; documents have it in English."""
    if settings.mcp_servers[name].disabled:
        return "disabled", {}
    record = fleet.record(name)
    return (_COUNTED, _counts(record)) if record.known else ("not reached yet", {})


def _tokens(name: str, record: ServerRecord) -> int:
    """Return the tokens that the tools of a server take in each request."""
    named = known_names({name: record.visible})
    return sum(definition_tokens(full, one.description, one.parameters) for full, (_, one) in named.items())


def _counts(record: ServerRecord) -> dict[str, int]:
    return {"count": len(record.visible), "held": len(record.withheld)}
