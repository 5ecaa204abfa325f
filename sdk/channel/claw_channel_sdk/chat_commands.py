"""Chat commands, such as ``/status``, for admitted persons in any chat: found, permitted, run.

The commands come from plugins (``register_chat_commands``); core itself has ``/help`` and ``/stop``. A command acts
through a :class:`Conversation`. The input is always a person's own text: never quoted or forwarded text, never a
model's.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from claw import ChatCommand, ClawError, Inbound, PluginError, nearest, t
from claw.runtime import (
    BUILTIN,
    IDLE,
    LOADED,
    App,
    Contribution,
    Override,
    Route,
    TurnContext,
    TurnOptions,
    choose_model,
    describe_exception,
    find_model,
    in_loop,
    package_of,
    plugins_that_bring,
    resolve_turn,
)

from claw_channel_sdk.chat_approver import withdraw_requests

_LINE = re.compile(r"/([A-Za-z][A-Za-z0-9_]*)(?:@[\w.-]+)?(?:\s+(.*))?", re.S)
_SIMILARITY = 0.7
_HOOK = "register_chat_commands"
_FIX = "update it, or disable it: claw config set plugins.entries.{id}.enabled false"


async def find_command(name: str, app: App) -> Contribution[ChatCommand] | None:
    """Return a command; one of core's own without loading plugins, so that nothing delays ``/stop``."""
    for one in app.host.ordered(_HOOK):
        if one.plugin == BUILTIN and one.value.name == name:
            return one
    return (await all_commands(app)).get(name)


async def all_commands(app: App) -> Mapping[str, Contribution[ChatCommand]]:
    """Return the commands by name, in order. The plugins that bring some are loaded at the first use, in a thread."""
    return await asyncio.to_thread(lambda: app.chat_commands)


async def is_long_command(line: str, app: App) -> bool:
    """Return true if a line is a command that waits for a model."""
    parsed = _parse(line)
    command = await find_command(parsed[0], app) if parsed else None
    return command is not None and getattr(command.value, "is_long", False) is True


class _ConversationView:
    """A conversation for a command that runs in another event loop: coroutine methods run in claw's own."""

    def __init__(self, conversation: "Conversation", loop: asyncio.AbstractEventLoop) -> None:
        self._conversation, self._loop = conversation, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._conversation, name)
        return in_loop(self._loop, value) if inspect.iscoroutinefunction(value) else value


class Conversation:
    """The conversation of a chat command: what the command may read, and what it may do.

    A command runs in the event loop of its plugin. The coroutine methods run in claw's own loop, so that they are safe
    there; for other work on the objects of ``runtime`` use :meth:`call`. A chat service overrides :meth:`stop`,
    :meth:`submit` and :meth:`reply`.

    :ivar app: the running claw, for front ends.
    :ivar runtime: its parts: ``config``, ``registry``, ``sessions``, ``log``. Read it; change it by :meth:`call`.
    :ivar inbound: the message that holds the command: its ``address`` and ``sender``.
    :ivar route: the route that it was admitted to.
    """

    def __init__(
        self,
        app: App,
        inbound: Inbound,
        route: Route,
        options: TurnOptions = TurnOptions(),  # noqa: B008
    ) -> None:
        self.app, self.runtime = app, app.runtime
        self.inbound, self.route, self.options = inbound, route, options

    @property
    def session_key(self) -> str:
        """The conversation."""
        return self.route.session_key

    @property
    def agent_id(self) -> str:
        """The agent that answers there."""
        return self.route.agent_id

    @property
    def is_owner(self) -> bool:
        """True if this person is an owner."""
        return self.route.owner

    @property
    def is_direct(self) -> bool:
        """True if no other person is in this chat."""
        return self.inbound.chat_type == "direct"

    @property
    def overrides(self) -> Override:
        """The settings that were chosen for this conversation; empty (``reasoning``: None) = the agent's own."""
        return self.runtime.sessions.overrides.of(self.session_key)

    def set_overrides(self, **fields: Any) -> None:
        """Choose fields of ``overrides``; the others stay.

        :raises UsageError: the model is named with a key that its provider does not have.
        """
        agent = self.runtime.config.agent(self.agent_id)
        choose_model(fields.get("model", ""), agent, self.runtime)
        self.runtime.sessions.overrides.set(self.session_key, **fields)

    def clear_overrides(self) -> None:
        """Return to the agent's settings."""
        self.runtime.sessions.overrides.clear(self.session_key)

    async def commands(self) -> Sequence[tuple[str, str, str]]:
        """Return the chat commands in order: name, summary in the language in use, arguments."""
        return await asyncio.to_thread(self.app.chat_menu)

    async def stop(self) -> str:
        """Stop the running turn and return a text about it; here none can run during a command."""
        return t("nothing is running")

    async def submit(self, text: str) -> None:
        """Submit a text as the sender's next message, after the command; ignored here."""

    async def reply(self, text: str) -> None:
        """Send a text before the answer of the command; ignored here."""

    async def reset(self) -> None:
        """Start a new session; the old one is archived, open approval requests are closed."""
        runtime = self.runtime
        withdraw_requests(runtime, self.session_key)
        session = await runtime.sessions.open(self.session_key, self.agent_id)
        try:
            await session.reset()
        finally:
            session.release()

    def find_model(self, text: str) -> str:
        """Return the model that a person means: a name, or a part of one. :raises UsageError: there is none."""
        return find_model(text, self.runtime.config.agent(self.agent_id), self.runtime)

    async def turn(self) -> TurnContext:
        """Return the context that a turn would have now: agent, models, tools, prompt."""
        return await resolve_turn(self.inbound, self.route, self.runtime, self.options)

    async def call(self, step: Callable[..., Any], *values: Any) -> Any:
        """Call a function or coroutine function in claw's own event loop, and return its result."""
        result = step(*values)
        return await result if inspect.isawaitable(result) else result


