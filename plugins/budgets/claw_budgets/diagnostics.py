"""The check of budgets for ``claw doctor``: those that refuse every model call; their use for ``claw status``."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from claw import CallAccount, DiagnosticContext, Finding, t
from claw.runtime import LOADED, SYSTEM_CLOCK, Clock, Setup, command_host

from claw_budgets.caps import Amount, SpendingCap
from claw_budgets.ledger import UsageLedger, spent_under
from claw_budgets.middleware import UsageMeter, describe_use, free_again, unknown_price

_LEAST_ANSWER = 4096
"""The shortest limit of an answer that a provider of claw has by default: a call reserves at least that."""


class BudgetDiagnostic:
    """The diagnostic of this plugin.

    :param settings: ``claw.config.Settings``.
    """

    name = "budgets"

    def __init__(self, caps: Sequence[SpendingCap], settings: Any, clock: Clock = SYSTEM_CLOCK) -> None:
        self._caps, self._clock = tuple(caps), clock
        self._least = Amount(1, shortest_answer(settings))

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Report daily budgets that are used up."""
        return [
            Finding(
                f"budgets.{cap.name}",
                "budget",
                t("it is used up today, so model calls are refused: {used}", used=describe_use(cap, spent)),
                t("Raise budgets.{name}, or wait: it resets {when}", name=cap.name,
                  when=free_again(cap, self._clock.now())),
            )
            for cap, spent in self._used_today(context.setup.config.home)
            if cap.allows(Amount(), self._least) and not cap.allows(spent, self._least)
        ]  # fmt: skip

    def _unpriced(self, setup: Setup) -> Iterator[Finding]:
        """Yield budgets in dollars for models of which neither the file nor the provider knows the price; the providers
        of models in use are loaded."""
        if not any(cap.nanos is not None for cap in self._caps):
            return
        meter = UsageMeter.of(setup.config.settings, {}, UsageLedger())
        providers = _providers_in_use(setup)
        for cap in (one for one in self._caps if one.nanos is not None):
            agents = [id for id in setup.config.agent_ids if fnmatchcase(id, cap.agent or "*")]
            for ref in dict.fromkeys(ref for id in agents for ref in setup.models(id)):
                provider = providers.get(ref.provider)
                if provider is not None and meter.price(provider, ref.model) is None:
                    refusal = unknown_price(cap.name, ref.provider, ref.model, excuse="")
                    yield Finding(f"budgets.{cap.name}.usd", "budget", refusal.problem, refusal.fix)

    def check_config(self, setup: Any) -> Iterator[Finding]:
        """Report budgets in dollars that refuse a model without a known price, and those smaller than any call."""
        yield from self._unpriced(setup)
        for cap in self._caps:
            if not cap.allows(Amount(), self._least):
                why = t("every model call is refused: it reserves its longest answer, {count:token|tokens} or more",
                        count=f"{self._least.tokens:,}")  # fmt: skip
                fix = t("Raise budgets.{name}.tokens, or lower agents.defaults.maxTokens", name=cap.name)
                yield Finding(f"budgets.{cap.name}.tokens", "budget", why, fix)

    def status(self, context: DiagnosticContext) -> Mapping[str, Any]:
        """Return what is spent under each daily budget."""
        used = self._used_today(context.setup.config.home)
        texts = [f"{cap.name}: {describe_use(cap, spent)}" for cap, spent in used]
        return {"budgets": "; ".join(texts)} if texts else {}

    def _used_today(self, home: Path) -> list[tuple[SpendingCap, Amount]]:
        """Read what is spent under each daily budget; write nothing, and return nothing when the state cannot be read."""
        daily = [cap for cap in self._caps if cap.per == "day"]
        path, now, unused = home / "state.db", self._clock.now(), [(cap, Amount()) for cap in daily]
        if not path.exists():
            return unused
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as database:

                def ask(sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
                    return database.execute(sql, values).fetchall()

                return [(cap, spent_under(cap, CallAccount(), now, ask)[0]) for cap in daily]
        except (
            sqlite3.DatabaseError
        ) as why:  # before the first call, or the check of the state names the damage
            return unused if "no such table" in str(why) else []


def _providers_in_use(setup: Setup) -> dict[str, Any]:
    """Return the providers of the plugins in use, by name."""
    host, found = command_host(setup.config.environ, setup=setup), dict[str, Any]()
    for state in setup.plugin_states:
        manifest = state.found.manifest
        if state.state == LOADED and (manifest is None or "provider" in manifest.kinds):
            for provider in (host.ask(state.id) or {}).get("register_providers", ()):
                found.setdefault(provider.name, provider)
    return found


def shortest_answer(settings: Any) -> int:
    """Return a lower bound, in tokens, of the limit of an answer under this config file."""
    limits = [one.max_tokens for one in (settings.agents.defaults, *(settings.agents.list or ()))]
    for provider in settings.providers.values():
        own = provider.model_extra or {}  # its plugin reads this key, in either spelling
        limits += [own.get("maxTokens"), own.get("max_tokens")]
        limits += [one.max_tokens for one in provider.models.values()]
    return min([_LEAST_ANSWER, *(limit for limit in limits if isinstance(limit, int))])
