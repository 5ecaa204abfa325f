"""The contracts of the objects that answer hooks, apart from channels, providers, tools and prompt sections.

Everything here is a protocol: an object needs the members, not a base class. Where order matters an object may have
``position`` (a number, 100 when absent); the lowest is asked first, equal ones in the order of their plugin ids.
"""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from claw.contracts.messages import Address, ApprovalRequest, Decision, Inbound, Outbound, Sender
from claw.contracts.provider import Credential, ModelCall, ModelRef, Provider, Request, SystemPrompt
from claw.contracts.transcript import Message, ToolCall

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from claw.contracts.events import Event
    from claw.contracts.tool import Tool

DEFAULT_POSITION = 100.0
"""The position of an object that names none."""

Verdict = Literal["allow", "ask", "deny"]


def position_of(extension: object) -> float:
    """Return the position of an object among those that answer the same hook."""
    position = getattr(extension, "position", DEFAULT_POSITION)
    return float(position) if isinstance(position, int | float) else DEFAULT_POSITION


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """The facts of a tool that decide how a call of it is treated.

    :param plugin: the id of the plugin that registers it.
    :param effects: ``none``, ``idempotent`` or ``once``.
    :param leaves_running: the arguments with which a call leaves a program running, or writes to one; ``*`` = any call.
    :param is_core: it has a reserved name by right: a list that names its plugin does not mean it.
    """

    name: str
    plugin: str = ""
    effects: str = "once"
    owner_only: bool = False
    optional: bool = False
    parallel: bool = True
    is_core: bool = False
    leaves_running: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallContext:
    """The circumstances of a tool call: on whose behalf it runs, and what the model has read before it.

    :param turn: the id of the turn; a new one for each turn.
    :param session_key: the conversation.
    :param owner: the sender is an owner.
    :param tool: None when the model named a tool that does not exist.
    :param provenance: names of the tools of this turn whose results may hold the words of third parties.
    :param settings: the agent's settings.
    :param problem: the error that the model gets because the call cannot run: no such tool, or invalid arguments. Empty
        when it can. Only a reviewer with ``all_calls`` meets one that is not empty.
    """

    turn: str
    session_key: str
    agent: str
    address: Address
    sender: Sender
    owner: bool = False
    tool: ToolTraits | None = None
    provenance: frozenset[str] = frozenset()
    settings: Any = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """The answer of a reviewer about a call.

    :param verdict: ``allow``, ``ask`` (a person decides) or ``deny``.
    :param why: the reason, for the model and for the person who is asked.
    :param arguments: other arguments to run with; None = as they are.
    :param note: a text for the model that is put behind the result; unlike the result it is never cut.
    :param end_turn: with ``deny``: end the whole turn with this text as its error; empty = the model continues.
    """

    verdict: str = "allow"
    why: str = ""
    arguments: dict[str, Any] | None = None
    note: str = ""
    end_turn: str = ""


class Reviewer(Protocol):
    """A plugin's judgement about tool calls. It may have ``position`` and ``after(call, result, context)``.

    With ``all_calls = True`` it is also asked about calls that cannot run (``context.problem``; their arguments are as
    the model wrote them), and its ``after`` is given every result: refusals and errors of such calls too.
    """

    def before(self, call: ToolCall, context: CallContext) -> "Review | Awaitable[Review | None] | None":
        """Judge a call before it runs; None means allow."""


class ProviderMiddleware(Protocol):
    """A wrapper round every provider. The lowest position is the outermost: it sees a request first, an answer last.

    It may have ``at_end(turn_id) -> Sequence[Statement]``: SQL statements for ``state.db`` that are committed together
    with the end of the turn; a :data:`Statement` is the SQL text and its values.

    It may have ``describe_cost(account) -> str``: the cost of a conversation and of its agent today, a line for the
    person; ``account`` is a :class:`claw.CallAccount`.

    It may have ``turn_usage(turn_id) -> tuple[Usage | None, float | None]``: the tokens of the turn's model calls and
    their cost in US dollars, None = unknown; asked once, before ``at_end``, for the event ``TurnEnded``.

    It may have ``describe_malformed(call) -> str``: the error that the model is given for a call named
    ``UNREADABLE_CALL``, which the middleware made in place of one that it could not parse.
    """

    name: str

    def wrap(self, provider: Provider) -> Provider:
        """Return the provider to ask in the place of this one."""


Statement = tuple[str, tuple[Any, ...]]
"""A statement for ``state.db`` and its values."""


@dataclass(frozen=True)
class ModelOptions:
    """The options of one model call.

    :param agent_dir: the folder of the agent, which may hold keys of its own.
    :param session_key: the conversation; a selector keeps one key for a conversation as long as it works.
    :param keys: provider → the name of the key that a person wants used first.
    :param notice: given a line for the person, such as a switch of model.
    :param emit: given events such as ``AttemptFailed``.
    :param may_be_empty: returns true when an answer to these messages may have neither text nor calls.
    :param detached: a call beside the conversation (a summary, a memory flush): it waits for nothing, and its failures
        leave no mark on keys.
    :param key_variables: provider → environment variables of which one may hold its key, for the error without a key.
    :param is_named: a person named the first model: no other one answers because it is unknown or has no working key.
    """

    agent_dir: Path | None = None
    session_key: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    notice: Callable[[str], Awaitable[None]] | None = None
    emit: "Callable[[Event], Awaitable[None]] | None" = None
    may_be_empty: Callable[[Sequence[Message]], bool] = lambda messages: True
    detached: bool = False
    key_variables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_named: bool = False


