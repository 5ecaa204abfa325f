"""A tool: what a model may call, made from a typed function, and what it is given when it runs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from claw.transcript import Image, Text

Effects = Literal["none", "idempotent", "once"]


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answers (exported as ``claw.ToolResult``).

    :param content: text or blocks for the model; a plain string is one text block.
    :param details: for programs (events, ``--json``); never sent to a model.
    :param ends_turn: when every call of a batch says so, the run ends without asking the model again.
    """

    content: str | tuple[Text | Image, ...]
    details: Any = None
    is_error: bool = False
    ends_turn: bool = False

    @property
    def blocks(self) -> tuple[Text | Image, ...]:
        """The content as blocks."""
        return (Text(self.content),) if isinstance(self.content, str) else self.content


@dataclass(frozen=True, slots=True)
class Tool:
    """A named function with a JSON Schema for its arguments.

    :param parameters: JSON Schema of type object.
    :param run: called with validated arguments and a context; answers with str, dict or Result.
    :param optional: an operator must name it (or its plugin) in an allow list.
    :param owner_only: vanishes for senders who are not an owner.
    :param effects: none and idempotent calls may run again after a crash; a ``once`` call with unknown outcome is not.
    :param parallel: may run beside other calls of the same answer.
    :param timeout_seconds: None = no limit of its own.
    :param plugin: id of the plugin that brought it; set by the host, never by the plugin.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[dict[str, Any], "ToolContext"], Awaitable[Any]]
    optional: bool = False
    owner_only: bool = False
    effects: Effects = "none"
    parallel: bool = True
    timeout_seconds: float | None = None
    plugin: str = ""


class Files(Protocol):
    """The fence, as a tool sees it: ``claw.guard.fence.Fence``. Paths are as the model wrote them."""

    workspace: Path

    def read(self, path: str, limit_bytes: int | None = None) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def append(self, path: str, data: bytes) -> None: ...
    def remove(self, path: str) -> None: ...
    def entries(self, path: str) -> Any: ...
    def walk(self, path: str) -> Any: ...
    def stat(self, path: str) -> Any: ...
    def show(self, path: str) -> str: ...


@dataclass(frozen=True)
class ToolContext:
    """What the host gives a running tool. A parameter annotated with it is filled in and left out of the schema.

    :param owner: the person behind this turn is an owner; False when unknown.
    :param agent: the agent as configured (``claw.config.Agent``): id, name, workspace, settings.
    :param files: the fence round this agent's files.
    :param fetch: the way out to the network, for addresses that come from content or a model.
    :param state_dir: the plugin's own folder under ``CLAW_HOME``.
    :param progress: tell the person how far a long call is.
    :param send: say something in the conversation this turn came from; answers with the message ids.
    :param status: facts of the turn: model, context_tokens, used_tokens, session_key, zone, thinking, turn.
    :param environment: what a child process may see (already filtered).
    """

    call_id: str
    session_key: str
    agent: Any
    owner: bool
    files: Files
    fetch: Any
    state_dir: Path
    progress: Callable[[str], None]
    send: Callable[[str, tuple[str, ...]], Awaitable[tuple[str, ...]]]
    status: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
