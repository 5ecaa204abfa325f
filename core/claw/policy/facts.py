"""What policy is told: the tools, and the run that wants them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from claw.catalog import CORE_TOOLS, normalise
from claw.manifest import ToolLine
from claw.message import Sender
from claw.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolFact:
    """A registered tool, as far as policy cares.

    :param plugin: the plugin whose tool it is; None for a core tool, whoever supplies it.
    :param supplier: the plugin that brings it, also for a core tool.
    :param optional: stands only when an allow list of the run names it.
    :param owner_only: its plugin says that it is for owners; ``catalog.OWNER_ONLY`` holds the names that always are.
    :param lost_to: ``tools.suppliers`` hands this name to that plugin.
    :param lacks: dotted key of a setting without which it cannot work; empty when nothing is missing.
    :param tokens: what its description and parameters cost in a request, estimated.
    """

    name: str
    plugin: str | None = None
    supplier: str = ""
    optional: bool = False
    owner_only: bool = False
    lost_to: str = ""
    lacks: str = ""
    tokens: int = 0


def fact_of(tool: Tool | ToolLine, plugin: str, suppliers: Mapping[str, str], *, lacks: str = "") -> ToolFact:
    """Say whose tool it is: a core tool when its name is kept for ``plugin``, or was handed to it.

    :param suppliers: ``tools.suppliers``: tool name → the plugin that the operator wants it from.
    :param lacks: as in ``ToolFact``.
    """
    name = normalise(tool.name)
    handed = next((normalise(to) for given, to in suppliers.items() if normalise(given) == name), "")
    ours = normalise(plugin) == (handed or CORE_TOOLS.get(name))
    spec = json.dumps(dict(tool.parameters), ensure_ascii=False, separators=(",", ":"))
    return ToolFact(
        name=tool.name,
        plugin=None if ours and name in CORE_TOOLS else plugin,
        supplier=plugin,
        optional=tool.optional,
        owner_only=tool.owner_only,
        lost_to="" if ours else handed,
        lacks=lacks,
        tokens=(len(tool.name) + len(tool.description) + len(spec)) // 4,
    )


@dataclass(frozen=True, slots=True)
class Run:
    """Who asks, where, with which model: all that decides beside the file.

    :param agent_id: as configured; empty = the default agent.
    :param channel: empty when the run belongs to none.
    :param group: id of the group chat; None in a direct chat.
    :param owner: the person behind the run is an owner; unknown counts as no.
    :param provider: of the language model; empty = unknown, then no provider layer applies.
    :param depth: 0 for the agent a person talks to, 1 for its sub-agent, and so on.
    :param refused: tools whose schema this provider will not take, each with the reason.
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
    refused: tuple[tuple[str, str], ...] = ()

    def on(self, model: str) -> "Run":
        """The same run with another model, given as ``provider/model``."""
        provider, _, name = model.partition("/")
        return replace(self, provider=provider, model=name)