class ModelSelector(Protocol):
    """The choice of model and key for each call, and of what follows a failure.

    It may have ``read_choice(text, agent, runtime, is_new) -> (model, keys)``, which reads what a person typed to choose
    a model; ``keys`` is provider → the key that is to be used first, ``is_new`` is false for an earlier choice. With
    ``find_model(text, agent, runtime) -> str`` it finds the model by a part of its name, or raises a ``UsageError``.
    """

    name: str

    def select(
        self,
        models: Sequence[ModelRef],
        providers: Mapping[str, Provider],
        request: Request,
        options: ModelOptions,
    ) -> ModelCall:
        """Return a model call that tries these models in order; each answer has the model's name, as ``str(ModelRef)``.

        :param models: the preferred one first.
        :param providers: by name; what their code raises is a ``ProviderError`` by now.
        :param request: all that does not change between calls; model, messages, tool choice and credential are filled in.
        """

    def credentials(self, provider: Provider, agent_dir: Path | None = None) -> Sequence[Credential]:
        """Return the keys that would be tried for a provider, in order."""


@dataclass(frozen=True)
class SideTurn:
    """A turn beside the conversation: model and tools over a history, without a transcript and without a person.

    :param messages: the history; ``prompt`` follows it.
    :param call: asks the model; see ``TurnView.model_call``.
    :param tools: the tools by name. Their calls pass the same gate as any other; one that needs a person is refused.
    :param files: the files that the tools may use; None = those of the turn.
    :param max_steps: limit of model calls.
    :param emit: receives the events; None = no receiver.
    """

    messages: Sequence[Message]
    prompt: Message
    call: ModelCall
    tools: Mapping[str, "Tool"]
    files: Any = None
    max_steps: int = 6
    emit: "Callable[[Event], Awaitable[None]] | None" = None


