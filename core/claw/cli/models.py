"""``claw models``: which models answer and stand in, how their keys are, a real call to see, and choosing another one."""

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from claw.auth import no_key, no_such_key
from claw.cli.auth import known_provider, rows
from claw.cli.options import AsJson
from claw.cli.show import document, table
from claw.errors import ClawError, ProviderError, UsageError
from claw.manifest import variables_of
from claw.words import say

if TYPE_CHECKING:
    from claw.app import App, House
    from claw.auth import Credential
    from claw.cli.aptitude import Aptitude
    from claw.fallback import ModelRef
    from claw.provider import Provider

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Which models answer, and how they are.")
Agent = Annotated[str, typer.Option("--agent", help="Of which agent; the default one's.")]
ModelName = Annotated[str, typer.Argument(help="provider/model, or an alias of the file.")]
PROBE_SECONDS = 60.0
"""What one call of a probe may take."""


@app.command("list")
def list_(agent: Agent = "", as_json: AsJson = False) -> None:
    """List the models of an agent in the order they are asked, and the aliases of the file."""
    from claw.app import look_round

    house = look_round()
    able = _able(house, house.models(agent))
    found = [
        {
            "model": str(ref),
            "role": "primary" if at == 0 else "fallback",
            "plugin": _plugin(house, ref.provider),
            **_plain(one),
        }
        for at, (ref, one) in enumerate(able.items())
    ]
    aliases = house.config.settings.models.aliases
    if as_json:
        document("models", {"agent": house.config.agent(agent).id, "models": found, "aliases": dict(aliases)})
        return
    cells = [[one["model"], say(one["role"]), one["plugin"] or say("none"), *_told(one)] for one in found]
    cells += [[full, say("alias {name}", name=name), _plugin(house, full.partition("/")[0]) or say("none"), "", ""]
              for name, full in aliases.items()]  # fmt: skip
    table([say("model"), say("role"), say("plugin"), say("tools"), say("reads")], cells)
    _warn(house, able)


@app.command()
def status(agent: Agent = "", as_json: AsJson = False) -> None:
    """Say of each model which keys it has and which of them rest, and why. Exit 1 when a model has none that is ready."""
    from claw.app import look_round

    house = look_round()
    able = _able(house, house.models(agent))
    found = _states(house, agent, able)
    well = all(row["ready"] for row in found)
    if as_json:
        document("models-status", {"ready": well, "models": found})
    else:
        cells = [
            [
                row["model"],
                *_told(row),
                key["key"],
                row["fault"] or (say("ready") if key["state"] == "ready" else key["state"]),
            ]
            for row in found
            for key in row["keys"] or _nobody(row)
        ]
        heads = [say("model"), say("tools"), say("reads"), say("key"), say("state")]
        table(heads, cells, {say("ready"): "green"})
        _warn(house, able)
    raise typer.Exit(0 if well else 1)


@app.command()
def probe(
    model: Annotated[str, typer.Argument(help="Only this one; all of the agent without it.")] = "",
    key: Annotated[str, typer.Option("--key", help="Only the key of this name.")] = "",
    agent: Agent = "",
    as_json: AsJson = False,
) -> None:
    """Make one tiny real call with each key of each model: it costs a few tokens. A key that answers rests no longer."""
    found = asyncio.run(_probed(model, key, agent))
    well = all(one["ok"] for one in found) and bool(found)
    if as_json:
        document("models-probe", {"ok": well, "calls": found})
    else:
        cells = [[one["model"], one["key"], say("answers") if one["ok"] else one["why"]] for one in found]
        table([say("model"), say("key"), say("what it says")], cells, {say("answers"): "green"})
    raise typer.Exit(0 if well else 1)


@app.command()
def use(
    model: ModelName,
    agent: Annotated[str, typer.Option("--agent", help="For this agent alone.")] = "",
    fallback: Annotated[
        list[str] | None, typer.Option("--fallback", help="Stands in for it; may be repeated.")
    ] = None,
) -> None:
    """Let MODEL answer from now on: writes it into the config file. Its spares stay, unless --fallback names others."""
    from claw.app import look_round
    from claw.cli.config import file_of
    from claw.config import edit
    from claw.fallback import ModelRef

    house = look_round()
    aliases = house.config.settings.models.aliases
    for one in (model, *(fallback or ())):
        provider, slash, name = aliases.get(one, one).partition("/")
        if not slash or not name:
            raise UsageError("{model} names no provider", fix="Write provider/model, or an alias", model=one)
        if provider != "offline":
            known_provider(house, provider)
    config, path = house.config, file_of(os.environ)
    place = f"agents.list[{config.agent(agent).id}].model" if agent else "agents.defaults.model"
    choice = config.agent(agent).settings.model
    spares = fallback if fallback is not None else list(choice.fallbacks) if choice else []
    value = {"primary": model, "fallbacks": spares} if spares else model
    changed = edit.set_value(path, place, value, os.environ)
    if why := _why_not(look_round(), agent, ModelRef(*aliases.get(model, model).split("/", 1))):
        typer.echo(say("{model} is chosen, but cannot answer yet: {why}", model=model, why=why))
    else:
        typer.echo(say("{model} answers now" if changed else "{model} answers already", model=model))


