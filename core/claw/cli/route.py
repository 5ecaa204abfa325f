"""``claw route``: what becomes of a message, by the very functions that a turn asks."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from claw.app import look_round
from claw.cli import tools as of
from claw.cli.options import AsJson
from claw.cli.show import document
from claw.config import Config
from claw.config.names import dotted, steps, value_at
from claw.mend import Edit
from claw.message import Address, Inbound, Sender
from claw.pairing import Pairing
from claw.route import LOCAL, TERMINAL, Route, Verdict, admission, route
from claw.survey import home_of, state_of
from claw.words import say

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Where a message would go, and whether it may."
)


@app.callback()
def _top() -> None:
    """Where a message would go, and whether it may."""  # so that explain stays a sub-command though it is the only one


@app.command()
def explain(
    *, channel: of.Channel = TERMINAL, account: of.Account = "default",
    chat: Annotated[str, typer.Option("--chat", help="Id of the chat; default: a direct chat with the sender.")] = "",
    sender: Annotated[str, typer.Option("--sender", help="Id of the person.")] = "",
    group: of.Group = "",
    chat_type: Annotated[str, typer.Option("--chat-type", help="direct, group or channel.")] = "",
    thread: Annotated[str, typer.Option("--thread", help="Id of the thread or topic.")] = "",
    mention: Annotated[bool, typer.Option("--mention/--no-mention", help="It is addressed to us.")] = False,
    bot: Annotated[bool, typer.Option("--bot", help="The sender is a bot.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say whether a message would be taken up, what decides, and where it would go. Exit code 0: it would; 1: not."""
    house = look_round()
    kind = chat_type or ("group" if group else "direct")
    place = Address(channel, chat or group or sender, account, thread or None)
    person = Sender(sender, is_bot=bot) if sender or channel != TERMINAL else LOCAL
    inbound = Inbound(place, "", person, chat_type=kind, mentions_us=mention or kind == "direct")
    verdict = admission(inbound, house.config, _paired(place))
    going = route(inbound, house.config)
    edits = mend(verdict, inbound, house.config)
    if as_json:
        document("route", described(verdict, going, house.config, edits))
    else:
        typer.echo("\n".join(told(verdict, going, house.config, edits, channel)))
    raise typer.Exit(code=0 if verdict.kind == "admitted" else 1)


def _paired(place: Address) -> frozenset[str]:
    with state_of(home_of(os.environ)) as database:
        return Pairing(database).paired(place.channel, place.account) if database else frozenset()


def mend(verdict: Verdict, inbound: Inbound, config: Config) -> tuple[Edit, ...]:
    """The smallest edit of the file that gets the message past what stopped it; none for a stranger, who is paired."""
    path = steps(verdict.key) or ("",)
    last, chat = str(path[-1]), dotted((inbound.address.chat,))
    if verdict.kind in ("admitted", "stranger") or not verdict.key:
        return ()
    if last in ("allowFrom", "groupAllowFrom"):
        return (Edit("set", f"{verdict.key}[]", inbound.sender.id),)
    if last in _SWITCHES and not (last == "groupPolicy" and verdict.kind == "unaddressed"):
        return (Edit("set", verdict.key, _SWITCHES[last]),)
    if last not in ("groups", "groupPolicy"):
        return ()
    group: dict[str, Any] = {"requireMention": False} if verdict.kind == "unaddressed" else {}
    key = f"{verdict.key.removesuffix(last)}groups"
    if isinstance(value_at(config.layout.tree, steps(key) or ()), list):
        return (Edit("set", f"{key}[]", {"chatId": inbound.address.chat, **group}),)
    return (Edit("set", f"{key}{'' if chat.startswith('[') else '.'}{chat}", group),)


_SWITCHES = {
    "enabled": True,
    "allowBots": True,
    "requireMention": False,
    "dmPolicy": "pairing",
    "groupPolicy": "allowlist",
}


def told(
    verdict: Verdict, going: Route, config: Config, edits: tuple[Edit, ...], channel: str
) -> Iterator[str]:
    """The explanation as lines of text."""
    yield f"{channel}: {say(verdict.kind)}"
    yield f"  {say('why')}: {verdict.why}"
    if verdict.key:
        yield f"  {say('rule')}: {verdict.key}  {_place(config, verdict.key)}"
    for edit in edits:
        yield f"  {say('run')}: {edit.command}"
    if verdict.kind == "stranger":
        yield f"  {say('fix')}: {say('when they write, they are shown a code: claw pairing approve CODE')}"
    yield f"  {say('agent')}: {going.agent_id}"
    bound = f"{going.binding}  {_place(config, going.binding)}" if going.binding else say("none fits")
    yield f"  {say('binding')}: {bound}"
    yield f"  {say('session')}: {going.session_key}"
    yield f"  {say('owner')}: {say('yes') if verdict.owner else say('no')}"


def _place(config: Config, key: str) -> str:
    line = config.line(key)
    return f"{config.file}:{line}" if line else config.file


def described(verdict: Verdict, going: Route, config: Config, edits: tuple[Edit, ...]) -> dict[str, Any]:
    """The same as plain data, for ``--json``."""
    return {
        "verdict": verdict.kind, "why": verdict.why, "key": verdict.key, "owner": verdict.owner, "file": config.file,
        "line": config.line(verdict.key) if verdict.key else None,
        "edits": [{"command": edit.command, **asdict(edit)} for edit in edits],
        "agent": going.agent_id, "session": going.session_key, "chatType": going.chat_type, "binding": going.binding,
        "bindingLine": config.line(going.binding) if going.binding else None,
    }  # fmt: skip
