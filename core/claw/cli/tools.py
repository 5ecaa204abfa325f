"""``claw tools explain``: if an agent has a tool, and the rule that decides.

claw-admin replaces it by one that explains any run, with each layer and the change to make.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from claw.agent.routing import LOCAL_SENDER
from claw.app import App, load_setup
from claw.cli.output import document
from claw.cli.plugin_commands import AsJson
from claw.config.summary import install_hint, package_of, plugins_that_bring
from claw.contracts.errors import PluginError
from claw.host.state import PluginState
from claw.i18n import t, with_label
from claw.policy.catalog import normalise_tool_name
from claw.policy.decision import Judgement, Ruling
from claw.policy.subjects import RunFacts
from claw.security.admission import TERMINAL

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show the tools of an agent, and why it has them."
)


@app.callback()
def _group() -> None:
    """Stay a group although it has one command."""


@app.command()
def explain(
    name: str,
    agent: Annotated[str, typer.Option(help="Agent id; default: the default agent.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show if an agent has the tool NAME at this terminal, and the deciding rule. Exit code 0: it has; 1: not."""
    answer = asyncio.run(_explanation(name, agent))
    if as_json:
        document("tool", answer)
    else:
        verdict = t("available") if answer["available"] else t("not available")
        typer.echo(with_label(answer["name"], verdict))
        for head, value in (("why", answer["why"]), ("rule", _rule(answer)), ("fix", answer["fix"])):
            if value:
                typer.echo("  " + with_label(t(head), value))
    raise typer.Exit(code=0 if answer["available"] else 1)


async def _explanation(name: str, agent: str) -> dict[str, Any]:
    """Return the ruling on a tool in a turn of this terminal, with its reason and its place in the file."""
    wanted, key, why, fix = normalise_tool_name(name), "", "", ""
    log = lambda line: typer.echo(f"claw: {line}", err=True)  # noqa: E731
    async with App(load_setup(only_looks=True), log=log) as claw:
        judged = _judgement(agent, claw)
        facts = (one for one in (*judged.loaded, *judged.facts) if normalise_tool_name(one.name) == wanted)
        fact = next(facts, None)
        ruling = judged.rulings[fact.name] if fact else Ruling(False, "unknown")
        if fact is None:
            why, fix = _absence(wanted, claw.host.plugin_states)
        elif ruling.allowed:
            try:
                claw.host.supply(fact.supplier, fact.name)
            except PluginError as failed:
                ruling, why, fix = Ruling(False, "not-brought"), failed.problem, failed.fix
        else:
            key, why = ruling.key, ruling.reason
            fix = t("the explain of claw-admin names the change to make: pip install claw-admin")
        return {
            "name": fact.name if fact else name, "available": ruling.allowed, "stage": ruling.stage, "why": why,
            "key": key, "file": claw.config.file, "line": claw.config.line(key) if key else None, "fix": fix,
        }  # fmt: skip


def _judgement(agent_id: str, claw: App) -> Judgement:
    """Judge the run of an owner at this terminal, with the models of the agent."""
    agent, models = claw.config.agent(agent_id), [*map(str, claw.setup.models(agent_id))]
    boxed = agent.settings.sandbox.mode == "all"
    run = RunFacts(agent.id, TERMINAL, sender=LOCAL_SENDER, owner=True, sandboxed=boxed)
    return claw.runtime.rulings(run.with_model(next(iter(models), "")), tuple(models[1:]))


def _rule(answer: Mapping[str, Any]) -> str:
    place = f"{answer['file']}:{answer['line']}" if answer["line"] else ""
    return f"{answer['key']}  {place}".strip()


def _absence(wanted: str, plugin_states: Iterable[PluginState]) -> tuple[str, str]:
    """Return the reason why no plugin in use provides a tool, and the fix."""
    for state in plugin_states:
        declared = state.found.manifest.tools if state.found.manifest else ()
        if any(normalise_tool_name(tool.name) == wanted for tool in declared):
            why = t("its plugin {id} is {state}: {why}", id=state.id, state=t(state.state), why=state.why)
            return why, state.fix
    supplier = plugins_that_bring("tools").get(wanted, "")
    if package_of(supplier):
        return t("it comes with the plugin {id}, which is not installed", id=supplier), install_hint(supplier)
    return t("no installed plugin provides a tool with this name"), ""
