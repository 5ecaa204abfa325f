"""The judgement of one run that options name, from the function that a turn uses."""

from typing import Any, Protocol

from claw.runtime import (
    PLUGINS_GROUP,
    TERMINAL,
    Config,
    Judgement,
    RunFacts,
    ToolFact,
    ToolMatcher,
    candidates,
    configured_owners,
    is_owner,
    resolve_tools,
)
from claw_config_sdk import Scenario, sender_of


class PolicyContext(Protocol):
    """The configuration and tools against which a scenario is judged: from file and manifests, or from a
    running app.
    """

    @property
    def config(self) -> Config: ...
    @property
    def default_model(self) -> str: ...
    @property
    def facts(self) -> tuple[ToolFact, ...]: ...


def judge_scenario(asked: Scenario, ground: PolicyContext) -> Judgement:
    """Return the judgement of that run, from the function that a turn uses.

    :raises UsageError: there is no such agent.
    """
    config = ground.config
    agent = config.agent(asked.agent)
    choice = agent.settings.model
    models = candidates(
        asked.model,
        (choice and choice.primary) or ground.default_model,
        choice.fallbacks if choice else (),
        config.settings.models.aliases,
        () if asked.model else None,
    )
    person = sender_of(asked)
    listed = person is not None and is_owner(asked.channel, person, configured_owners(config.settings))
    owner = asked.channel == TERMINAL or listed
    boxed = agent.settings.sandbox.mode != "off"
    run = RunFacts(
        agent_id=agent.id,
        channel=asked.channel,
        account=asked.account,
        group=asked.group or None,
        sender=person,
        owner=owner if asked.owner is None else asked.owner,
        sandboxed=boxed if asked.sandbox is None else asked.sandbox,
        depth=asked.depth,
    ).with_model(str(models[0]) if models else "")
    return resolve_tools(config, run, ground.facts, [str(model) for model in models[1:]])


def model_of(found: Judgement) -> str:
    """Return the model of a judgement, as ``provider/model``."""
    return f"{found.run.provider}/{found.run.model}"


def judged_models(judged: Judgement) -> str:
    """Return the models that were judged, the one that answers first in front."""
    return ", ".join(map(model_of, (judged, *judged.fallbacks)))


def run_data(judged: Judgement) -> dict[str, Any]:
    """Return the run that was judged as plain data, for ``--json``."""
    run = judged.run
    return {
        "agent": run.agent_id, "channel": run.channel, "account": run.account, "group": run.group,
        "sender": run.sender.id if run.sender else "", "owner": run.owner, "sandbox": run.sandboxed,
        "depth": run.depth, "models": judged_models(judged).split(", "),
    }  # fmt: skip


def unmatched_words(judged: Judgement) -> dict[str, tuple[str, ...]]:
    """Return the words of each layer's allow lists that name nothing, normalised and sorted.

    Sandbox and sub-agent lists are skipped: many agents share them.
    """
    matcher = ToolMatcher(judged.loaded)
    known = (PLUGINS_GROUP, "*")
    found = {
        layer.name: {e.word for e in layer.opt_ins if e.word not in known and not matcher.match(e.word)}
        for layer in judged.layers
        if not layer.strict
    }
    return {name: tuple(sorted(words)) for name, words in found.items() if words}
