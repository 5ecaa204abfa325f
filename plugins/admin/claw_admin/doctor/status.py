"""``claw status``: the home, the config file, the default agent with its model, and the source of its key."""

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import typer
from claw import t
from claw.runtime import AsJson, Setup, document, home_problem, load_setup, plugin_states, with_label

from claw_admin.config_checks.file_warnings import file_warnings

_ORDER = ("home", "config", "agent", "agents", "model", "key", "workspace", "gateway", "channels", "plugins")
"""The order of the facts; others come last."""


def status(as_json: AsJson = False) -> None:
    """Show how claw is set up."""
    setup = load_setup()
    facts = setup_data(setup, os.environ)
    if as_json:
        document("status", facts)
        return
    for name, value in facts.items():
        if isinstance(value, Mapping):
            value = [f"{count} {t(state)}" for state, count in value.items()] or "0"  # noqa: PLW2901
        typer.echo(with_label(t(name), value))
    problems = [home_problem(setup.config.home)] if setup.config.home.is_dir() else []
    for warning in (*filter(None, problems), *file_warnings(setup.config), *_faults_of_plugins()):
        typer.echo(with_label(t("warning"), warning), err=True)


def _faults_of_plugins() -> list[str]:
    return [one.fault_line() for one in plugin_states() if one.stage]


def setup_data(setup: Setup, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts as plain data: those of core, and those of diagnostics (``status``)."""
    from claw_admin.doctor.diagnostics import DoctorContext, status_facts

    added = status_facts(DoctorContext(setup, environ))
    config = setup.config
    agent = config.agent()
    choice = agent.settings.model
    model = (choice.primary if choice else None) or setup.default_model
    facts = {
        "home": str(config.home),
        "config": str(config.path) if config.path else t("none: all defaults"),
        "agent": agent.id,
        "agents": len(config.agent_ids),
        "model": config.settings.models.aliases.get(model, model) or t("none"),
        "workspace": str(agent.workspace),
        "plugins": dict(Counter(state.shown for state in plugin_states(environ))),
    }
    names = dict.fromkeys((*_ORDER, *facts, *added))
    return {name: {**added, **facts}[name] for name in names if name in facts or name in added}
