"""``claw status``: the home, the config file, the default agent with its model, and the source of its key."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from claw.cli.output import document
from claw.cli.plugin_commands import AsJson
from claw.host.manifest import InstalledPlugin, providers_of, variables_of
from claw.i18n import t
from claw_models.credentials import ProfileFile


def status(as_json: AsJson = False) -> None:
    """Say how claw is set up here; no plugin is imported."""
    from claw.app import load_setup

    setup = load_setup()
    facts = setup_data(setup, os.environ)
    if as_json:
        document("status", facts)
        return
    for name, value in facts.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{count} {t(state)}" for state, count in value.items()) or "0"  # noqa: PLW2901
        typer.echo(f"{t(name)}: {value}")
    for warning in setup.config.warnings:
        typer.echo(f"{t('warning')}: {warning}", err=True)


def setup_data(setup: Any, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts as plain data.

    :param setup: ``claw.app.Harness``.
    """
    from claw_gateway.commands.gateway import gateway_data as gateway_facts, status_line
    from claw_gateway.process.status import read_status

    config, gateway = setup.config, read_status(setup.config.home)
    agent = config.agent()
    choice = agent.settings.model
    model = (choice.primary if choice else None) or setup.default_model
    model = config.settings.models.aliases.get(model, model)
    provider = model.partition("/")[0]
    model = model or t("none")
    channels = dict(Counter(one["state"] for one in gateway_facts(gateway)["channels"]))
    return {
        "home": str(config.home),
        "config": str(config.path) if config.path else t("none: all defaults"),
        "agent": agent.id,
        "agents": len(config.agent_ids),
        "model": model,
        "key": key_source(config, setup.found, provider, environ),
        "workspace": str(agent.workspace),
        "gateway": status_line(gateway),
        **({"channels": channels} if channels else {}),
        "plugins": dict(Counter(standing.state for standing in setup.plugin_states)),
    }


def key_source(
    config: Any, found: Sequence[InstalledPlugin], provider: str, environ: Mapping[str, str]
) -> str:
    """Return where the key of ``provider`` comes from, never the key: a place in the file, a variable, or
    none."""
    if any(line.fallback for line in providers_of(found) if line.name == provider):
        return t("not needed")
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
        return t("none; the endpoint is {url}", url=section.base_url)
    if variables == ():
        return t("not needed")
    return t("none")
