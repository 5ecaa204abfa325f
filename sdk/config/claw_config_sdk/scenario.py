"""Options of commands that name one run: its agent, chat, sender and model."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer
from claw import Address, Inbound, Section, Sender
from claw.runtime import LOCAL_SENDER, TERMINAL, terminal_message
from pydantic import ConfigDict, Field


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


def sender_of(asked: Scenario) -> Sender | None:
    """Return the sender of the run; None when none is named."""
    if not asked.sender:
        return LOCAL_SENDER if asked.channel == TERMINAL and asked.owner is not False else None
    kind, _, value = asked.sender.partition(":")
    if value and (kind := kind.strip().lower()) in ("id", "e164", "username", "name"):
        return replace(Sender(""), **{kind: value})  # type: ignore[arg-type]
    return Sender(asked.sender)


def probe_message(asked: Scenario) -> Inbound:
    """Build a message without words from that place and person, addressed to us."""
    if asked.channel == TERMINAL:
        return terminal_message("")
    person = sender_of(asked) or Sender("")
    place = Address(asked.channel, asked.group or person.id, asked.account)
    return Inbound(place, "", person, chat_type="group" if asked.group else "direct", mentions_us=True)
