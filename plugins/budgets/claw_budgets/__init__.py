"""The usage ledger of claw, budgets, and ``claw usage``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import Diagnostic, PluginConfig, ProviderMiddleware


@hookimpl
def register_provider_middleware(config: "PluginConfig") -> "Iterable[ProviderMiddleware]":
    """Meter every model call."""
    from claw_budgets.ledger import UsageLedger
    from claw_budgets.middleware import UsageMeter
    from claw_budgets.settings import Budgets

    caps = config.section("budgets", Budgets).root
    return [UsageMeter.of(config.settings, caps, UsageLedger(config.database, config.clock))]


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Check what is left of the budgets."""
    from claw_budgets.diagnostics import BudgetDiagnostic
    from claw_budgets.middleware import caps_of
    from claw_budgets.settings import Budgets

    caps = caps_of(config.section("budgets", Budgets).root)
    return [BudgetDiagnostic(caps, config.settings, config.clock)] if caps else []


@hookimpl
def register_commands(app: Any) -> None:
    """``claw usage``."""
    from claw_budgets.command import usage

    app.command("usage")(usage)
