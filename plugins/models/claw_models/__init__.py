"""Model fallback, key pools, cooldowns and sign-in for claw; ``claw models`` and ``claw auth``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import ChatCommand, Diagnostic, ModelSelector, PluginConfig


@hookimpl
def register_model_selectors(config: "PluginConfig") -> "Iterable[ModelSelector]":
    from claw_models.cooldown import CooldownRules
    from claw_models.failover import Failover
    from claw_models.key_pool import KeyPool
    from claw_models.settings import Cooldowns, Wait

    times = config.section("models.cooldowns", Cooldowns)
    rules = CooldownRules(
        times.table, times.slow_down, times.disabled, times.disabled_most, times.window, times.probe
    )
    orders = {name: section.auth_order for name, section in config.settings.providers.items()}
    keys = KeyPool(config.database, config.clock, rules, orders, config.environ, config.learn_secrets)
    keys.learn_secrets(config.state_dir.parents[1] / "agents")
    yield Failover(keys, config.section("models.wait", Wait).root)


@hookimpl
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Contribute ``/model``, ``/think`` and ``/reasoning``."""
    from claw_models.chat_commands import COMMANDS

    return COMMANDS


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Contribute the checks of keys and models."""
    from claw_models.diagnostics import ModelDiagnostic

    return [ModelDiagnostic()]


@hookimpl
def register_commands(app: Any) -> None:
    from claw_models import commands_auth, commands_models

    app.add_typer(commands_models.app, name="models")
    app.add_typer(commands_auth.app, name="auth")
