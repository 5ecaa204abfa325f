"""``claw tools``: which tools a run has, why or why not, and one call through the gate of a real turn."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from claw.app import App, from_terminal, look_round
from claw.catalog import CORE_TOOLS, normalise
from claw.cli.options import AsJson
from claw.cli.show import document, table
from claw.errors import UsageError
from claw.explain import Explanation, explain
from claw.mend import Edit
from claw.message import Address, Inbound, Sender
from claw.policy import Judgement
from claw.route import TERMINAL
from claw.scenario import Scenario, judgement_of, model_of, sender_of
from claw.stage import Wish
from claw.wall import own_stdout
from claw.words import say

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Which tools an agent has, and why.")

Agent = Annotated[str, typer.Option("--agent", help="Agent id; default: the default agent.")]
Channel = Annotated[str, typer.Option("--channel", help="Channel the run comes from.")]
Account = Annotated[str, typer.Option("--account", help="Account on that channel.")]
Group = Annotated[str, typer.Option("--group", help="Id of the group chat; default: a direct chat.")]
Person = Annotated[
    str, typer.Option("--sender", help="Who asks: an id, or e164:, username:, name: and a value.")
]
Owner = Annotated[
    bool | None, typer.Option("--owner/--no-owner", help="Take the sender for an owner, or not.")
]
Model = Annotated[
    str,
    typer.Option("--model", help="This model alone: provider/model; default: the agent's, with fallbacks."),
]
Boxed = Annotated[bool | None, typer.Option("--sandbox/--no-sandbox", help="In a sandbox, or not.")]
Depth = Annotated[
    int, typer.Option("--depth", min=0, help="0: the agent itself; 1: its sub-agent; and so on.")
]


@app.command("list")
def list_(
    *, agent: Agent = "", channel: Channel = TERMINAL, account: Account = "default", group: Group = "",
    sender: Person = "", owner: Owner = None, model: Model = "", sandbox: Boxed = None, depth: Depth = 0,
    all_: Annotated[bool, typer.Option("--all", help="Also the tools that this run does not have.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """List the tools of a run, with what each costs in a request, in tokens."""
    asked = Scenario(
        agent=agent, channel=channel, account=account, group=group, sender=sender, owner=owner, model=model,
        sandbox=sandbox, depth=depth,
    )  # fmt: skip
    with _house() as house:
        judged = judgement_of(asked, house.rooms)
        names = _known(house, judged) if all_ else judged.standing
        rows = [explain(name, house.config, judged, house.host.standings) for name in names]
        _complain_of_absent_words(house, judged)
    if as_json:
        tools = [described(row) for row in rows]
        document("tools", {"run": run_of(judged), "tools": tools, "unknown": dict(judged.unknown)})
        return
    head = [say("tool"), say("plugin"), say("state"), say("tokens"), say("why")]
    table(head, [_row(row) for row in rows], {say("available"): "green", say("not available"): "dim"})
    others = len(judged.facts) - len(judged.positions)
    if others and not all_:
        more = say("{count:more is|more are} not available to this run: claw tools list --all", count=others)
        typer.echo(more, err=True)


@app.command("explain")
def explain_(
    name: str, *, agent: Agent = "", channel: Channel = TERMINAL, account: Account = "default", group: Group = "",
    sender: Person = "", owner: Owner = None, model: Model = "", sandbox: Boxed = None, depth: Depth = 0,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say whether a run has the tool NAME, what decides, and what to change. Exit code 0: it has; 1: it has not."""
    asked = Scenario(
        agent=agent, channel=channel, account=account, group=group, sender=sender, owner=owner, model=model,
        sandbox=sandbox, depth=depth,
    )  # fmt: skip
    with _house() as house:
        judged = judgement_of(asked, house.rooms)
        answer = explain(name, house.config, judged, house.host.standings)
    if as_json:
        document("tool", {"run": run_of(judged), **described(answer)})
    else:
        typer.echo("\n".join(told(answer, judged)))
    raise typer.Exit(code=0 if answer.available else 1)


