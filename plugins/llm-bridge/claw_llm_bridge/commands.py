"""``claw llm-bridge``: the installed llm plugins, their tools, and why others are unavailable."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from claw import HttpClients, PluginConfig, t
from claw.runtime import definition_tokens, load_setup
from claw_tool_sdk import changed_files

from claw_llm_bridge.catalogue import BridgeSettings, LlmPlugin, PluginCatalogue
from claw_llm_bridge.repair import commands, install_words

bridge_app = typer.Typer(
    no_args_is_help=True, help="Show the tools of llm plugins, and why some are left out."
)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@bridge_app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Read and list the installed llm plugins and their tools. All are optional: an allow list names them."""
    _show(_rows(), as_json)


@bridge_app.command()
def check(as_json: AsJson = False) -> None:
    """List only the reasons why tools are left out, changed files included. Exit code 1: there is one."""
    rows = [row for row in _rows(checked=True) if row["why"]]
    _show(rows, as_json)
    raise typer.Exit(1 if rows else 0)


def _rows(*, checked: bool = False) -> list[dict[str, Any]]:
    whole_config = load_setup().config
    config = PluginConfig(
        whole_config, "llm-bridge", HttpClients().client, whole_config.home / "plugins" / "llm-bridge"
    )
    catalogue = PluginCatalogue(config.state_dir, config.plugin(BridgeSettings), config.environ)
    if find_spec("llm") is None:
        why = t("llm is not installed (the extra claw-llm-bridge[llm])")
        run = [install_words("llm >=0.26")]
        return [{"name": "llm", "version": "", "tools": [], "tokens": 0, "why": why, "run": run}]
    plugins, _ = catalogue.current(refresh=True)
    return [row for plugin in plugins for row in (_row(plugin, checked),) if row["tools"] or row["why"]]


def _row(plugin: LlmPlugin, checked: bool) -> dict[str, Any]:
    why, run = plugin.why, commands(plugin.name, absent=plugin.absent) if plugin.why else []
    if checked and not why and (files := _changed(plugin.name)):
        why = t("not what was installed: {files}", files=[*files])
        run = commands(plugin.name, absent=False)
    if not why and plugin.unopened:
        boxes = "; ".join(f"{box} ({error})" for box, error in plugin.unopened.items())
        why = t("these toolboxes cannot be opened: {boxes}", boxes=boxes)
    if not why and plugin.lacking:
        boxes = "; ".join(f"{box} ({', '.join(names)})" for box, names in plugin.lacking.items())
        why = t("these toolboxes need settings: {boxes}", boxes=boxes)
        run = [
            f"claw config set plugins.entries.llm-bridge.config.toolboxes.{box}.{name} VALUE"
            for box, names in plugin.lacking.items()
            for name in names
        ]
    if not (why or plugin.tools or checked):
        why = t("it registers no tools; some plugins do so only when a variable is set")
        run = ["claw config set 'plugins.entries.llm-bridge.config.envAllow[]' VARIABLE"]
    tools = [plugin.full_name(line) for line in plugin.tools]
    tokens = sum(
        definition_tokens(plugin.full_name(line), line.description, line.parameters) for line in plugin.tools
    )
    about = {"name": plugin.name, "version": plugin.version, "tools": tools, "tokens": tokens}
    return {**about, "why": why, "run": run}


def _changed(name: str) -> list[str]:
    try:
        return list(changed_files(distribution(name)))
    except PackageNotFoundError:
        return []


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        body = {"schemaVersion": 1, "kind": "llmPlugins", "plugins": rows}
        typer.echo(json.dumps(body, ensure_ascii=False, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['name']} {row['version']}".rstrip())
        for tool in row["tools"]:
            typer.echo(f"    {tool}")
        if row["tools"]:
            typer.echo("    " + t("about {count:token|tokens} in each request", count=row["tokens"]))
        if row["why"]:
            typer.echo(f"    ! {row['why']}")
        for command in row["run"]:
            typer.echo("    " + t("run: {command}", command=command))
    if not rows:
        typer.echo(t("no llm plugin has tools"))
