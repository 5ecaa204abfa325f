"""The contract of a model service: one request in, a stream of events out, one request on the wire per attempt."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from claw.auth import Credential
from claw.errors import ConfigError, ProviderError
from claw.transcript import Assistant, Message


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
    """A tool as a model sees it. ``parameters`` is plain JSON Schema; each provider makes its own dialect of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model.

    :param model: the provider's own name of the model, without ``provider/``.
    :param messages: paired: every call has its result right behind it.
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
    """More words of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole answer; always the last event. A stream that ends without it was cut."""

    message: Assistant


@dataclass(frozen=True, slots=True)
class BrokenOff:
    """The answer so far broke off; what follows is another one, from its beginning. Made by claw, never by a provider.

    :param why: what broke it off, in words.
    """

    why: str


ModelEvent = TextDelta | ThinkingDelta | Finished | BrokenOff


class Ask(Protocol):
    """Ask some model to go on from ``messages``; the last event of the stream is ``Finished``."""

    def __call__(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """One model call, whoever answers it."""
        ...


class Provider(Protocol):
    """A model service.

    ``stream`` makes exactly one request, raises only ``ProviderError`` (or ``CancelledError``), and closes the
    connection when it is cancelled or closed early. The vendor's SDK is imported at the first call, in a thread.

    It may have ``async refresh(credential) -> Credential``: makes a credential of kind oauth anew, from its ``refresh``;
    claw asks once, whoever waits for it, and keeps what comes back. It raises ``ProviderError``; reason auth = for good.

    It may have ``tool_mode(model) -> str``: ``prompt`` for a model that has only words (claw tells it of the tools in its
    instructions, and hands ``stream`` a request without tools), ``none`` for one that shall only talk; else ``native``.

    It may have ``price(model) -> Price | None``: what the model costs, None when that is not known; and
    ``answer_tokens(request) -> int | None``: the longest answer to a request, thoughts included, None when nothing
    limits it. Caps need both; without the second, a call under a cap is sent with a ``max_tokens``.
    """

    name: str

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer ``request``, piece by piece; the last event is :class:`Finished`."""
        ...

    def context_tokens(self, model: str) -> int:
        """How many tokens ``model`` can read, as far as known."""
        ...

    def credentials(self) -> tuple[Credential, ...]:
        """The keys to try, in order; one with an empty secret for a service that needs none; empty = no key."""
        ...


class Unusable:
    """A provider with a wrong key in the file, in the place of what it would be, where others of the plugin are sound."""

    def __init__(self, name: str, why: ConfigError) -> None:
        self.name, self.why = name, why

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Never asked: it has no key."""
        raise ProviderError("{why}", reason="bad_request", where=self.name, why=self.why)
        yield  # it is a stream

    def context_tokens(self, model: str) -> int:
        """Nobody knows, and nothing is sent."""
        return 0

    def credentials(self) -> tuple[Credential, ...]:
        """:raises ConfigError: the key in the file, and what is wrong with it."""
        raise self.why


class VendorClients:
    """The clients of a vendor's SDK, one for each key. The SDK is imported at the first, in a thread: it takes a second.

    :param module: where its client is; ``package`` is its name on the index.
    :param make: ``make(sdk, secret)`` makes a client; the secret is empty when there is no key.
    :param wanted: what to install when it is missing: ``claw-acme[sdk]``.
    """

    def __init__(self, module: str, package: str, wanted: str, make: Callable[[Any, str], Any]) -> None:
        self._module, self._package, self._wanted, self._make = module, package, wanted, make
        self._made: dict[Credential | None, Any] = {}

    async def of(self, key: Credential | None) -> Any:
        """The client of a key.

        :raises ProviderError: the SDK is not there, with the command that brings it.
        """
        if key not in self._made:
            try:
                sdk = await asyncio.to_thread(import_module, self._module)
            except ImportError as missing:
                from claw.lifecycle.environment import pip_command  # what it imports, only this error needs

                raise ProviderError(
                    "{package} is not installed", fix="run: {command}", reason="bad_request", package=self._package,
                    command=shlex.join([*pip_command(), "install", self._wanted]),
                ) from missing  # fmt: skip
            if key not in self._made:
                self._made[key] = self._make(sdk, key.secret if key else "")
        return self._made[key]
