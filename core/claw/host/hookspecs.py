"""The hook specifications: every question that claw asks a plugin.

A hook is asked once and answers with objects (a list, or a generator); nothing asynchronous crosses a hook. Each
plugin is asked apart, so that an error names its plugin. ``config`` is the config file as this plugin may see it
(:class:`claw.PluginConfig`); a plugin reads its own settings with ``config.plugin(Model)``. A ``ConfigError`` that a
hook raises quarantines the plugin with the key and the fix, and the others start; with ``plugins.entries.ID.required:
true`` the start stops. Each hook has 10 s.

Answers are joined in order of ``position`` (a number on the object, 100 when absent), then plugin id;
``@hookimpl(tryfirst=True)`` and ``trylast=True`` put a plugin before or behind all positions. Of a hook with a *slot*
one answer is in force: the operator chooses it with ``plugins.slots.SLOT: NAME`` (the object's ``name`` or the
plugin's id), else it is that of claw's own plugin, else the first in order. ``claw hooks list`` prints who answers each
hook, in which order.

A plugin may specify hooks of its own: its package has an attribute ``hookspecs``, a module (or any object) with
functions marked ``@hookspec`` that take ``config`` and nothing else. Every loaded plugin with a ``@hookimpl`` of that
name is asked after all plugins were loaded, within the same limits; one that fails is quarantined, the others go on.
The plugin that specified the hook reads ``config.answers("register_routes")`` while it runs: pairs of plugin id and
object.

The fields of the page of each hook: ``when`` the hook is asked and its objects are called, the ``order`` of the
answers, the ``limits`` of the objects' code, the consequence of a ``failure``, and the ``default`` when no plugin
answers.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from claw.config.plugin_view import PluginConfig
    from claw.contracts import diagnostics, extensions
    from claw.contracts.channel import Channel, ChatCommand
    from claw.contracts.prompt import PromptSection
    from claw.contracts.provider import Provider
    from claw.contracts.tool import Sandbox, Tool

hookspec = pluggy.HookspecMarker("claw")
hookimpl = pluggy.HookimplMarker("claw")


@hookspec
def register_channels(config: "PluginConfig") -> "Iterable[Channel]":
    """Contribute chat services: the accounts in which people write and read.

    ``name`` (text), ``capabilities`` (set of words), ``limits``, ``async run(inbox)``, ``async send(outbound)``;
    everything of :class:`claw_channel_sdk.OptionalChannelMethods` as the service supports it.

    :param config: take your part with ``config.channel("telegram", Model)`` or ``claw_channel_sdk.read_accounts``.
    :returns: one object for each account; none when the section is absent. Names are unique.
    :when: at the start of a gateway, when ``channels.NAME`` is configured; ``run`` then listens until it is
        cancelled.
    :limits: ``run`` none; ``send`` 30 s; a cancelled ``run`` has 1 s to end.
    :failure: a channel that stops is started again with growing pauses, and quarantined after five times in a row.
    :default: no chat service; ``claw chat`` still talks to the terminal. Since 0.1.

    Example::

        if settings := config.channel("acme", AcmeSettings):
            yield AcmeChannel(settings, config.http(settings.base_url))
    """


@hookspec
def register_providers(config: "PluginConfig") -> "Iterable[Provider]":
    """Contribute model services.

    ``name`` (text), ``stream(request)`` (an async iterator of model events), ``context_tokens(model)`` (an int) and
    ``credentials()`` (the keys to try, in order).

    :param config: take your part with ``config.provider("anthropic", Model)``.
    :returns: providers; names are unique.
    :when: at start, when a model of this plugin is configured. Import the vendor's library at the first call, not
        here.
    :limits: 3600 s between two events of one answer; the provider has shorter limits of its own.
    :failure: what ``stream`` raises becomes a ``ProviderError`` that names the provider; the model selector continues
        from it.
    :default: no models; the error names the packages that bring them. Since 0.1.

    Example::

        yield Acme(config.provider("acme", AcmeSettings) or AcmeSettings())
    """


@hookspec
def register_tools(config: "PluginConfig") -> "Iterable[Tool]":
    """Contribute tools: functions that a model may call, marked with ``@tool``.

    :param config: take your part with ``config.plugin(Model)``.
    :returns: tools (:class:`claw.Tool`), at most 500.
    :when: with a manifest that declares them, at the first call of one of them; without one, at start.
    :order: the first plugin in load order has a name; a later tool of that name is skipped, and both owners are
        named.
    :limits: ``timeout_seconds`` of the tool; none by default.
    :failure: the model gets the error as the result, and the turn continues.
    :default: the model only answers. Since 0.1.

    Example::

        @tool(optional=True, effects="once", description="Restart a service.")
        async def acme_restart(name: str) -> str:
            return f"{name} is restarting"
    """


@hookspec
def register_prompt_sections(config: "PluginConfig") -> "Iterable[PromptSection]":
    """Contribute sections of the system prompt.

    ``PromptSection(name, position, render)``: ``render(facts)`` returns the text with its heading. A ``stable``
    section with a position below 195 is before the cache boundary: it depends on the facts of the conversation only, and
    the same facts give the same bytes. Everything behind the boundary is not cached: it is sent again with each request.

    :returns: sections; one with the name of a section of core replaces it.
    :when: rendered for each turn; the text of a stable section is kept for up to 3 s.
    :order: ``position`` in the prompt (claw's own: 10, 20 …), which ``prompt.positions`` of the config file may change.
    :limits: 5 s for all sections of a plugin, 24,000 characters each, in the plugin's own thread.
    :failure: the section is left out, and ``claw prompt show`` names the error.
    :default: the sections of claw-prompt; without it, the five short ones of core. Since 0.1.

    Example::

        yield PromptSection("mood", 150, lambda facts: "## Mood\\nBe friendly and brief.")
    """


@hookspec
def register_sandboxes(config: "PluginConfig") -> "Iterable[Sandbox]":
    """Contribute isolated environments for the commands of tools.

    ``name`` (text), ``async probe()`` (empty text = it works here, else the reason) and ``wrap(argv, *, workspace,
    environment)`` (the command line that runs ``argv`` with write access below ``workspace`` only).

    :when: for each command of an agent whose ``sandbox.mode`` asks for isolation.
    :order: ``sandbox.backend`` names the one to use; else the first whose probe succeeds.
    :limits: ``probe`` is asked before the first turn that needs it, for 10 seconds at most, and again after a failure.
        ``wrap`` is called in the turn's own thread: it must not block.
    :failure: the turn fails when no sandbox works; the command does not run when ``wrap`` raises.
    :default: ``sandbox.mode`` other than ``off`` is an error; commands never run without the isolation that is
        configured. Since 0.1.

    Example::

        def wrap(self, argv, *, workspace, environment):
            return ["bwrap", "--ro-bind", "/", "/", "--bind", str(workspace), str(workspace), *argv]
    """


@hookspec
def register_provider_middleware(config: "PluginConfig") -> "Iterable[extensions.ProviderMiddleware]":
    """Contribute wrappers round every provider: metering, limits, tracing, another way of calling tools.

    ``name`` (text) and ``wrap(provider)``, which returns a provider. It passes on what it does not change: attributes
    that it does not know, each event as soon as it comes, errors, and the closing of a stream. Secrets are masked
    outside of it.

    :when: ``wrap`` once for each provider, at start; the wrapped ``stream`` for every model call, also for summaries.
    :order: the lowest ``position`` is the outermost: it sees a request first and the answer last. One that measures
        what a service really gets has a high position.
    :limits: none of its own; it runs in the turn's own loop and must not block.
    :failure: an exception of ``wrap`` quarantines the plugin; one of ``stream`` is a failed model call.
    :default: requests reach the provider as they are: no ledger, no budgets. Since 0.2.

    Example::

        def wrap(self, provider):
            return TimedProvider(provider)  # its stream measures; __getattr__ passes on the rest
    """


@hookspec
def register_model_selectors(config: "PluginConfig") -> "Iterable[extensions.ModelSelector]":
    """Contribute the choice of model and key for each call, and of the next one after a failure.

    ``name`` (text), ``select(models, providers, request, options)``, which returns a ``ModelCall``, and
    ``credentials(provider, agent_dir)``, the keys that would be tried, in order.

    :when: ``select`` once for each turn and each call beside it (a summary, a memory flush).
    :order: slot ``models``: one is in force.
    :limits: none of its own; it runs in the turn's own loop and must not block.
    :failure: the error ends the turn.
    :default: the first model that has a key, with its first key; a failure ends the turn. Since 0.2.

    Example::

        def select(self, models, providers, request, options):
            first = random.choice(models)
            ask, own = providers[first.provider].stream, replace(request, model=first.model)
            return lambda said, choice: ask(replace(own, messages=tuple(said), tool_choice=choice))
    """


@hookspec
def register_context_engines(config: "PluginConfig") -> "Iterable[extensions.ContextEngine]":
    """Contribute the part of a long conversation that a model is shown.

    ``name`` (text), ``wrap(call, turn)``, which returns a ``ModelCall`` with a history that fits, ``async
    compact(turn, focus)``, which shortens the history now and returns a line for the person, and ``async
    before_reset(turn)``. ``turn`` is a :class:`claw.TurnView`. A call is never separated from its result, and the newest
    message is always shown. An optional ``async keep_result(text, limit, folder, name)`` keeps a tool result that is too
    long, and returns the line that ends its cut text.

    :when: ``wrap`` once for each turn; ``compact`` on ``/compact``; ``before_reset`` before ``session.reset`` is due.
    :order: slot ``context``: one is in force.
    :limits: none of its own; it runs in the turn's own loop and must not block.
    :failure: an error that names the plugin ends the turn; one of ``before_reset`` or ``keep_result`` is logged.
    :default: the newest turns that fit the window, results cut; ``/compact`` names claw-context. Since 0.2.

    Example::

        def wrap(self, call, turn):
            return lambda messages, tool_choice: call(limit_turns(messages, 20), tool_choice)
    """


@hookspec
def register_reviewers(config: "PluginConfig") -> "Iterable[extensions.Reviewer]":
    """Contribute reviewers of tool calls, which allow, refuse or change a call, or put it before a person.

    ``before(call, context)`` returns None or a :class:`claw.Review`: the strictest verdict wins, and changed
    arguments are passed on to the next reviewer; a ``note`` is added to the result, and with ``deny`` a text in
    ``end_turn`` ends the turn, as its error. An optional ``after(call, result, context)`` may return another
    result. Both may be async; neither changes its arguments in place. With ``all_calls = True`` a reviewer also
    gets the calls that cannot run (:attr:`claw.CallContext.problem`).

    :when: for every tool call that the policy allows, before it runs, and after it.
    :order: ``position``; a reviewer that compares what the model wrote has a low one.
    :limits: 5 s for each call, in the plugin's own thread; about 0.1 ms for the thread.
    :failure: a reviewer that raises or is late denies; one whose ``after`` does makes the result an error.
    :default: policy alone decides. Since 0.1; in 0.2 ``before`` and ``after`` are given a context, and ``position``
        orders them.

    Example::

        def before(self, call, context):
            if call.name == "exec" and not context.owner:
                return Review("ask", "a person other than the owner wants to run a command")
    """


@hookspec
def register_approvers(config: "PluginConfig") -> "Iterable[extensions.Approver]":
    """Contribute a way to ask a person about a tool call.

    ``name`` (text) and ``async ask(request)``, which shows the request, waits and returns a ``Decision``.

    :when: for each call that the policy, a setting or a reviewer puts before a person.
    :order: slot ``approvals``: one is in force.
    :limits: it waits as long as it needs, in its own loop, which it must not block; it is cancelled with the turn.
    :failure: the call is refused.
    :default: every such call is refused, and the text names the package that asks. Since 0.2.

    Example::

        async def ask(self, request):
            return await self.pager.question(request)
    """


@hookspec
def register_filters(config: "PluginConfig") -> "Iterable[extensions.MessageFilter | extensions.Describer]":
    """Contribute filters of messages, which change a message, drop it, or describe it to the model.

    ``inbound(message)`` and ``outbound(message)`` return it, a changed copy, or None to drop it; its address, sender, ids
    and key stay. ``describe(message, capabilities)`` returns lines before its words: :class:`claw.Describer`.

    :when: ``inbound`` for each message before its turn; ``outbound`` for each reply before it enters the outbox.
    :order: ``position``; each filter is given what the one before it returned.
    :limits: 5 s, in the plugin's own thread, sync or async; ``describe`` is sync in the turn's own and must not block.
    :failure: the message stays as it was, and the log names the plugin.
    :default: messages are not changed; claw-gateway describes those of chats. Since 0.1, ``describe`` since 0.2.

    Example::

        def outbound(self, message):
            return replace(message, text=message.text.replace("**", ""))
    """


@hookspec
def register_observers(config: "PluginConfig") -> "Iterable[extensions.Observer]":
    """Contribute observers of turns.

    ``on_event(event)``, sync or async, is given every event of every turn: :class:`claw.TurnStarted` and the other
    classes of :class:`claw.Event`. New classes may come with each version, so an observer ignores those that it does
    not know.

    :when: while a turn runs; the events of one turn come in order.
    :order: ``position``.
    :limits: 2 s for each event, in the plugin's own thread.
    :failure: the log names the plugin; the turn continues.
    :default: no observer. Since 0.1; in 0.2 the method is named ``on_event``.

    Example::

        def on_event(self, event):
            if isinstance(event, TurnEnded):
                self.turns += 1
    """


@hookspec
def register_services(config: "PluginConfig") -> "Iterable[extensions.Service]":
    """Contribute background tasks of the gateway process.

    ``name`` (text) and ``async run(runtime, stop)``, which runs until ``stop`` (an ``asyncio.Event``) is set; an
    optional ``health()`` returns plain data for ``claw status``.

    :when: from the start to the stop of a gateway; not for a chat in the terminal.
    :order: all run side by side.
    :limits: it shares the gateway's event loop and must not block it; after ``stop`` it has 1 s, then it is
        cancelled.
    :failure: the plugin is quarantined, and the other services go on.
    :default: the gateway serves its channels only. Since 0.2.

    Example::

        async def run(self, runtime, stop):
            async with self.listening():
                await stop.wait()
    """


@hookspec
def register_turn_logs(config: "PluginConfig") -> "Iterable[extensions.TurnLog]":
    """Contribute a durable log of turns, from which a restart continues.

    ``name`` (text), ``began``, ``joined``, ``once`` (false when the call was started before, also by the process
    before), ``not_begun`` and ``ended``, which writes the outcome, the replies and the statements of others in one
    commit.

    :when: at the start of a turn, before each call that must not run twice, and at the end of the turn.
    :order: slot ``turnLog``: one is in force.
    :limits: every call returns when the record is written; it blocks the turn, so it takes microseconds.
    :failure: a call that cannot write raises ``ClawError``; the turn waits and tries again.
    :default: a log of this process only: a turn that a crash cuts off is lost. Since 0.2.

    Example::

        def once(self, turn, call):
            return self.database.write("INSERT OR IGNORE INTO acme_calls VALUES (?, ?)", turn, call) == 1
    """


@hookspec
def register_session_stores(config: "PluginConfig") -> "Iterable[extensions.SessionStore]":
    """Contribute a place for the transcripts of conversations.

    ``name`` (text), ``async open(key, agent_id)``, which returns a session of a class derived from
    :class:`claw.runtime.BaseSession` (``write``, ``reset``; perhaps ``flush``, ``release``), and perhaps ``close()``.

    :when: ``open`` at the start of each turn, and for commands that show or reset a conversation.
    :order: slot ``sessions``: one is in force.
    :limits: 30 s for ``open``; the session runs in the turn's own loop.
    :failure: the error ends the turn before a model is called, and names the plugin.
    :default: core keeps conversations in memory, and says so; claw-sessions keeps each one in a file. Since 0.2.

    Example::

        async def open(self, key, agent_id):
            return self.opened.setdefault(key, AcmeSession(key, agent_id, "1", self.rows(key)))
    """


@hookspec
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Contribute commands that people type in chats, ``/name``.

    ``name`` (up to 32 lower-case letters, digits and underscores), ``summary`` (a line) and ``async run(arguments,
    conversation)``, which returns the answer; ``conversation`` is a :class:`claw_channel_sdk.Conversation`. Optional:
    ``usage`` (the arguments, for the help), ``owner_only`` (bool), ``changes`` (``never``, ``with-arguments``,
    ``always``: in a group only an owner may then use it), ``is_long`` (it waits for a model), ``position``.
    ``claw.runtime.FunctionCommand`` makes a command of a function.

    :when: at the first word with a slash; only what an admitted person typed is a command, never quoted or forwarded
        text. The plugin is loaded for it only if its manifest has the kind ``chat-command``.
    :order: the first plugin in order has the name, core has ``/help`` and ``/stop``; a log line names the other one.
        ``/help`` and the menus of channels list all commands.
    :limits: 30 s, with ``is_long`` 1 h; it runs in the event loop of its plugin. The coroutine methods of the
        conversation run in claw's own loop, and ``conversation.call`` runs other work there.
    :failure: the text of a ``ClawError`` is the answer; any other failure is an answer and a log line with its plugin.
    :default: ``/help`` and ``/stop``; another command of claw says which package provides it. Since 0.2.

    Example::

        async def run(self, arguments, conversation):
            return f"pong {arguments}"
    """


@hookspec
def register_diagnostics(config: "PluginConfig") -> "Iterable[diagnostics.Diagnostic]":
    """Contribute checks of ``claw doctor``.

    ``name`` (text) and ``check(context)``, sync or async, which returns findings (:class:`claw.Finding`), each with a
    fix. A check changes nothing, and asks the network only when ``context.online``. No other hook of yours is asked.
    With ``subject = "channels"``, ``claw doctor CHANNEL`` asks it; ``status(context)`` adds facts to ``claw status``;
    ``check_config(setup)`` adds findings to ``claw config validate`` and to every command that judges the config file;
    with ``configChecks: true`` in the manifest also to what chats and the gateway print at their start.

    :when: asked by these commands only, while the config file is valid.
    :order: ``position``.
    :limits: 60 s; 10 minutes online.
    :failure: a check that raises is a finding about its plugin.
    :default: the checks of claw's own plugins. Since 0.2.

    Example::

        def check(self, context):
            return [] if self.key else [Finding("acme", "no-key", "acme has no key", "set ACME_KEY")]
    """


@hookspec
def register_commands(app: Any) -> None:
    """Add commands to ``app``, a typer application; the manifest names them in ``commands``.

    :param app: ``app.command("greet")(greet)`` makes ``claw greet``; ``app.command("plugins audit")(audit)`` a
        sub-command of any group; ``app.add_typer(group, name="acme")`` a group. ``app.info.name``: the command typed.
    :when: one of the commands in the manifest is typed; only its plugin is imported. Lists and help read manifests.
    :order: a name that core or the owner of a group has stays with it; then load order, the first plugin has the name.
    :limits: none: a person waits for the command.
    :failure: a ``ClawError`` is printed in one line; another exception names the plugin.
    :default: core's own commands. Since 0.1.

    Example::

        @app.command()
        def greet(name: str):
            typer.echo(f"Good day, {name}.")
    """
