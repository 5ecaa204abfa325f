"""``claw tools explain``: whether a run has a tool, and why; ``list`` and ``call`` come from claw-admin."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Protocol

import typer
from pydantic import ConfigDict, Field

from claw.agent.models import candidates
from claw.agent.routing import LOCAL_SENDER
from claw.app import App, load_setup, terminal_message
from claw.cli.output import document
from claw.cli.plugin_commands import AsJson
from claw.config import Config
from claw.config.values import Section
from claw.contracts.errors import PluginError
from claw.contracts.messages import Address, Inbound, Sender
from claw.host.manager import Host
from claw.i18n import t
from claw.policy.decision import Judgement
from claw.policy.engine import resolve_tools
from claw.policy.explain import Explanation, explain_tool
from claw.policy.fixes import ConfigEdit
from claw.policy.subjects import RunFacts, ToolFact
from claw.security.admission import TERMINAL, configured_owners, is_owner

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show the tools of an agent, and why it has them."
)


class Scenario(Section):
    """One run, for which tools are judged.

    :param agent: empty = the default agent; likewise an empty ``model`` is the agent's, with its fallbacks.
    :param sender: an id, or ``e164:``, ``username:``, ``name:`` and a value.
    :param owner: None = as the file says of the sender; at the terminal, an owner.
    :param sandbox: None = as the file says of the agent.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)  # chat ids are often written as numbers

    agent: str = ""
    channel: str = TERMINAL
    account: str = "default"
    group: str = ""
    sender: str = ""
    owner: bool | None = None
    model: str = ""
    sandbox: bool | None = None
    depth: int = Field(default=0, ge=0)


_OPTIONS = {
    "agent": typer.Option("--agent", help="Agent id; default: the default agent."),
    "channel": typer.Option("--channel", help="Channel the run comes from."),
    "account": typer.Option("--account", help="Account on that channel."),
    "group": typer.Option("--group", help="Id of the group chat; default: a direct chat."),
    "sender": typer.Option("--sender", help="The sender: an id, or e164:, username:, name: and a value."),
    "owner": typer.Option("--owner/--no-owner", help="Treat the sender as an owner, or not."),
    "model": typer.Option(
        "--model", help="This model alone: provider/model; default: the agent's, with fallbacks."
    ),
    "sandbox": typer.Option("--sandbox/--no-sandbox", help="In a sandbox, or not."),
    "depth": typer.Option("--depth", min=0, help="0: the agent itself; 1: its sub-agent; and so on."),
}


