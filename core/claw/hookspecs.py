"""The wall: every question claw asks a plugin.

A hook is asked once, at start, and answers with objects; nothing asynchronous crosses it. Each plugin is asked
apart, so that blame has a name. What a hook returns may be a list or a generator.

A plugin may specify hooks of its own: its package has an attribute ``hookspecs``, a module (or any object) with functions
marked ``@hookspec`` that take ``config`` and nothing else. Every loaded plugin that has a ``@hookimpl`` of that name is
asked after all plugins were loaded, within the same limits; one that fails is set aside, the others go on. The plugin
that specified the hook reads ``config.answers("register_routes")`` while it runs: pairs of plugin id and thing.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from claw.channel import Channel
    from claw.config.view import PluginConfig
    from claw.prompt import PromptSection
    from claw.provider import Provider
    from claw.sandbox import Sandbox
    from claw.tool import Tool

hookspec = pluggy.HookspecMarker("claw")
hookimpl = pluggy.HookimplMarker("claw")


@hookspec
def register_channels(config: "PluginConfig") -> "Iterable[Channel]":
    """Answer with the chat services this plugin can talk to.

    Asked once, at start, before any message moves; answers are joined in load order.

    :param config: the file as this plugin may see it; take your part with ``config.channel("telegram", Model)``.
    :returns: channels, their names unique in the house; empty when your section is absent.
    :raises ConfigError: a key of yours is wrong. The host sets this plugin aside, says which key and how to mend
        it, and starts the others; ``plugins.entries.ID.required: true`` stops the start.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_providers(config: "PluginConfig") -> "Iterable[Provider]":
    """Answer with the model services this plugin can ask.

    Asked once, when a model of this plugin is configured. Do not import the vendor's SDK here: do it at the first call.

    :param config: take your part with ``config.provider("anthropic", Model)``.
    :returns: providers, their names unique in the house.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_tools(config: "PluginConfig") -> "Iterable[Tool]":
    """Answer with the tools this plugin brings, each required or ``optional=True``.

    With a manifest that names them, asked at the first call of one of them; without, at start.

    :param config: take your part with ``config.plugin(Model)``.
    :returns: tools; one whose name a core tool or an earlier plugin has is skipped, both owners named.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_prompt_sections(config: "PluginConfig") -> "Iterable[PromptSection]":
    """Answer with the pieces of the system prompt this plugin writes.

    Each has a name, a position, says whether it is stable (before the cache boundary), in which modes it stands, and
    renders from facts alone: the same facts must give the same bytes.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_sandboxes(config: "PluginConfig") -> "Iterable[Sandbox]":
    """Answer with the places where commands can run inside walls.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_reviewers(config: "PluginConfig") -> "Iterable[Any]":
    """Answer with reviewers of tool calls: ``before(call)`` allows, asks, denies, or changes the arguments.

    The strictest answer wins. A reviewer that raises, or takes longer than 5 s, denies. An optional
    ``after(call, result)`` may replace the result; one that raises makes it an error.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_filters(config: "PluginConfig") -> "Iterable[Any]":
    """Answer with filters of messages: ``inbound(message)`` and ``outbound(message)`` change or drop one (None).

    A filter that raises, or takes longer than 5 s, leaves the message as it was.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_observers(config: "PluginConfig") -> "Iterable[Any]":
    """Answer with observers: ``hear(event)`` is told what a turn does.

    What it raises is logged with the plugin's name and never spreads; 2 s each.

    .. versionadded:: 0.1
    """
    return ()


@hookspec
def register_commands(app: Any) -> None:
    """Add sub-commands to ``app``, a typer application. Asked only when the command is not one of claw's own.

    .. versionadded:: 0.1
    """
