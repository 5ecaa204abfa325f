"""Input of the policy: facts about the tools, and the run that requests them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from claw.contracts.messages import Sender
from claw.contracts.tool_schema import schema_problem
from claw.i18n import t
from claw.policy.catalog import CORE_TOOLS, normalise_tool_name

if TYPE_CHECKING:
    from claw.contracts.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolFact:
    """The properties of a registered tool that the policy needs.

    :param plugin: the plugin that owns the tool; None for a core tool, whichever plugin supplies it.
    :param supplier: the plugin that registered it, also for a core tool.
    :param optional: allowed only when an allow list of the run names it.
    :param owner_only: its plugin declares it for owners only; ``catalog.OWNER_ONLY`` lists the names that always are.
    :param assigned_to: the plugin to which ``tools.suppliers`` assigns this name.
    :param missing_setting: dotted key of a required setting that is missing; empty when nothing is missing.
    :param tokens: estimated cost of its description and parameters in a request.
    :param schema_problem: why model services would refuse its parameters; empty when they accept them.
    :param refused_by: each provider that does not take its parameters, with the reason.
    """

    name: str
    plugin: str | None = None
    supplier: str = ""
    optional: bool = False
    owner_only: bool = False
    assigned_to: str = ""
    missing_setting: str = ""
    tokens: int = 0
    schema_problem: str = ""
    refused_by: tuple[tuple[str, str], ...] = ()


def tool_fact(
    tool: "Tool", plugin: str, suppliers: Mapping[str, str], *, first_party: bool = False, lacks: str = ""
) -> ToolFact:
    """Return the facts of a tool. One with a reserved name is a core tool if the operator assigned the name to its
    plugin, or to none and the plugin is of the release train.

    :param suppliers: ``tools.suppliers``: tool name → the plugin that the operator chose for it.
    :param first_party: the plugin is one of the release train (``claw.host.manifest.release_train``).
    :param lacks: as in ``ToolFact``.
    """
    name = normalise_tool_name(tool.name)
    chosen = (to for given, to in suppliers.items() if normalise_tool_name(given) == name)
    handed = normalise_tool_name(next(chosen, ""))
    problem = schema_problem(tool.parameters, tool.description)
    is_core = name in CORE_TOOLS and (normalise_tool_name(plugin) == handed if handed else first_party)
    return ToolFact(
        name=tool.name,
        plugin=None if is_core else plugin,
        supplier=plugin,
        optional=tool.optional,
        owner_only=tool.owner_only,
        assigned_to="" if normalise_tool_name(plugin) == handed else handed,
        missing_setting=lacks,
        schema_problem=problem,
        tokens=0 if problem else definition_tokens(tool.name, tool.description, tool.parameters),
    )


def definition_tokens(name: str, description: str, parameters: Mapping[str, Any]) -> int:
    """Estimate the tokens of the definition of a tool in a request, at four characters a token."""
    line = {"name": name, "description": description, "parameters": parameters}
    return -(-len(json.dumps(line, default=dict, ensure_ascii=False, separators=(",", ":"))) // 4)


def withheld_line(fact: ToolFact) -> str:
    """Return a line about a tool that no request can offer, with the plugin that has it; empty for any other."""
    if not fact.schema_problem:
        return ""
    template = "its tool {tool} is withheld: model services do not accept its parameters: {why}"
    problem = t(template, tool=fact.name, why=fact.schema_problem)
    return t("plugin {id}: {problem}", id=fact.supplier or "claw", problem=problem)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The agent, chat, sender and model of a run: every input of the policy that is not in the config.

    :param agent_id: as configured; empty = the default agent.
    :param channel: empty when the run belongs to none.
    :param group: id of the group chat; None in a direct chat.
    :param owner: the person behind the run is an owner; unknown counts as no.
    :param provider: of the language model; empty = unknown, then no provider layer applies.
    :param depth: 0 for the agent a person talks to, 1 for its sub-agent, and so on.
    """

    agent_id: str = ""
    channel: str = ""
    account: str = "default"
    group: str | None = None
    sender: Sender | None = None
    owner: bool = False
    provider: str = ""
    model: str = ""
    sandboxed: bool = False
    depth: int = 0

    def with_model(self, model: str) -> "RunFacts":
        """Return the same run with another model, given as ``provider/model``."""
        provider, _, name = model.partition("/")
        return replace(self, provider=provider, model=name)