class TurnView(Protocol):
    """A turn, or a command about a conversation, as a context engine sees it.

    :ivar id: the id of the turn. ``inbound``: its newest message.
    :ivar agent: ``id``, ``dir`` (its folder) and ``settings`` (its section of the config file, with the defaults).
    :ivar session: the transcript, a :class:`claw.runtime.BaseSession`; ``append_entry`` adds a record.
    :ivar past: the messages with which the turn began, each call followed by its result.
    :ivar start: index, in ``past`` and in what the call is given, of the first message of this turn.
    :ivar models: the models that are asked, the preferred one first; ``window_tokens`` is its context window.
    :ivar system: the instructions. ``tools``, ``providers``: by name. ``memory_folder``: for notes of this chat.
    """

    id: str
    session_key: str
    inbound: Inbound
    agent: Any
    session: Any
    past: Sequence[Message]
    start: int
    models: Sequence[ModelRef]
    window_tokens: int
    system: SystemPrompt
    tools: Mapping[str, "Tool"]
    memory_folder: Path

    @property
    def providers(self) -> Mapping[str, Provider]: ...

    def with_metadata(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages as sent, with sender, time and pictures; the wrapped call adds these by itself as well."""

    def model_call(
        self,
        request: Request | None = None,
        models: Sequence[ModelRef] = (),
        providers: Mapping[str, Provider] | None = None,
    ) -> ModelCall:
        """Return a call beside the conversation, by default as the turn makes it. A failure leaves no mark on keys."""

    def window_of(self, model: ModelRef) -> int:
        """Return the context window of a model in tokens."""

    def memory_files(self) -> Any:
        """Return files of which the workspace can be read, and the memory of this chat appended to."""

    async def run_aside(self, turn: SideTurn) -> None:
        """Run a turn beside the conversation, through the tool gate."""

    def unlocked(self) -> "AbstractAsyncContextManager[None]":
        """Leave the session to other processes inside the block; it may be another one afterwards. Not in ``wrap``."""

    async def emit(self, event: "Event") -> None:
        """Report an event to observers and to the channel."""

    async def notice(self, text: str) -> None:
        """Report a line to the person; in a chat an owner reads it beside the answer."""

    def log(self, line: str) -> None:
        """Log a line for the operator."""


class ContextEngine(Protocol):
    """The history that a model is shown: the part that fits, a summary of the rest, the answer to a refusal.

    It is called in the event loop of the turn, so it must not block, except for ``wrap``, which is called in a thread of
    its plugin. An exception that is no ``ClawError`` ends the call with an error that names the plugin. When it takes
    more than a minute before an event, beside the model calls and tools that it waits for, claw goes on without it.

    It may have ``async keep_result(text, limit, folder, name) -> str``: it keeps a tool result that is about to be cut to
    ``limit`` characters whole, below ``folder``, which the agent may read, and returns the line that ends the cut text.
    """

    name: str

    def wrap(self, call: ModelCall, turn: TurnView) -> ModelCall:
        """Return a model call that shows ``call`` a history that fits. Asked once for each turn.

        The call is given the whole history: ``turn.past``, then what this turn added. It must send the newest user
        message, and no tool call without its result.
        """

    async def compact(self, turn: TurnView, focus: str) -> str:
        """Shorten the history now, because a person asked for it; return a line that says what was done.

        :param focus: the topic that matters to the person; may be empty.
        """

    async def before_reset(self, turn: TurnView) -> None:
        """Save what must outlive a conversation that is about to be reset. An exception is logged."""


class Approver(Protocol):
    """A way to ask a person about a tool call.

    ``ask`` runs in the event loop of its plugin and waits as long as it needs; one that blocks that loop is given up, and
    the call is refused. All else runs in claw's own loop.

    It may have ``attach(runtime)``, called before the first turn; ``withdraw(session_key) -> int``, which closes the open
    requests of a conversation; ``ask_at_terminal(write)``, called at a terminal with a function that prints lines. One
    whose requests are answered in chats is a ``claw_channel_sdk.ChatApprover``.
    """

    name: str

    async def ask(self, request: ApprovalRequest) -> Decision:
        """Ask a person and return the answer; an error refuses the call. A turn that is stopped cancels the wait."""


class MessageFilter(Protocol):
    """A filter of messages. It has ``inbound``, ``outbound`` or both.

    The address of a message, its sender, its ids and its delivery key stay as they are.
    """

    def inbound(self, message: Inbound) -> "Inbound | Awaitable[Inbound | None] | None":
        """Return the message, a changed copy, or None to drop it, so that no turn begins."""

    def outbound(self, message: Outbound) -> "Outbound | Awaitable[Outbound | None] | None":
        """Return the reply, a changed copy, or None to drop it."""


class Describer(Protocol):
    """A description of messages for the model; a filter may have it too, or be nothing else."""

    def describe(self, message: Inbound, capabilities: Container[str]) -> str:
        """Return lines that precede the words of a message in the requests of its turn; the history never keeps them.

        Names and words of people, which may imitate claw's own lines, must go through ``fenced_json``, ``one_line`` or
        ``quoted_words`` of ``claw.runtime``. A line end is added where the last one has none.

        :param capabilities: those of the message's channel.
        """


class Observer(Protocol):
    """A listener to the events of turns (``claw.Event`` and its subclasses)."""

    def on_event(self, event: "Event") -> "Awaitable[None] | None":
        """Take note of an event."""


class Service(Protocol):
    """A background task of a gateway: it runs from the start to the stop of the process.

    It may have ``health() -> Mapping[str, Any]``: JSON for ``claw status`` and the health endpoint.
    """

    name: str

    async def run(self, runtime: Any, stop: Any) -> None:
        """Run until ``stop`` (an ``asyncio.Event``) is set."""


class TurnLog(Protocol):
    """The durable record of turns, from which a restart continues. A call that cannot write raises ClawError.

    It may also have ``is_over(turn) -> bool``, true once a turn ended; ``is_repeat(inbound) -> bool``, which records a
    message and is true when it was recorded before; and, when it keeps an outbox, ``chat_api(key, inbound, context,
    runtime) -> ChatApi`` (``claw_tool_sdk``), through which tools send.
    """

    name: str

    def began(self, turn: str, session_key: str, numbers: Sequence[int], again: bool = False) -> None:
        """Record the start of a turn; ``numbers`` are those of the events it answers.

        :param again: it is resumed after a crash.
        """

    def joined(self, turn: str, number: int) -> None:
        """Record that an event that came in while the turn ran is part of it now."""

    def once(self, turn: str, call: str) -> bool:
        """Record the start of a call that must not run twice; return False when it was started before."""

    def not_begun(self, turn: str, call: str) -> None:
        """Delete the record of ``once``: the call waits for a person, so it may run after a crash."""

    def ended(
        self, turn: str, outcome: str, replies: Sequence[Outbound] = (), more: Sequence[Statement] = (), why: str = ""
    ) -> None:  # fmt: skip
        """Record the end of a turn with its replies, in one commit.

        :param outcome: one word: delivered, silent, stopped, skipped, failed.
        :param replies: the replies that must be sent.
        :param more: further statements of this commit.
        :param why: the cause of a failure, or what else the owner should know, such as a switch of model; without
            secrets. A log without this parameter is not given it.
        """


class SessionStore(Protocol):
    """The transcripts of conversations. Without a plugin that provides one, core keeps them in memory.

    It may have ``close()``; ``conversations()``, session key and agent id of each conversation that it has;
    ``holder(key)``, the process that runs a turn in a conversation, None when none does; ``async delete(key)``, which
    removes a conversation; and ``expired(session, message, agent, config)``, true when a message begins a new one.
    """

    name: str

    async def open(self, key: str, agent_id: str) -> Any:
        """Return a session for one turn, of a class derived from ``claw.runtime.BaseSession``; while it is open, the same
        object again."""
