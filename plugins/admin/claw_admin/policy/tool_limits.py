"""The tools of a run that a model's provider leaves out, since its service takes no more in a request."""

from collections.abc import Iterator
from dataclasses import dataclass

from claw import Finding, t
from claw.runtime import App, Judgement, Setup
from claw_config_sdk import Scenario

from claw_admin.policy.judged_run import judge_scenario, model_of

MANY_TOKENS = 20_000
"""Of the tools of a run: a tenth of the context of the usual models, paid with each request."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The tools that one model of a run does not get.

    :param model: ``provider/model``.
    :param limit: the most tools in a request, as its provider declares it (``tool_limit(model)``).
    :param tools: the names that are left out: the last ones of the run's list.
    :param count: of the tools of the run.
    """

    model: str
    limit: int
    tools: tuple[str, ...]
    count: int

    @property
    def text(self) -> str:
        """The line for people."""
        return t(
            "{model} takes {most} tools in a request, and the run has {count}: the last {left} are left out",
            model=self.model, most=self.limit, count=self.count, left=len(self.tools),
        )  # fmt: skip


def tools_left_out(app: App, judged: Judgement) -> Iterator[LeftOut]:
    """Yield what each model of the run does not get."""
    for one in (judged, *judged.fallbacks):
        provider = app.registry.providers.get(one.run.provider)
        limit_of = getattr(provider.value, "tool_limit", None) if provider else None
        try:
            limit = limit_of(one.run.model) if callable(limit_of) else None
        except Exception:  # noqa: BLE001 - third-party code; a limit that it fails to say is unknown
            continue
        names = tuple(one.allowed_names)
        if isinstance(limit, int) and len(names) > limit:
            yield LeftOut(model_of(one), limit, names[limit:], len(names))


def cost_text(judged: Judgement) -> str:
    """Return a sentence about tools that take many tokens of each request; empty when they take fewer."""
    facts = sorted((judged.facts[at] for at in judged.positions), key=lambda fact: -fact.tokens)
    total = sum(fact.tokens for fact in facts)
    if total < MANY_TOKENS:
        return ""
    most = ", ".join(f"{fact.name} ({fact.tokens:,})" for fact in facts[:_NAMED])
    text = "the tools take about {tokens} tokens of each request, most of them {most}"
    return t(text, tokens=f"{total:,}", most=most)


async def limit_findings(setup: Setup) -> list[Finding]:
    """Find models of the default agent that do not get all tools of a run at the terminal, and tools that cost much."""
    async with App(setup, log=lambda line: None) as app:
        judged = judge_scenario(Scenario(), app.runtime)
        texts = [(one.model, one.text) for one in tools_left_out(app, judged)]
        texts += [("tools", text)] if (text := cost_text(judged)) else []
        fix = t("make the list shorter with tools.deny; claw tools list shows the order")
        return [Finding(about, "tools", text, fix, grave=False) for about, text in texts]