def takes_scenario(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a scenario; it is called with ``scenario``.

    :param fields: of :class:`Scenario`; none = all.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        chosen = {name: Scenario.model_fields[name] for name in fields or _OPTIONS}

        @wraps(command)
        def run(**given: Any) -> None:
            command(scenario=Scenario(**{name: given.pop(name) for name in chosen}), **given)

        options = [
            Parameter(
                name, Parameter.KEYWORD_ONLY, default=field.default,
                annotation=Annotated[field.annotation, _OPTIONS[name]],
            ) for name, field in chosen.items()
        ]  # fmt: skip
        own = signature(command, eval_str=True)
        others = [one for one in own.parameters.values() if one.name != "scenario"]
        parameters = sorted([*options, *others], key=lambda one: one.kind)
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


class PolicyContext(Protocol):
    """The configuration and tools against which a scenario is judged: from file and manifests, or from a
    running app.
    """

    @property
    def config(self) -> Config: ...
    @property
    def default_model(self) -> str: ...
    @property
    def facts(self) -> tuple[ToolFact, ...]: ...


def judge_scenario(asked: Scenario, ground: PolicyContext) -> Judgement:
    """Return the judgement of that run, from the function that a turn uses.

    :raises UsageError: there is no such agent.
    """
    config = ground.config
    agent = config.agent(asked.agent)
    choice = agent.settings.model
    models = candidates(
        asked.model,
        (choice and choice.primary) or ground.default_model,
        choice.fallbacks if choice else (),
        config.settings.models.aliases,
        () if asked.model else None,
    )
    person = sender_of(asked)
    listed = person is not None and is_owner(asked.channel, person, configured_owners(config.settings))
    owner = asked.channel == TERMINAL or listed
    boxed = agent.settings.sandbox.mode != "off"
    run = RunFacts(
        agent_id=agent.id,
        channel=asked.channel,
        account=asked.account,
        group=asked.group or None,
        sender=person,
        owner=owner if asked.owner is None else asked.owner,
        sandboxed=boxed if asked.sandbox is None else asked.sandbox,
        depth=asked.depth,
    ).with_model(str(models[0]) if models else "")
    return resolve_tools(config, run, ground.facts, [str(model) for model in models[1:]])


def sender_of(asked: Scenario) -> Sender | None:
    """Return the sender of the run; None when none is named."""
    if not asked.sender:
        return LOCAL_SENDER if asked.channel == TERMINAL and asked.owner is not False else None
    kind, _, value = asked.sender.partition(":")
    if value and (kind := kind.strip().lower()) in ("id", "e164", "username", "name"):
        return replace(Sender(""), **{kind: value})  # type: ignore[arg-type]
    return Sender(asked.sender)


def model_of(found: Judgement) -> str:
    """Return the model of a judgement, as ``provider/model``."""
    return f"{found.run.provider}/{found.run.model}"


@app.callback()
def _group() -> None:
    """Stay a group although it has one command."""


@app.command("explain")
@takes_scenario()
def explain_(name: str, *, scenario: Scenario, as_json: AsJson = False) -> None:
    """Show if a run has the tool NAME, the deciding rule, and the change to make. Exit code 0: it has; 1: not."""
    host_app = App(load_setup(), log=lambda line: typer.echo(f"claw: {line}", err=True))
    try:
        judged = judge_scenario(scenario, host_app.runtime)
        answer = explain_tool(name, host_app.config, judged, host_app.host.plugin_states)
        if answer.available:
            answer = verify_tool(answer, host_app.host)
    finally:
        asyncio.run(host_app.close())
    if as_json:
        document("tool", {"run": run_data(judged), **explanation_data(answer)})
    else:
        typer.echo("\n".join(explanation_lines(answer, judged)))
    raise typer.Exit(code=0 if answer.available else 1)


def verify_tool(answer: Explanation, host: Host) -> Explanation:
    """Load the plugin of a tool that policy allows; if it fails, the tool is not available."""
    try:
        host.supply(answer.plugin, answer.name)
    except PluginError as failed:
        changes = {"available": False, "stage": "not-brought", "why": failed.problem, "fix": failed.fix}
        return replace(answer, steps=(), **changes)  # type: ignore[arg-type]
    return answer


def probe_message(asked: Scenario) -> Inbound:
    """Build a message without words from that place and person, addressed to us."""
    if asked.channel == TERMINAL:
        return terminal_message("")
    person = sender_of(asked) or Sender("")
    place = Address(asked.channel, asked.group or person.id, asked.account)
    return Inbound(place, "", person, chat_type="group" if asked.group else "direct", mentions_us=True)


def explanation_lines(answer: Explanation, judged: Judgement) -> Iterator[str]:
    """Yield the explanation as lines of text."""
    verdict = t("available") if answer.available else t("not available")
    by = t("core tool, from plugin {id}" if answer.core else "plugin {id}", id=answer.plugin)
    yield f"{answer.name}: {verdict}" + (f" ({by})" if answer.plugin else "")
    if answer.why:
        yield f"  {t('why')}: {answer.why}"
    if answer.key:
        whose = f" ({answer.whose})" if answer.whose else ""
        location = f"{answer.file}:{answer.line}" if answer.line else answer.file
        yield f"  {t('rule')}: {answer.key}{whose}  {location}".rstrip()
    for edit in answer.edits:
        yield f"  {t('run')}: {edit.command}"
    if answer.fix:
        yield f"  {t('fix')}: {answer.fix}"
    for text, edits in answer.rivals:
        yield f"  {t('note')}: {text}" + "".join(f" ({edit.command})" for edit in edits)
    if judged.fallbacks or judged.run.model:
        yield f"  {t('model')}: {judged_models(judged)}"
    if answer.steps:
        yield f"  {t('gates and layers')}:"
    for step in answer.steps:
        verdict = t("in") if step.passes else t("out")
        at = f"  ({step.key}, {t('line {line}', line=step.line)})" if step.line else ""
        yield f"    {step.stage:<16} {verdict:<4} {step.note}{at}".rstrip()


def judged_models(judged: Judgement) -> str:
    """Return the models that were judged, the one that answers first in front."""
    return ", ".join(map(model_of, (judged, *judged.fallbacks)))


def explanation_data(answer: Explanation) -> dict[str, Any]:
    """Return an explanation as plain data, for ``--json``: its fields, each edit with its command."""
    rivals = [{"note": text, "edits": [_edit(edit) for edit in edits]} for text, edits in answer.rivals]
    return asdict(answer) | {"edits": [_edit(edit) for edit in answer.edits], "rivals": rivals}


def _edit(edit: ConfigEdit) -> dict[str, Any]:
    return {"command": edit.command, **asdict(edit)}


def run_data(judged: Judgement) -> dict[str, Any]:
    """Return the run that was judged as plain data, for ``--json``."""
    run = judged.run
    return {
        "agent": run.agent_id, "channel": run.channel, "account": run.account, "group": run.group,
        "sender": run.sender.id if run.sender else "", "owner": run.owner, "sandbox": run.sandboxed,
        "depth": run.depth, "models": judged_models(judged).split(", "),
    }  # fmt: skip