async def run_chat_command(line: str, conversation: Conversation) -> str | None:
    """Run the command in a line and return the reply, an error as well; None when the line is an ordinary message.

    :param line: the person's whole text.
    """
    parsed = _parse(line)
    if parsed is None:
        return None
    name, arguments = parsed
    app = conversation.app
    command = await find_command(name, app)
    if command is None:
        return _absence(name, app) or _suggestion(name, arguments, await all_commands(app))
    if refused := _refusal(command.value, arguments, conversation):
        return refused
    return await _run(command, arguments, conversation)


async def _run(one: Contribution[ChatCommand], arguments: str, conversation: Conversation) -> str:
    """Run a command in its plugin's own event loop; return its answer, or its error as a text."""
    app, limits = conversation.app, conversation.runtime.worker.timeouts
    long = getattr(one.value, "is_long", False) is True
    seconds = limits.long_command_seconds if long else limits.command_seconds
    view: Any = _ConversationView(conversation, asyncio.get_running_loop())
    try:
        answer = await app.runtime.worker.call(
            one.value.run, arguments, view, seconds=seconds, who=one.plugin
        )
        if not isinstance(answer, str):
            raise TypeError(f"a chat command answers with text, not {type(answer).__name__}")
    except ClawError as refused:
        return str(refused)
    except Exception as why:  # noqa: BLE001 - a plugin's code
        problem, name = "its chat command {name} failed: {why}", f"/{one.value.name}"
        reason = describe_exception(why)
        app.log(str(PluginError(one.plugin, "run", problem, _FIX, name=name, why=reason, id=one.plugin)))
        return t("{name} failed: an error of plugin {id}. The log says more", name=name, id=one.plugin)
    return answer


def _absence(name: str, app: App) -> str:
    """Return why a command of claw's own packages is missing, and what to do; empty for any other name."""
    id = plugins_that_bring("chatCommands").get(name)
    if id is None:
        return ""
    for state in app.host.plugin_states:
        if state.id == id and state.state not in (LOADED, IDLE):
            with_fix = "{name} comes with plugin {id}, which is {state}. {fix}"
            template = with_fix if state.fix else "{name} comes with plugin {id}, which is {state}"
            return t(template, name=f"/{name}", id=id, state=t(state.state), fix=state.fix)
    return t(
        "{name} comes with {package}, which is not installed: claw plugins install {package}",
        name=f"/{name}",
        package=package_of(id),
    )


def _parse(line: str) -> tuple[str, str] | None:
    """Return name and arguments of a line that may be a command."""
    found = _LINE.fullmatch(line.strip())
    return (found[1].lower(), (found[2] or "").strip()) if found else None


def _suggestion(name: str, arguments: str, known: Mapping[str, Any]) -> str | None:
    """Return a hint for a word that is almost a command and is the whole message; None for an ordinary message."""
    near = nearest(f"/{name}", (f"/{one}" for one in known), _SIMILARITY)
    if arguments or not near or not name.isalpha():
        return None
    return t("unknown command {name}; did you mean {near}?", name=f"/{name}", near=near)


def _refusal(command: ChatCommand, arguments: str, conversation: Conversation) -> str:
    """Return why this person may not use a command here; empty when they may."""
    name = f"/{command.name}"
    if getattr(command, "owner_only", False) and not conversation.is_owner:
        return t("only an owner may use {name}", name=name)
    changes = getattr(command, "changes", "never")
    changes_now = changes == "always" or (changes == "with-arguments" and bool(arguments))
    if changes_now and not (conversation.is_direct or conversation.is_owner):
        return t("only an owner may use {name}: it changes this conversation for everyone", name=name)
    return ""
