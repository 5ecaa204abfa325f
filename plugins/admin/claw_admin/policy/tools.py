"""``claw tools list`` and ``call``: the tools of a run, and one call through the tool gate of a real turn."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import ToolResult, UsageError, t
from claw.runtime import (
    CORE_TOOLS,
    App,
    AsJson,
    Judgement,
    TurnOptions,
    document,
    load_setup,
    normalise_tool_name,
    reserved_stdout,
    table,
    with_label,
)
from claw_config_sdk import Scenario, probe_message, takes_scenario

from claw_admin.policy.explain import Explanation, JudgedTools, explain_tool
from claw_admin.policy.explanation_text import explanation_data, verify_tool
from claw_admin.policy.judged_run import judge_scenario, run_data, unmatched_words
from claw_admin.policy.tool_limits import LeftOut, cost_text, tools_left_out


@takes_scenario()
def list_(
    *,
    scenario: Scenario,
    all_: Annotated[bool, typer.Option("--all", help="Also show unavailable tools.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the tools of a run, with their size in a request, in tokens."""
    judged, rows, left = asyncio.run(_explained(scenario, all_))
    if as_json:
        tools = [explanation_data(row) for row in rows]
        body = {"run": run_data(judged), "tools": tools, "unknown": unmatched_words(judged)}
        document("tools", body | {"leftOut": [asdict(one) for one in left]})
        return
    head = [t("tool"), t("plugin"), t("state"), t("tokens"), t("why")]
    table(head, [_row(row) for row in rows], {t("available"): "green", t("not available"): "dim"})
    others = len(judged.facts) - len(judged.positions)
    if others and not all_:
        more = t("{count:more is|more are} not available to this run: claw tools list --all", count=others)
        typer.echo(more, err=True)
    for text in filter(None, (*(one.text for one in left), cost_text(judged))):
        typer.echo(with_label(t("note"), text), err=True)


async def _explained(scenario: Scenario, all_: bool) -> tuple[Judgement, list[Explanation], list[LeftOut]]:
    """Return the judgement of a run, its tools, explained, and those that its models do not get.

    :param all_: every known tool, not only those that the run has.
    """
    async with _app(only_looks=True) as host_app:
        judged = judge_scenario(scenario, host_app.runtime)
        names = _known_tools(host_app, judged) if all_ else judged.allowed_names
        known = JudgedTools(judged)
        rows = [explain_tool(name, host_app.config, known, host_app.host.plugin_states) for name in names]
        faulty = {one.id for one in host_app.host.plugin_states if one.stage}  # a part of it failed before
        untried = {one.id for one in host_app.host.plugin_states if one.is_untried}
        rows = [
            verify_tool(row, host_app.host) if row.available and row.plugin in faulty else row for row in rows
        ]
        why = t("nothing has loaded its plugin yet; claw tools explain does")
        rows = [
            replace(row, why=why) if row.available and row.plugin in untried and not row.why else row
            for row in rows
        ]
        _warn_of_absent_tools(host_app, judged)
        left = list(tools_left_out(host_app, judged))
    return judged, rows, left


def _app(*, only_looks: bool = False) -> App:
    return App(load_setup(only_looks=only_looks), log=lambda line: typer.echo(f"claw: {line}", err=True))


@takes_scenario("agent", "channel", "account", "group", "sender", "model")
def call(
    name: str,
    *,
    args: Annotated[str, typer.Option("--args", help="Arguments as a JSON object.")] = "{}",
    scenario: Scenario,
    as_json: AsJson = False,
) -> None:
    """Run the tool NAME as a turn does, with the same rules and checks. Exit code 1: it was refused or failed."""
    arguments = _arguments(args)
    options = TurnOptions(agent=scenario.agent, model=scenario.model, folder=Path.cwd())
    with reserved_stdout():
        result = asyncio.run(_call(name, arguments, scenario, options))
    text = "\n".join(getattr(block, "text", "[image]") for block in result.blocks)
    if as_json:
        body = {"tool": name, "isError": result.is_error, "text": text, "details": result.details}
        document("toolResult", body)
    else:
        typer.echo(text, err=result.is_error)
    raise typer.Exit(code=1 if result.is_error else 0)


async def _call(name: str, arguments: dict[str, Any], scenario: Scenario, options: TurnOptions) -> ToolResult:
    async with _app() as host_app:
        approver = host_app.runtime.registry.approver
        if ask_here := getattr(approver.value, "ask_at_terminal", None) if approver else None:
            ask_here(lambda line: typer.echo(line, err=True))
        return await host_app.call_tool(name, arguments, probe_message(scenario), options)


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
        why = type(given).__name__
    except ValueError as wrong:
        given, why = None, str(wrong)
    if not isinstance(given, dict):
        fix = """write --args '{{"key": "value"}}'"""
        raise UsageError("--args is not a JSON object: {why}", fix=fix, why=why)
    return given


def _known_tools(host_app: App, judged: Judgement) -> Iterable[str]:
    """Return every tool that is known by name: those in use, those of plugins out of use, then reserved
    names."""
    names = {normalise_tool_name(fact.name): fact.name for fact in judged.facts}
    for plugin in host_app.host.plugin_states:
        for line in plugin.found.manifest.tools if plugin.found.manifest else ():
            names.setdefault(normalise_tool_name(line.name), line.name)
    for name in CORE_TOOLS:
        names.setdefault(name, name)
    return names.values()


def _warn_of_absent_tools(host_app: App, judged: Judgement) -> None:
    """Warn of words in allow lists whose tool is not here. Words without a meaning were reported at the
    start."""
    installed = {normalise_tool_name(plugin.id) for plugin in host_app.host.plugin_states}
    unknown = unmatched_words(judged)
    for layer in judged.layers:
        for word in unknown.get(layer.name, ()):
            key = next(entry.key for entry in layer.opt_ins if entry.word == word)
            if word in CORE_TOOLS:
                text = "{key}: the core tool {word} is not available; claw tools explain {word} shows why"
                line = t(text, key=key, word=word)
            elif word in installed:
                line = t("{key}: no tool of the plugin {word} is active", key=key, word=word)
            else:
                continue
            typer.echo(f"claw: {line}", err=True)


def _row(row: Explanation) -> list[str]:
    state = t("available") if row.available else t("not available")
    return [row.name, row.plugin, state, str(row.tokens) if row.tokens else "", row.why]
