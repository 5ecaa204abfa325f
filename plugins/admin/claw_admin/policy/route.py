"""``claw route``: the decision on a message and its destination, by the functions that a turn uses."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer
from claw import Address, Inbound, Sender, UsageError, nearest, t
from claw.runtime import (
    LOCAL_SENDER,
    PAIRED_PEOPLE,
    TERMINAL,
    Admission,
    AsJson,
    Config,
    Route,
    Setup,
    decide_admission,
    document,
    format_key,
    home_of,
    install_hint,
    load_setup,
    paired_people,
    route_message,
    split_key,
    value_at,
    with_label,
)
from claw_config_sdk import Scenario, open_state, takes_scenario

from claw_admin.policy.explain import plugin_not_in_use
from claw_admin.policy.fixes import ConfigEdit

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show the agent, session and admission of a message."
)


@app.callback()
def _top() -> None:
    """Keep ``explain`` a sub-command although it is the only one."""


@app.command()
@takes_scenario("channel", "account", "group")
def explain(
    *,
    scenario: Scenario,
    chat: Annotated[str, typer.Option("--chat", help="Id of the chat; default: a direct chat with the sender.")] = "",
    sender: Annotated[str, typer.Option("--sender", help="Id of the person.")] = "",
    chat_type: Annotated[
        Literal["direct", "group", "channel"] | None, typer.Option("--chat-type", help="Kind of the chat.")
    ] = None,
    thread: Annotated[str, typer.Option("--thread", help="Id of the thread or topic.")] = "",
    mention: Annotated[bool, typer.Option("--mention/--no-mention", help="The message is addressed to the bot.")] = False,
    bot: Annotated[bool, typer.Option("--bot", help="The sender is a bot.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show if a message is accepted, the deciding rule, and its agent and session. Exit code 0: accepted; 1: not."""
    setup, channel, group = load_setup(), scenario.channel, scenario.group
    _require_channel(channel, setup)
    kind = chat_type or ("group" if group else "direct")
    address = Address(channel, chat or group or sender, scenario.account, thread or None)
    person = Sender(sender, is_bot=bot) if sender or channel != TERMINAL else LOCAL_SENDER
    inbound = Inbound(address, "", person, chat_type=kind, mentions_us=mention or kind == "direct")
    verdict = decide_admission(inbound, setup.config, _paired(address))
    repair = _without_plugin(channel, setup) if verdict.kind != "refused" else None
    if repair:
        verdict = Admission("refused", repair.why, repair.key, verdict.owner)
    else:
        edits = admission_fix(verdict, inbound, setup.config)
        repair = Repair(edits, admission_advice(verdict, inbound, setup.config))
    destination = route_message(inbound, setup.config)
    if as_json:
        document("route", explanation_data(verdict, destination, setup.config, repair))
    else:
        typer.echo("\n".join(explanation_lines(verdict, destination, setup.config, repair, channel)))
    raise typer.Exit(code=0 if verdict.kind == "admitted" else 1)


@dataclass(frozen=True, slots=True)
class Repair:
    """The way to get a message through.

    :param edits: changes of the file. ``fix``: what else helps, as text; empty = nothing.
    :param why: reason why no plugin receives the message, with its ``key``.
    """

    edits: tuple[ConfigEdit, ...] = ()
    fix: str = ""
    why: str = ""
    key: str = ""


def _without_plugin(channel: str, setup: Setup) -> Repair | None:
    """Return the repair when no plugin that may run brings the channel; None when one does, or nobody can know."""
    states = [
        one for one in setup.plugin_states if one.found.manifest and channel in one.found.manifest.channels
    ]
    unlisted = any(one.found.manifest is None for one in setup.plugin_states)  # it may bring any channel
    if channel == TERMINAL or unlisted or any(one.is_usable for one in states):
        return None
    if not states:
        return Repair(fix=install_hint(channel), why=t("no installed plugin provides it"))
    there = plugin_not_in_use(channel, states[0], setup.config)
    return Repair(there.edits, there.fix, there.why, there.key)


def _require_channel(channel: str, setup: Setup) -> None:
    """Refuse a channel that neither the file nor an installed plugin names.

    :raises UsageError: it is unknown; the nearest name is the fix.
    """
    declared = (name for one in setup.found if one.manifest for name in one.manifest.channels)
    known = {TERMINAL, *setup.config.settings.channels, *declared}
    if channel not in known:
        near = nearest(channel, known)
        fix = "did you mean {near}?" if near else "channels: {names}"
        names = sorted(known)
        raise UsageError(
            "there is no channel {name}", where="--channel", fix=fix, name=channel, near=near, names=names
        )


def _paired(address: Address) -> frozenset[str]:
    with open_state(home_of(os.environ)) as database:
        if database is None:
            return frozenset()
        database.tables("admission", PAIRED_PEOPLE)  # a home where no gateway ran has none
        return paired_people(database, address.channel, address.account)


