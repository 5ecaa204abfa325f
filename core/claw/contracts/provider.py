"""The contract of a model provider: one request in, a stream of events out, one HTTP request per attempt."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from claw.contracts.transcript import Assistant, Message


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model by its provider and the provider's own name for it. An empty provider: the file names none."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}" if self.provider else self.model


@dataclass(frozen=True, slots=True)
class Credential:
    """A named key. Its ``repr`` never shows it.

    :param name: profile name, ``main``.
    :param secret: the value that is sent; empty for a local service that needs none.
    :param kind: api_key, token (it expires) or oauth (it expires and the provider's ``refresh`` renews it).
    :param provider: empty = the provider that returned it.
    :param expires_at: seconds since 1970; None = never, as far as known.
    :param refresh: the refresh token.
    :param owner: the agent whose file holds it; empty = shared by all agents.
    """

    name: str
    secret: str = field(repr=False)
    kind: str = "api_key"
    provider: str = ""
    expires_at: float | None = None
    refresh: str = field(default="", repr=False)
    owner: str = ""


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """The instructions, in two parts: a provider with a cache marks the end of ``stable``."""

    stable: str
    volatile: str = ""

    @property
    def whole(self) -> str:
        """Both parts, for a service without a cache boundary."""
        return "\n\n".join(part for part in (self.stable, self.volatile) if part)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. ``parameters`` is plain JSON Schema; each provider translates it to its own
    dialect.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model.

    :param model: the provider's own name of the model, without ``provider/``.
    :param messages: paired: every call is directly followed by its result.
    :param tool_choice: auto, none, required, or the name of one tool.
    :param thinking: off, low, medium, high or adaptive.
    :param max_tokens: of the answer; None = the provider's default.
    """

    model: str
    system: SystemPrompt
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = "auto"
    max_tokens: int | None = None
    thinking: str = "off"
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole answer; always the last event. A stream that ends without it was cut off."""

    message: Assistant


@dataclass(frozen=True, slots=True)
class AnswerBroken:
    """A marker that the answer so far was cut off; another one follows, from its beginning. Made by claw,
    never by a provider.

    :param why: the cause, as text.
    """

    why: str


ModelEvent = TextDelta | ThinkingDelta | Finished | AnswerBroken


class ModelCall(Protocol):
    """A model call: continue from ``messages``; the last event of the stream is ``Finished``."""

    def __call__(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """Call a model once, whichever answers."""


class Provider(Protocol):
    """A model service.

    ``stream`` makes exactly one request, raises only ``ProviderError`` (or ``CancelledError``), and closes
    the connection when it is cancelled or closed early. The vendor's SDK is imported at the first call, in a
    thread.

    It may have ``async refresh(credential) -> Credential``: renews a credential of kind oauth by its
    ``refresh``; claw calls it once for all waiting requests, and stores the result. It raises
    ``ProviderError``; reason auth = permanent.

    It may have ``tool_mode(model) -> str``: ``prompt`` for a model without native tool calls (claw describes
    the tools in the instructions, and passes ``stream`` a request without tools), ``none`` for one that must
    not call tools; else ``native``.

    It may have ``tool_problem(tool) -> str``: why the service refuses a request with this tool (``name``,
    ``parameters``), empty when it does not; such a tool is withheld from its models, and lists of tools say why.

    It may have ``tool_limit(model) -> int | None``: the most tools in a request; ``claw tools list`` and ``claw doctor``
    say which tools of a longer list the model does not get.

    It may have ``price(model) -> claw_provider_sdk.Price | None``: the model's price, None when unknown; and
    ``answer_tokens(request) -> int | None``: the longest answer to a request, thinking included, None when
    nothing limits it. Budgets need both; without the second, a call under a budget is sent with a
    ``max_tokens``.
    """

    name: str

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer ``request``, piece by piece; the last event is :class:`Finished`."""

    def context_tokens(self, model: str) -> int:
        """Return the size of the model's context window in tokens, as far as known."""

    def credentials(self) -> tuple[Credential, ...]:
        """Return the keys to try, in order; one with an empty secret for a service that needs none; empty =
        no key.
        """


ToolMode = Literal["native", "prompt", "none"]


def tool_mode_of(provider: Provider, model: str, configured: str | None = None) -> ToolMode:
    """Return how a model is given tools.

    :param configured: the setting; without one the provider decides (``tool_mode(model)``), then ``native`` holds.
    """
    known = getattr(provider, "tool_mode", None)
    found = configured or (known(model) if callable(known) else "native")
    return "prompt" if found == "prompt" else "none" if found == "none" else "native"


@dataclass(frozen=True, slots=True)
class CallAccount:
    """The account of a model call.

    :param conversation: id of the present session of the key; another one after ``/new``.
    :param plugin: the plugin that caused it: that of the channel of the message.
    :param job: the scheduled job; empty when a person waits for the answer.
    :param purpose: answer, summary, saving or probe.
    """

    agent: str = ""
    session_key: str = ""
    conversation: str = ""
    turn: str = ""
    plugin: str = ""
    job: str = ""
    purpose: str = "answer"


_account: ContextVar[CallAccount] = ContextVar("claw-account", default=CallAccount())  # noqa: B039 - it is frozen


def bill_to(account: CallAccount) -> None:
    """Bill model calls of this task, and of tasks it starts, to this account from now on."""
    _account.set(account)


def current_account() -> CallAccount:
    """Return the account of model calls made now."""
    return _account.get()