async def _probed(model: str, key: str, agent: str) -> list[dict[str, Any]]:
    from claw.app import App, look_round
    from claw.fallback import candidates

    house = look_round(models=[model])
    refs, found = house.models(agent), list[dict[str, Any]]()
    lacking: list[UsageError] = []
    if model:
        refs = candidates(model, str(refs[0]), (), house.config.settings.models.aliases, ())
    async with App(house) as running:
        for ref in refs:
            try:
                provider, keys = _held(running, house, ref, agent)
            except ClawError as why:
                found.append({"model": str(ref), "key": "-", "ok": False, "why": running.redact(str(why))})
                continue
            calls = [held for held in keys if key in ("", held.name)]
            if not calls:
                lacking.append(no_such_key(ref.provider, key, [held.name for held in keys]))
            found += [await _called(running, ref, provider, held, agent) for held in calls]
    if lacking and not found:
        raise lacking[0]
    return found


def _held(
    running: "App", house: "House", ref: "ModelRef", agent: str
) -> tuple["Provider", tuple["Credential", ...]]:
    """The provider of a model, and its keys.

    :raises ClawError: there is none of either, or they cannot be used.
    """
    brought = running.rooms.kit.providers.get(ref.provider)
    if brought is None:
        fix = "claw plugins list says why"
        raise UsageError("nobody serves the provider {provider}", fix=fix, provider=ref.provider)
    keys = running.rooms.keys.of(brought.thing, house.config.agent(agent).dir, "", ref.model)
    if not keys:
        raise no_key(ref.provider, variables_of(house.found, ref.provider) or ())
    return brought.thing, keys


async def _called(
    running: "App", ref: "ModelRef", provider: "Provider", key: "Credential", agent: str
) -> dict[str, Any]:
    from claw.caps import Bill
    from claw.fallback import answer_of
    from claw.provider import Request, SystemPrompt
    from claw.spending import account
    from claw.transcript import Text, User
    from claw.wall import within

    question = (User((Text("Answer with the word: yes"),)),)
    keys, why = running.rooms.keys, ""
    payer = running.config.agent(agent)
    account(Bill(payer.id, purpose="probe"))
    try:
        key = await keys.logins.renewed(provider, key, payer.dir)
        asked = Request(ref.model, SystemPrompt(""), question, max_tokens=64, credential=key)
        await within(PROBE_SECONDS, answer_of(provider, asked, ref))
        keys.forget(ref.provider, key.owner, key.name)
    except ProviderError as failed:
        keys.failed(ref.provider, key, ref.model, failed)
        why = (
            say("{problem}. {fix}", problem=failed.problem, fix=failed.fix) if failed.fix else failed.problem
        )
    except (ClawError, TimeoutError) as failed:
        why = str(failed)
    return {"model": str(ref), "key": key.name, "ok": not why, "why": running.redact(why)}


def _states(house: "House", agent: str, able: "dict[ModelRef, Aptitude]") -> list[dict[str, Any]]:
    """Of each model: its keys, and whether it could answer now."""
    held, found = list(rows(house, agent, os.environ)), []
    for ref, one in able.items():
        keys = [
            {"key": row.name, "where": row.place, "state": row.state_for(ref.model) or "ready"}
            for row in held
            if row.provider == ref.provider
        ]
        ready = any(key["state"] == "ready" for key in keys) if keys else not one.needs_key
        found.append(
            {"model": str(ref), "ready": ready and not one.fault, "fault": one.fault or None, "needsKey": one.needs_key,
             "keys": keys, **_plain(one)}
        )  # fmt: skip
    return found


def _why_not(house: "House", agent: str, ref: "ModelRef") -> str:
    """What a model lacks that it could answer; empty = nothing."""
    [state] = _states(house, agent, _able(house, (ref,)))
    if state["ready"] or state["fault"] or state["keys"]:
        return "" if state["ready"] else state["fault"] or state["keys"][0]["state"]
    return str(no_key(ref.provider, variables_of(house.found, ref.provider) or ()))


def _able(house: "House", refs: "Iterable[ModelRef]") -> "dict[ModelRef, Aptitude]":
    from claw.cli import aptitude

    return aptitude.known(house, {ref: _plugin(house, ref.provider) for ref in refs})


def _plain(one: "Aptitude") -> dict[str, Any]:
    return {"tools": one.tools or None, "contextTokens": one.window}


def _told(row: dict[str, Any]) -> tuple[str, str]:
    window = row["contextTokens"]
    return row["tools"] or "?", f"{window:,}" if window else "?"


def _warn(house: "House", able: "dict[ModelRef, Aptitude]") -> None:
    from claw.cli import aptitude

    for one in aptitude.findings(house.config.settings, able.items()):
        typer.echo(f"{one.about}: {one.problem}" + (f" ({one.mend})" if one.mend else ""), err=True)


def _plugin(house: "House", provider: str) -> str:
    if provider == "offline":
        return "builtin"
    section = house.config.settings.providers.get(provider)
    kind = str((section.model_extra or {}).get("type", "")) if section else ""
    for one in house.found:
        names = {line.name for line in one.manifest.providers} if one.manifest else set()
        if provider in names or kind in names:
            return one.id
    return "openai" if section and section.base_url else ""


def _nobody(one: dict[str, Any]) -> list[dict[str, str]]:
    return [{"key": "-", "state": say("no key") if one["needsKey"] else say("needs no key")}]
