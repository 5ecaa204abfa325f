"""The hook specifications: every question that claw asks a plugin.

A hook is asked once, at start, and answers with objects (a list, or a generator); nothing asynchronous crosses a hook.
Each plugin is asked apart, so that an error names its plugin. A hook marked "chosen" below has one answer in force: the
operator picks it with ``plugins.slots.SLOT: NAME`` (the object's ``name`` or the plugin's id), else the lowest position
stands. All other answers are joined in order of ``position`` (a number on the object, 100 when absent), then plugin id;
``@hookimpl(tryfirst=True)`` and ``trylast=True`` put a plugin before or behind all positions. ``claw hooks list`` prints
who answers each hook, in which order.

A plugin may specify hooks of its own: its package has an attribute ``hookspecs``, a module (or any object) with functions
marked ``@hookspec`` that take ``config`` and nothing else. Every loaded plugin with a ``@hookimpl`` of that name is asked
after all plugins were loaded, within the same limits; one that fails is quarantined, the others go on. The plugin that
specified the hook reads ``config.answers("register_routes")`` while it runs: pairs of plugin id and object.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from claw.config.plugin_view import PluginConfig
    from claw.contracts.channel import Channel
    from claw.contracts.extensions import (
        Approver,
        ChatCommand,
        ContextEngine,
        Diagnostic,
        ModelSelector,
        Observer,
        ProviderMiddleware,
        Reviewer,
        Service,
        SessionStore,
        TurnLog,
    )
    from claw.contracts.prompt import PromptSection
    from claw.contracts.provider import Provider
    from claw.contracts.tool import Sandbox, Tool

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
def register_provider_middleware(config: "PluginConfig") -> "Iterable[ProviderMiddleware]":
    """Answer with wrappers round every provider: metering, limits, tracing, another way of calling tools.

    ``wrap(provider)`` is called once for each provider. The lowest ``position`` is the outermost: it sees a request first
    and the answer last; one that measures what a service really gets has a high position. What a wrapper does not change
    it passes on, unknown attributes too. Secrets are masked outside of all of them, by core.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_model_selectors(config: "PluginConfig") -> "Iterable[ModelSelector]":
    """Answer with a choice of model and key: which is asked, and what follows when it fails. Chosen; slot ``models``.

    Without one, core asks the first model with its first key, and a failure ends the turn.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_context_engines(config: "PluginConfig") -> "Iterable[ContextEngine]":
    """Answer with what a model is shown of a long conversation. Chosen; slot ``context``.

    Without one, core shows the newest turns that fit into the model's window.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_reviewers(config: "PluginConfig") -> "Iterable[Reviewer]":
    """Answer with reviewers of tool calls: ``before(call, context)`` allows, asks, denies, or changes the arguments.

    The strictest answer wins; changed arguments are handed on to the next reviewer. An optional
    ``after(call, result, context)`` may replace the result. The context names the turn, session, agent, address, sender,
    owner, the tool's traits and what the model has read (:class:`claw.CallContext`).

    A call that cannot run, because there is no such tool or its arguments are invalid, is put only before reviewers with
    the attribute ``all_calls = True``; they are also given the results of calls that did not run. A review may add a
    ``note`` to the result, and with ``deny`` it may end the turn (``end_turn``). Both methods are called in the plugin's
    own thread, about 0.1 ms each.

    A reviewer that raises, or takes longer than 5 s, denies; one whose ``after`` raises makes the result an error.

    .. versionadded:: 0.1
    .. versionchanged:: 0.2 ``before`` and ``after`` are given a context; ``position`` orders them.
    """
    return ()


@hookspec
def register_approvers(config: "PluginConfig") -> "Iterable[Approver]":
    """Answer with a way to ask a person about a call. Chosen; slot ``approvals``.

    Without one, every call that needs a person is refused.

    .. versionadded:: 0.2
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
def register_observers(config: "PluginConfig") -> "Iterable[Observer]":
    """Answer with observers: ``on_event(event)`` is given every event of every turn.

    The classes of events are public (``claw.TurnStarted`` and the others). What an observer raises is logged with the
    plugin's name and never spreads; each has 2 s.

    .. versionadded:: 0.1
    .. versionchanged:: 0.2 the method is named ``on_event``.
    """
    return ()


@hookspec
def register_services(config: "PluginConfig") -> "Iterable[Service]":
    """Answer with background tasks of the gateway process: ``async run(runtime, stop)`` until ``stop`` is set.

    Asked when a gateway starts, not for a chat in the terminal. A service that fails is quarantined, the others go on.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_turn_logs(config: "PluginConfig") -> "Iterable[TurnLog]":
    """Answer with a durable log of turns, from which a restart goes on. Chosen; slot ``turnLog``.

    Without one, a turn that a crash cuts off is lost.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_session_stores(config: "PluginConfig") -> "Iterable[SessionStore]":
    """Answer with a place for transcripts. Chosen; slot ``sessions``. Without one, core keeps JSONL files.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Answer with commands for chats: ``name``, ``summary``, ``owner_only`` and ``async run(arguments, conversation)``.

    The first plugin in order has the name; ``/help`` lists them all. Only what an admitted person typed is a command,
    never quoted or forwarded text.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Answer with checks for ``claw doctor``: ``check(runtime)`` returns findings, each with a fix.

    Asked only by ``claw doctor``; a check that raises is a finding about its plugin.

    .. versionadded:: 0.2
    """
    return ()


@hookspec
def register_commands(app: Any) -> None:
    """Add sub-commands to ``app``, a typer application. Asked only when the command is not one of claw's own.

    .. versionadded:: 0.1
    """
