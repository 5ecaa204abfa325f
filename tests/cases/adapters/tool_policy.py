"""``tool_policy``: the table's configuration becomes a file of ours, which is loaded and asked as a turn asks it.

The table has profiles that our file refuses (a misspelt one is an error there); those are put into the settings behind
the loader's back, as the pure functions must answer for them too.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from claw.contracts.messages import Sender
from claw.policy.catalog import PROFILES
from claw.policy.engine import resolve_tools
from claw.policy.subjects import RunFacts, ToolFact
from claw_admin.policy.judged_run import unmatched_words
from config_files import load_config

UNUSED = {"native": "a mark of the table's maker about the row"}
FUNCTIONS = (
    "claw.policy.engine:resolve_tools",
    "claw.policy.engine:judge_tools",
    "claw.policy.layers:layers_for",
)

AGENT = "tester"
CONFIG = {"tools", "agent", "groups", "sandbox", "agentSandbox", "subagents"}
CONTEXT = {
    "channel", "provider", "model", "group", "sender", "senderIsOwner", "sandboxed", "subagentDepth",
}  # fmt: skip
TOOL = {"name", "plugin", "optional"}
ROW = {"id", "rule", "tools", "config", "context", "expected", "unknown", "note", "expectedOwners", *UNUSED}
"""The fields that are honoured; a row with another one fails."""


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given, context = case["config"], case["context"]
    fields = ((case, ROW), (given, CONFIG), (context, CONTEXT), *((tool, TOOL) for tool in case["tools"]))
    assert not {key for part, known in fields for key in part.keys() - known}, "fields that nothing reads"
    config = loaded(given, context, tmp_path)
    facts = [
        ToolFact(tool["name"], tool["plugin"], tool["plugin"] or "", tool["optional"])
        for tool in case["tools"]
    ]

    judgement = resolve_tools(config, run_of(context), facts)

    assert list(judgement.allowed_names) == case["expected"]
    if "expectedOwners" in case:
        assert [facts[at].plugin for at in judgement.positions] == case["expectedOwners"]
    if "unknown" in case:
        assert {layer: list(words) for layer, words in unmatched_words(judgement).items()} == case["unknown"]


def loaded(given: dict[str, Any], context: dict[str, Any], home: Path) -> Any:
    harness, agent = dict(given.get("tools", {})), dict(given.get("agent", {}))
    strange = [section.pop("profile", None) if unfit(section) else None for section in (harness, agent)]
    by_provider = {
        name: {key: value for key, value in entry.items() if not (key == "profile" and unfit(entry))}
        for name, entry in harness.get("byProvider", {}).items()
    }
    if by_provider:
        harness["byProvider"] = by_provider
    if "sandbox" in given:
        harness["sandbox"] = {"tools": given["sandbox"]}
    if "agentSandbox" in given:
        agent["sandbox"] = {"tools": given["agentSandbox"]}
    if "subagents" in given:
        harness["subagents"] = {"tools": given["subagents"]}
    tree: dict[str, Any] = {"tools": harness, "agents": {"list": [{"id": AGENT, "tools": agent}]}}
    if "groups" in given:
        tree["channels"] = {(context["channel"] or "telegram"): {"groups": given["groups"]}}
    (home / "config.json").write_text(json.dumps(tree), encoding="utf-8")
    config = load_config(home, {})
    for name, entry in given.get("tools", {}).get("byProvider", {}).items():
        if unfit(entry):
            config = with_profile(config, entry["profile"], provider=name)
    if strange[0] is not None:
        config = with_profile(config, strange[0])
    if strange[1] is not None:
        config = with_profile(config, strange[1], agent=True)
    return config


def unfit(section: dict[str, Any]) -> bool:
    return section.get("profile", "full") not in PROFILES


def with_profile(config: Any, profile: str, *, provider: str = "", agent: bool = False) -> Any:
    settings = config.settings
    if agent:
        entry = settings.agents.list[0]
        entry = entry.model_copy(update={"tools": entry.tools.model_copy(update={"profile": profile})})
        agents = settings.agents.model_copy(update={"list": (entry,)})
        return replace(config, settings=settings.model_copy(update={"agents": agents}))
    tools = settings.tools
    if provider:
        section = tools.by_provider[provider].model_copy(update={"profile": profile})
        tools = tools.model_copy(update={"by_provider": tools.by_provider | {provider: section}})
    else:
        tools = tools.model_copy(update={"profile": profile})
    return replace(config, settings=settings.model_copy(update={"tools": tools}))


def run_of(context: dict[str, Any]) -> RunFacts:
    sender = context["sender"]
    return RunFacts(
        agent_id=AGENT,
        channel=context["channel"] or "",
        group=context["group"],
        sender=Sender(**{key: sender.get(key) or "" for key in ("id", "name", "username", "e164")})
        if sender
        else None,
        owner=context["senderIsOwner"],
        provider=context["provider"] or "",
        model=context["model"] or "",
        sandboxed=context["sandboxed"],
        depth=context["subagentDepth"],
    )