def admission_fix(verdict: Admission, inbound: Inbound, config: Config) -> tuple[ConfigEdit, ...]:
    """Return the smallest edit of the file that lets the message pass; none for an unknown sender, who can be
    paired."""
    path = split_key(verdict.key) or ("",)
    last, chat = str(path[-1]), format_key((inbound.address.chat,))
    if verdict.kind in ("admitted", "unknown sender") or not verdict.key:
        return ()
    if path == ("channels", inbound.address.channel):
        return (ConfigEdit("set", verdict.key, {}),)
    if last == "accounts":
        known = config.settings.channels[inbound.address.channel].accounts
        added = ConfigEdit("set", f"{verdict.key}.{format_key((inbound.address.account,))}", {})
        return () if nearest(inbound.address.account, known) else (added,)
    if last in ("allowFrom", "groupAllowFrom"):
        return (ConfigEdit("set", f"{verdict.key}[]", inbound.sender.id),)
    if last in _SWITCHES and not (last == "groupPolicy" and verdict.kind == "unaddressed"):
        return (ConfigEdit("set", verdict.key, _SWITCHES[last]),)
    if last not in ("groups", "groupPolicy"):
        return ()
    group: dict[str, Any] = {"requireMention": False} if verdict.kind == "unaddressed" else {}
    key = f"{verdict.key.removesuffix(last)}groups"
    if isinstance(value_at(config.layout.tree, split_key(key) or ()), list):
        return (ConfigEdit("set", f"{key}[]", {"chatId": inbound.address.chat, **group}),)
    return (ConfigEdit("set", f"{key}{'' if chat.startswith('[') else '.'}{chat}", group),)


def admission_advice(verdict: Admission, inbound: Inbound, config: Config) -> str:
    """Return what helps beside an edit, as text; empty when an edit is all."""
    channel, path = inbound.address.channel, split_key(verdict.key) or ("",)
    if verdict.kind == "unknown sender":
        return t("when they write, they receive a code: claw pairing approve CODE")
    if verdict.kind == "unaddressed":
        return t("or mention the bot, or reply to it (--mention)")
    if verdict.kind == "admitted":
        return ""
    if not verdict.key:
        like = config.example_unless_id(channel, inbound.sender.id) if inbound.sender.id.strip() else ""
        return t("name the person by the id: --sender {like}", like=like or "ID")
    if path[-1] == "accounts":
        known = config.settings.channels[channel].accounts
        if near := nearest(inbound.address.account, known):
            return t("did you mean {near}?", near=near)
    if path[-1] in ("accounts", channel):
        return t("claw doctor then says what the channel needs, such as a token")
    return ""


_SWITCHES = {
    "enabled": True,
    "allowBots": True,
    "requireMention": False,
    "dmPolicy": "pairing",
    "groupPolicy": "allowlist",
}


_PUBLISHED = {"unknown sender": "stranger"}
"""Kind of admission → its value in documents of schema version 1, where that differs."""


def explanation_lines(
    verdict: Admission, going: Route, config: Config, repair: Repair, channel: str
) -> Iterator[str]:
    """Yield the explanation as lines of text."""
    yield with_label(channel, t(verdict.kind))
    yield "  " + with_label(t("why"), verdict.why)
    if verdict.key:
        yield "  " + with_label(t("rule"), f"{verdict.key}  {_place(config, verdict.key)}")
    for edit in repair.edits:
        yield "  " + with_label(t("run"), edit.command)
    if repair.fix:
        yield "  " + with_label(t("fix"), repair.fix)
    yield "  " + with_label(t("agent"), going.agent_id)
    binding_text = f"{going.binding}  {_place(config, going.binding)}" if going.binding else t("none matches")
    yield "  " + with_label(t("binding"), binding_text)
    yield "  " + with_label(t("session"), going.session_key)
    yield "  " + with_label(t("owner"), t("yes") if verdict.owner else t("no"))


def _place(config: Config, key: str) -> str:
    line = config.line(key)
    return f"{config.file}:{line}" if line else config.file


def explanation_data(verdict: Admission, going: Route, config: Config, repair: Repair) -> dict[str, Any]:
    """Return the explanation as plain data, for ``--json``."""
    return {
        "verdict": _PUBLISHED.get(verdict.kind, verdict.kind), "why": verdict.why, "key": verdict.key,
        "owner": verdict.owner, "file": config.file,
        "line": config.line(verdict.key) if verdict.key else None,
        "edits": [{"command": edit.command, **asdict(edit)} for edit in repair.edits], "fix": repair.fix,
        "agent": going.agent_id, "session": going.session_key, "chatType": going.chat_type, "binding": going.binding,
        "bindingLine": config.line(going.binding) if going.binding else None,
    }  # fmt: skip