@app.command()
def call(
    name: str, *, args: Annotated[str, typer.Option("--args", help="Arguments as a JSON object.")] = "{}",
    agent: Agent = "", channel: Channel = TERMINAL, account: Account = "default", group: Group = "",
    sender: Person = "", model: Model = "", as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run the tool NAME as a turn would: same rulings, same checks. Exit code 1: it was refused or failed."""
    arguments = _arguments(args)
    inbound = inbound_of(Scenario(agent=agent, channel=channel, account=account, group=group, sender=sender))
    wish = Wish(agent=agent, model=model, folder=Path.cwd())
    with _house() as house, own_stdout():
        result = asyncio.run(house.call_tool(name, arguments, inbound, wish))
    text = "\n".join(getattr(block, "text", "[image]") for block in result.blocks)
    if as_json:
        body = {"tool": name, "isError": result.is_error, "text": text, "details": result.details}
        document("toolResult", body)
    else:
        typer.echo(text, err=result.is_error)
    raise typer.Exit(code=1 if result.is_error else 0)


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


@contextmanager
def _house() -> Iterator[App]:
    house = App(look_round(), complain=lambda line: typer.echo(f"claw: {line}", err=True))
    try:
        yield house
    finally:
        asyncio.run(house.close())


def inbound_of(asked: Scenario) -> Inbound:
    """A message without words from that place and person, addressed to us."""
    if asked.channel == TERMINAL:
        return from_terminal("")
    person = sender_of(asked) or Sender("")
    place = Address(asked.channel, asked.group or person.id, asked.account)
    return Inbound(place, "", person, chat_type="group" if asked.group else "direct", mentions_us=True)


def _known(house: App, judged: Judgement) -> Iterable[str]:
    """Every tool that is known by name: those brought, then those of plugins set aside, then reserved names."""
    names = {normalise(fact.name): fact.name for fact in judged.facts}
    for standing in house.host.standings:
        for line in standing.found.manifest.tools if standing.found.manifest else ():
            names.setdefault(normalise(line.name), line.name)
    for name in CORE_TOOLS:
        names.setdefault(name, name)
    return names.values()


def _complain_of_absent_words(house: App, judged: Judgement) -> None:
    """Words of allow lists that mean something, which is not here. What means nothing was told at the start."""
    installed = {normalise(standing.id) for standing in house.host.standings}
    for layer in judged.layers:
        for word in judged.unknown.get(layer.name, ()):
            key = next(entry.key for entry in layer.opens if entry.word == word)
            if word in CORE_TOOLS:
                text = "{key}: the core tool {word} is not here; claw tools explain {word} says why"
                line = say(text, key=key, word=word)
            elif word in installed:
                line = say("{key}: no tool of the plugin {word} is in use", key=key, word=word)
            else:
                continue
            typer.echo(f"claw: {line}", err=True)


def _row(row: Explanation) -> list[str]:
    state = say("available") if row.available else say("not available")
    return [row.name, row.plugin, state, str(row.tokens) if row.tokens else "", row.why]


def told(answer: Explanation, judged: Judgement) -> Iterator[str]:
    """The explanation as lines of text."""
    verdict = say("available") if answer.available else say("not available")
    by = say("core tool, from plugin {id}" if answer.core else "plugin {id}", id=answer.plugin)
    yield f"{answer.name}: {verdict}" + (f" ({by})" if answer.plugin else "")
    if answer.why:
        yield f"  {say('why')}: {answer.why}"
    if answer.key:
        whose = f" ({answer.whose})" if answer.whose else ""
        place = f"{answer.file}:{answer.line}" if answer.line else answer.file
        yield f"  {say('rule')}: {answer.key}{whose}  {place}".rstrip()
    for edit in answer.edits:
        yield f"  {say('run')}: {edit.command}"
    if answer.fix:
        yield f"  {say('fix')}: {answer.fix}"
    for text, edits in answer.rivals:
        yield f"  {say('note')}: {text}" + "".join(f" ({edit.command})" for edit in edits)
    if judged.spares or judged.run.model:
        yield f"  {say('model')}: {models_of(judged)}"
    if answer.steps:
        yield f"  {say('gates and layers')}:"
    for step in answer.steps:
        verdict = say("in") if step.passes else say("out")
        at = f"  ({step.key}, {say('line {line}', line=step.line)})" if step.line else ""
        yield f"    {step.stage:<16} {verdict:<4} {step.note}{at}".rstrip()


def models_of(judged: Judgement) -> str:
    """The models that were judged, the one that answers first in front."""
    return ", ".join(map(model_of, (judged, *judged.spares)))


def described(answer: Explanation) -> dict[str, Any]:
    """An explanation as plain data, for ``--json``: its fields, each edit with its command."""
    rivals = [{"note": text, "edits": [_edit(edit) for edit in edits]} for text, edits in answer.rivals]
    return asdict(answer) | {"edits": [_edit(edit) for edit in answer.edits], "rivals": rivals}


def _edit(edit: Edit) -> dict[str, Any]:
    return {"command": edit.command, **asdict(edit)}


def run_of(judged: Judgement) -> dict[str, Any]:
    """The run that was judged as plain data, for ``--json``."""
    run = judged.run
    return {
        "agent": run.agent_id, "channel": run.channel, "account": run.account, "group": run.group,
        "sender": run.sender.id if run.sender else "", "owner": run.owner, "sandbox": run.sandboxed,
        "depth": run.depth, "models": models_of(judged).split(", "),
    }  # fmt: skip
