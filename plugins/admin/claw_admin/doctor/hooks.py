"""``claw hooks``: every hook, the plugins that answer it, and the order in which they are asked."""

import asyncio
from collections.abc import Iterator
from typing import Any

import typer
from claw import t
from claw.runtime import (
    HOOKS,
    IDLE,
    LOADED,
    App,
    AsJson,
    Contribution,
    PluginState,
    RunFacts,
    document,
    judge_tools,
    load_setup,
    position_of,
    table,
)

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show hooks, and the plugins that use them."
)


@app.callback()
def _group() -> None:
    """Stay a group although it has one command."""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every hook with the plugins that implement it, in the order of the calls."""
    hooks, _ = loaded_plugins()
    if as_json:
        document("hooks", {"hooks": hooks})
        return
    rows = [row for hook in hooks for row in _rows(hook)]
    table([t("hook"), t("order"), t("plugin"), t("name"), t("position"), t("note")], rows)


def loaded_plugins(*also: str) -> tuple[list[dict[str, Any]], dict[str, PluginState]]:
    """Load the plugins in use; return every hook with its answers, and the states of the plugins, by id.

    :param also: ids of plugins that are loaded although their code waits for a first call.
    """
    running = App(load_setup(only_looks=True), log=lambda line: typer.echo(f"claw: {line}", err=True))
    try:
        for state in running.host.plugin_states:
            if state.id in also and state.state in (LOADED, IDLE):
                running.host.ask(state.id)
        hooks = [_described(running, hook) for hook in HOOKS]
        for hook, plugin in sorted(running.host.specified.items()):
            answers = list(_answers(running.host.answers_to(hook)))
            hooks.append({"hook": hook, "slot": "", "specifiedBy": plugin, "answers": answers})
    finally:
        asyncio.run(running.close())
    return hooks, {state.id: state for state in running.host.plugin_states if not state.found.rival}


def _described(running: App, hook: str) -> dict[str, Any]:
    host, slot = running.host, HOOKS[hook].slot
    answers = host.on_demand(hook) if HOOKS[hook].on_demand else host.ordered(hook)
    if hook == "register_tools":  # those of a manifest too, whose code is not here yet
        answers = tuple(Contribution(tool.plugin, tool) for tool in running.registry.tools)
    rows = list(_answers(answers))
    chosen = running.host.chosen(slot) if slot else None
    named: dict[str, Any] = {
        "register_channels": running.registry.channels,
        "register_providers": running.registry.providers,
    }
    used = {id(one.value) for one in named.get(hook, {}).values()}
    for row, one in zip(rows, answers, strict=True):
        row["inForce"] = not slot or one is chosen or (chosen is not None and one.value is chosen.value)
        row["inForce"] &= hook not in named or id(one.value) in used
    if hook == "register_tools":
        facts = running.registry.facts
        lost = {id(conflict.fact) for conflict in judge_tools(facts, (), RunFacts()).conflicts}
        for row, fact in zip(rows, facts, strict=True):
            row["inForce"] = id(fact) not in lost
    return {"hook": hook, "slot": slot, "specifiedBy": "", "answers": rows}


def _answers(answers: "tuple[Contribution[Any], ...]") -> Iterator[dict[str, Any]]:
    for order, one in enumerate(answers, 1):
        name, position = getattr(one.value, "name", "") or type(one.value).__name__, position_of(one.value)
        yield {"plugin": one.plugin, "name": str(name), "order": order, "position": position, "inForce": True}


def _rows(hook: dict[str, Any]) -> Iterator[list[str]]:
    label = hook["hook"]
    if not hook["answers"]:
        slot = hook["slot"]
        yield [label, "", "", "", "", t("core's own") if slot else t("no plugin")]
    for one in hook["answers"]:
        notes = []
        if hook["slot"]:
            choice = t("active") if one["inForce"] else t("inactive")
            notes.append(f"{choice} (plugins.slots.{hook['slot']})")
        elif not one["inForce"]:
            notes.append(t("inactive"))
        if hook["specifiedBy"]:
            notes.append(t("hook of plugin {id}", id=hook["specifiedBy"]))
        order, position = str(one["order"]), f"{one['position']:g}"
        yield [label, order, one["plugin"], one["name"], position, ", ".join(notes)]
        label = ""
