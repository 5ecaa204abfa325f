"""The context of model calls: a turn as context engines see it, the engine in force, and core's own engine."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from claw.agent.loop import LoopCallbacks, run_loop
from claw.agent.models import select_models
from claw.agent.tool_gate import ToolGate
from claw.agent.turn_context import MEMORY, TurnContext
from claw.agent.user_message import TurnMetadata
from claw.contracts.errors import ClawError, PluginError, ProviderError
from claw.contracts.events import Notice, ignore_event
from claw.contracts.extensions import SideTurn, TurnView
from claw.contracts.provider import Finished, ModelCall, ModelEvent, ModelRef, Provider, Request
from claw.contracts.text import result_limit, truncate_blocks
from claw.contracts.transcript import (
    CHARS_PER_TOKEN,
    Message,
    ToolResultMessage,
    estimate_tokens,
    limit_turns,
    newest_turns_within,
)
from claw.host.calls import FIX
from claw.host.isolation import PluginTimeout, describe_exception
from claw.host.worker import is_own_exit
from claw.i18n import t
from claw.security.path_walk import Root
from claw.security.workspace_fs import WorkspaceFiles, workspace_files
from claw.storage.history import BaseSession

PROMPT_SHARE = 0.8
"""Share of the window for instructions and history together; the rest is for the answer."""

_SHORTEST_RESULT_CHARS = 400
TOO_LARGE_REASONS = frozenset({"context_overflow", "request_too_large"})
OMITTED = "{count:older message is|older messages are} not sent to the model: they do not fit into its context window"


class EngineClock:
    """The time that a context engine takes for itself; that of model calls and tools, which it waits for, does not count.

    ``async with clock:`` encloses a wait for the engine, which may take ``seconds``.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self._waits = seconds, 0
        self._timeout: asyncio.Timeout | None = None  # of the wait that is going on

    async def __aenter__(self) -> None:
        self._timeout = await asyncio.timeout(self.seconds).__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        timeout, self._timeout = self._timeout, None
        assert timeout
        try:
            await timeout.__aexit__(*raised)
        except TimeoutError:
            raise PluginTimeout(f"it did not answer within {self.seconds:g} s") from None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock in this block, in which the engine waits for core; then it has its whole time again. Blocks may
        overlap."""
        self._waits += 1
        self._allow(None)
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._allow(self.seconds)

    def _allow(self, seconds: float | None) -> None:
        if self._timeout and not self._timeout.expired():
            self._timeout.reschedule(seconds and asyncio.get_running_loop().time() + seconds)

    def paused_call(self, call: ModelCall) -> ModelCall:
        """Return a model call during which the clock is stopped."""

        async def ask(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
            async with aclosing(call(messages, tool_choice)) as events:  # type: ignore[type-var]
                while True:
                    with self.paused():
                        event = await anext(events, None)
                    if event is None:
                        return
                    yield event

        return ask


class RunningTurn:
    """A turn, or a command about a conversation, for a context engine: see :class:`claw.TurnView`.

    :param gate: the gate of the calls of its tools.
    :param session: held by the caller of this turn, or by :func:`open_turn`.
    :param notices: receives the lines for the person.
    """

    def __init__(
        self,
        gate: ToolGate,
        session: BaseSession,
        past: Sequence[Message],
        start: int,
        metadata: TurnMetadata | None = None,
        notices: list[str] | None = None,
    ) -> None:
        self.gate, self.session, self.past, self.start = gate, session, past, start
        self.metadata = metadata or TurnMetadata(gate.context)
        self.notices = [] if notices is None else notices
        self.context = context = gate.context
        self.runtime, self.emit, self.log = context.runtime, gate.emit, context.runtime.log
        self.id, self.inbound = gate.turn, context.inbound
        self.session_key, self.agent = context.route.session_key, context.agent
        self.models: Sequence[ModelRef] = context.models
        self.window_tokens, self.window_of = context.window_tokens, context.runtime.window_of
        self.system, self.tools = context.system, context.tools
        self.memory_folder = context.notes
        self._is_held = True
        self.clock = EngineClock(self.runtime.worker.timeouts.engine_seconds)

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The providers by name."""
        return {name: one.value for name, one in self.runtime.registry.providers.items()}

    def with_metadata(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages as they are sent."""
        return self.metadata.apply(messages)

    def model_call(
        self,
        request: Request | None = None,
        models: Sequence[ModelRef] = (),
        providers: Mapping[str, Provider] | None = None,
    ) -> ModelCall:
        """Return a call beside the conversation."""
        options = self.context.model_options(detached=True)
        if request is None:
            return self.clock.paused_call(self.context.model_call(options))
        call = select_models(self.runtime.registry, models or self.models, request, options, providers)
        return self.clock.paused_call(call)

    def memory_files(self) -> WorkspaceFiles:
        """Return files of which the workspace can be read, and the memory of this chat appended to."""
        context = self.context
        roots = [Root(context.workspace), Root(context.notes, append_only=True, marks_provenance=True)]
        if context.is_private:  # words of others do not belong in that file
            own = context.agent.dir / "agent" / MEMORY
            roots.append(Root(own, append_only=True, marks_provenance=True))
        return workspace_files(roots, context.workspace, self.runtime.config.home)

    async def run_aside(self, turn: SideTurn) -> None:
        """Run a turn beside the conversation. A call that needs a person is refused without a question."""
        context = replace(self.context, tools=turn.tools, given_files=turn.files)
        read = self.gate.untrusted_tools | self.gate.untrusted_in(turn.messages)
        aside = ToolGate(f"{self.id}f", context, ignore_event, may_ask=False, untrusted_tools=read)
        steps = LoopCallbacks(turn.call, aside.prepare, turn.emit or ignore_event, max_steps=turn.max_steps)
        with self.clock.paused():
            await run_loop(turn.messages, turn.prompt, steps)

    @asynccontextmanager
    async def unlocked(self) -> AsyncIterator[None]:
        """Leave the session to other processes inside the block."""
        self.release()
        yield
        with self.clock.paused():
            self.session = await self.runtime.sessions.open(self.session_key, self.agent.id)
        self._is_held = True

    def release(self) -> None:
        """Release the session, once."""
        if self._is_held:
            self._is_held = False
            self.session.release()

    async def notice(self, text: str) -> None:
        """Report a line to the person."""
        self.notices.append(text)
        await self.emit(Notice(text))


@asynccontextmanager
async def open_turn(context: TurnContext) -> AsyncIterator[RunningTurn]:
    """Open the session of a conversation for a command about it, such as ``/compact``.

    :param context: that a turn would have now.
    :raises BusyError: another process holds the session.
    """
    session = await context.runtime.sessions.open(context.route.session_key, context.route.agent_id)
    past = session.messages
    turn = RunningTurn(ToolGate("", context, ignore_event), session, past, len(past))
    try:
        yield turn
    finally:
        turn.release()


_ENGINE = "its context engine failed: {why}"


async def ask_engine(turn: RunningTurn, method: str, *values: str) -> Any:
    """Call ``compact`` or ``before_reset`` of the context engine in force; None without one.

    :raises ClawError: it failed; the error names its plugin.
    """
    engine = turn.runtime.registry.engine
    if engine is None:
        return None
    try:
        async with turn.clock:
            return await getattr(engine.value, method)(turn, *values)
    except ClawError:
        raise
    except BaseException as why:
        if is_own_exit(why):
            raise
        raise _engine_error(turn, engine.plugin, why) from why


async def before_reset(turn: RunningTurn) -> None:
    """Let the engine in force save what must outlive the conversation; a failure is logged."""
    try:
        await ask_engine(turn, "before_reset")
    except ClawError as why:
        turn.log(str(why))


async def engine_call(call: ModelCall, turn: RunningTurn) -> ModelCall:
    """Return the model call of a turn: ``call`` behind the context engine in force.

    When a plugin's engine hangs before the first event of an answer, core's own takes its place for the rest of the turn.
    """

    def send(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        return call(turn.with_metadata(messages), tool_choice)

    engine, worker = turn.runtime.registry.engine, turn.runtime.worker
    plugin, sent = engine.plugin if engine else "core", turn.clock.paused_call(send)
    own = shown = newest_turns(sent, turn)
    try:
        if engine:
            shown = await worker.call(engine.value.wrap, sent, turn, seconds=turn.clock.seconds, who=plugin)
    except ClawError:
        raise
    except TimeoutError as late:
        await _report_late_engine(turn, plugin, late)
    except Exception as why:
        raise _engine_error(turn, plugin, why) from why

    async def ask(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        nonlocal shown
        turn.metadata.learn(messages, turn.start)
        event: ModelEvent | None = None
        while True:
            stream: Any = None
            try:
                stream = shown(messages, tool_choice)
                while True:
                    async with turn.clock:
                        event = await anext(stream, None)
                    if event is None:
                        return
                    if isinstance(event, Finished) and shown is not own:
                        worker.parts.worked(plugin, _ENGINE)
                    yield event
            except ClawError:
                raise
            except BaseException as why:
                if is_own_exit(why):
                    raise
                if event is not None or not isinstance(why, PluginTimeout):
                    raise _engine_error(turn, plugin, why) from why
                worker.count_timeout(plugin)
                await _report_late_engine(turn, plugin, why)
            finally:
                if close := getattr(stream, "aclose", None):
                    await close()
            shown = own

    return ask


async def _report_late_engine(turn: RunningTurn, plugin: str, why: BaseException) -> None:
    """Report to the person and in the log that core's own engine takes the place of a plugin's."""
    line = t("the context engine of plugin {id} is left out: {why}. The model is sent the newest messages that fit",
             id=plugin, why=describe_exception(why))  # fmt: skip
    _engine_error(turn, plugin, why)
    turn.log(line)
    await turn.notice(line)


def _engine_error(turn: RunningTurn, plugin: str, why: BaseException) -> PluginError:
    """Record that the engine failed, for every list of plugins; return the error."""
    cause = describe_exception(why)
    turn.runtime.worker.parts.failed(plugin, _ENGINE, name="", why=cause)
    return PluginError(plugin, "run", _ENGINE, FIX, why=cause, id=plugin)


def newest_turns(call: ModelCall, turn: TurnView) -> ModelCall:
    """Return a call that is sent the newest turns within the window, long results cut where one turn is too long: core's
    own context engine. Nothing is summarised.
    """
    before = turn.past[: turn.start]
    first = turn.start - len(limit_turns(before, turn.agent.settings.history_limit))
    limit = int(turn.window_tokens * PROMPT_SHARE) - len(turn.system.whole) // CHARS_PER_TOKEN
    is_reported = False

    async def ask(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        nonlocal is_reported
        shown = turn.with_metadata(messages)[first:]
        fitting = newest_turns_within(shown, [estimate_tokens(one) for one in shown], limit)
        if fitting.omitted and not is_reported:
            is_reported = True
            await turn.emit(Notice(t(OMITTED, count=fitting.omitted)))
        stream: Any = call(_cut_results(fitting.messages, limit, turn.window_tokens), tool_choice)
        try:
            async for event in stream:
                yield event
        except ProviderError as refused:
            if refused.reason not in TOO_LARGE_REASONS:
                raise
            raise ProviderError("{why}", reason=refused.reason, where=refused.where, why=refused.problem,
                fix="Start a new conversation (/new), or have it summarised: claw plugins install claw-context",
            ) from refused  # fmt: skip
        finally:
            await stream.aclose()

    return ask


def _cut_results(messages: Sequence[Message], room_tokens: int, window_tokens: int) -> Sequence[Message]:
    """Return the messages with their tool results cut until all of them fit; each keeps some hundred characters."""
    limit = result_limit(window_tokens)
    while sum(map(estimate_tokens, messages)) > room_tokens and limit > _SHORTEST_RESULT_CHARS:
        limit //= 2
        messages = [
            msgspec.structs.replace(one, content=truncate_blocks(one.content, limit))
            if isinstance(one, ToolResultMessage)
            else one
            for one in messages
        ]
    return messages
