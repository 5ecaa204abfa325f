"""``claw status``: the home, the file, who answers with which model, and whether a key is there."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from claw.auth import ProfileFile
from claw.cli.options import AsJson
from claw.cli.show import document
from claw.manifest import Found, variables_of
from claw.words import say

app = typer.Typer(add_completion=False, help="Say how claw is set up here.")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Say how claw is set up here; no plugin is imported."""
    from claw.app import look_round

    house = look_round()
    facts = facts_of(house, os.environ)
    if as_json:
        document("status", facts)
        return
    for name, value in facts.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{count} {say(state)}" for state, count in value.items()) or "0"  # noqa: PLW2901
        typer.echo(f"{say(name)}: {value}")
    for warning in house.config.warnings:
        typer.echo(f"{say('warning')}: {warning}", err=True)


def facts_of(house: Any, environ: Mapping[str, str]) -> dict[str, Any]:
    """What there is to say, as plain data.

    :param house: ``claw.app.House``.
    """
    from claw.cli.gateway import facts_of as served, summary
    from claw.gateway.status import look

    config, gateway = house.config, look(house.config.home)
    agent = config.agent()
    choice = agent.settings.model
    model = (choice.primary if choice else None) or house.default_model
    model = config.settings.models.aliases.get(model, model)
    provider = model.partition("/")[0]
    channels = dict(Counter(one["state"] for one in served(gateway)["channels"]))
    return {
        "home": str(config.home),
        "config": str(config.path) if config.path else say("none: all defaults"),
        "agent": agent.id,
        "agents": len(config.agent_ids),
        "model": model,
        "key": key_of(config, house.found, provider, environ),
        "workspace": str(agent.workspace),
        "gateway": summary(gateway),
        **({"channels": channels} if channels else {}),
        "plugins": dict(Counter(standing.state for standing in house.standings)),
    }


def key_of(config: Any, found: Sequence[Found], provider: str, environ: Mapping[str, str]) -> str:
    """Where the key of ``provider`` comes from, never the key: a place in the file, a variable, or none."""
    if provider == "offline":
        return say("not needed")
    own = ProfileFile(config.agent().dir)
    if own.tree().get("profiles", {}).get(provider):
        return str(own.path)
    section = config.settings.providers.get(provider)
    if section is not None and (section.api_key or any(profile.api_key for profile in section.auth_profiles)):
        return f"providers.{provider}"
    variables = variables_of(found, provider)
    for variable in variables or ():
        if environ.get(variable, "").strip():
            return variable
    if section is not None and section.base_url:
        return say("none; the endpoint is {url}", url=section.base_url)
    if variables == ():
        return say("not needed")
    return say("none")
