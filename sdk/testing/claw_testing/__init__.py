"""The test kit: a scripted provider, a tool that records its calls, and a harness that runs both inside claw.

async def test_the_tool_is_called():
    status = FakeTool("acme_status", result="fine")
    model = FakeProvider(calls("acme_status", name="door"), says("The door is fine."))
    async with Harness(model, tools=[status]) as harness:
        reply = await harness.send("how is the door?")
    assert reply.text == "The door is fine."
    assert status.calls == [{"name": "door"}]
"""

import asyncio
import functools
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import yaml
from claw import (
    Assistant,
    Channel,
    Credential,
    Event,
    Finished,
    Inbound,
    ModelEvent,
    Outbound,
    Request,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    ToolResultMessage,
    Usage,
    add_translations,
    hookimpl,
)
from claw.runtime import SYSTEM_CLOCK, SYSTEM_DISK, Clock, Disk, check_and_run, fit_result, installed_plugins

from claw_testing.bench import (
    FakeChatApi,
    contributed,
    plugin_config,
    plugin_contributions,
    prompt_facts,
    tool_context,
)
from claw_testing.fake_channel import FakeChannel
from claw_testing.portable import PortabilityProblem, tool_faults, tool_tokens

if TYPE_CHECKING:
    from claw_testing.services import (
        ReceivedRequest as ReceivedRequest,
        ServiceConnection as ServiceConnection,
        ServiceReply as ServiceReply,
    )

__all__ = [
    "FakeChannel",
    "FakeChatApi",
    "FakeProvider",
    "FakeTool",
    "Harness",
    "PortabilityProblem",
    "RecordedRequest",
    "calls",
    "check_and_run",
    "combined",
    "contributed",
    "fit_result",
    "plugin_config",
    "plugin_contributions",
    "prompt_facts",
    "says",
    "standard_plugins",
    "tool_context",
    "tool_faults",
    "tool_result_of",
    "tool_tokens",
]  # fmt: skip

add_translations(__name__)
_ids = itertools.count(1)

_SERVICES = ("ReceivedRequest", "ServiceConnection", "ServiceReply")
"""Names of ``services``, which loads a server: they are imported when they are asked for."""


def __getattr__(name: str) -> Any:
    if name not in _SERVICES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("claw_testing.services"), name)


@functools.cache
def standard_plugins(*more: str) -> tuple[Any, ...]:
    """Return the installed plugins that are parts of claw, and those with the ids ``more``: of these, one without a
    channel has no more than the settings of its manifest, because what it provides is given by the test.
    """
    found = (one for one in installed_plugins() if one.is_standard or one.id in more)
    return tuple(one if one.is_standard or one.channels else _with_settings_alone(one) for one in found)


def _with_settings_alone(plugin: Any) -> Any:
    whole = plugin.manifest
    if whole is None or not (whole.config_keys or whole.short_keys):
        return replace(plugin, manifest=None)
    names = ("config_keys", "config_models", "config_schema", "short_keys")
    own = {name: getattr(whole, name) for name in names}
    return replace(plugin, manifest=type(whole)(id=whole.id, kinds=("tool",), **own))


Answer = Assistant | BaseException | Callable[[Request], Assistant]


def says(text: str, **usage: int) -> Assistant:
    """Build a text answer. ``usage`` may hold input, output, cache_read, cache_write."""
    return Assistant((Text(text),), usage=Usage(**usage))


def calls(name: str, /, **arguments: Any) -> Assistant:
    """Build an answer with one tool call; join two of them with ``combined`` for parallel calls."""
    return Assistant((ToolCall(f"call_{next(_ids)}", name, arguments),), stop_reason="tool_use")


def tool_result_of(call: ToolCall, text: str = "", *, is_error: bool = False) -> ToolResultMessage:
    """Build the result of a call, as the next request holds it."""
    return ToolResultMessage(call.id, call.name, (Text(text),) if text else (), is_error=is_error)


def combined(first: Assistant, *others: Assistant) -> Assistant:
    """Join several answers into one, with all their text and calls."""
    content = tuple(block for answer in (first, *others) for block in answer.content)
    return Assistant(content, stop_reason="tool_use")


@dataclass(frozen=True)
class RecordedRequest:
    """A request that a fake provider received."""

    request: Request

    @property
    def tool_results(self) -> tuple[ToolResultMessage, ...]:
        """The tool results in it, in order."""
        return tuple(message for message in self.request.messages if isinstance(message, ToolResultMessage))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools it offers."""
        return tuple(tool.name for tool in self.request.tools)


class FakeProvider:
    """A provider with scripted answers; it records every request.

    :param answers: in order; an exception is raised, a function is called with the request. A request beyond the last
        answer fails the test.
    """

    def __init__(
        self,
        *answers: Answer,
        name: str = "fake",
        context_tokens: int = 200_000,
        keys: Sequence[Credential] | None = None,
    ) -> None:
        self.name = name
        self.requests: list[RecordedRequest] = []
        self._answers = list(answers)
        self._window = context_tokens
        self._keys = tuple(keys) if keys is not None else (Credential("fake", ""),)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Stream the next answer, its text in two pieces."""
        self.requests.append(RecordedRequest(request))
        if not self._answers:
            raise AssertionError(f"{self.name} was asked {len(self.requests)} times and has no answer left")
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        message = answer if isinstance(answer, Assistant) else answer(request)
        half = len(message.text) // 2
        for piece in filter(None, (message.text[:half], message.text[half:])):
            yield TextDelta(piece)
        yield Finished(message)

    def context_tokens(self, model: str) -> int:
        """Return the window given to the constructor."""
        return self._window

    def credentials(self) -> tuple[Credential, ...]:
        """Return the keys given to the constructor; by default one without a secret."""
        return self._keys


@dataclass
class FakeTool:
    """A tool that records its calls.

    :param result: the result; a function is called with the arguments, an exception is raised.
    """

    name: str
    result: Any = "done"
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    description: str = "A fake."
    optional: bool = False
    owner_only: bool = False
    effects: Literal["none", "idempotent", "once"] = "none"
    parallel: bool = True
    timeout_seconds: float | None = None
    results: Literal["foreign", "own", "marked"] = "foreign"
    leaves_running: tuple[str, ...] = ("background",)
    reads_files: bool = False
    calls: list[dict[str, Any]] = field(default_factory=list)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Record the call and return the result."""
        self.calls.append(arguments)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result(arguments) if callable(self.result) else self.result

    @property
    def tool(self) -> Tool:
        """The ``Tool`` as a plugin contributes it."""
        return Tool(
            self.name,
            self.description,
            self.parameters,
            self.run,
            self.optional,
            self.owner_only,
            self.effects,
            self.parallel,
            self.timeout_seconds,
            self.results,
            self.leaves_running,
            self.reads_files,
        )


class HarnessEnvironment(TypedDict, total=False):
    """The surroundings of a harness.

    :param fallbacks: further providers, to be named as fallbacks in ``config``.
    :param installed: True = with all plugins of this environment; False = with those of the extra ``standard``.
    :param clock: its clock; a test sets ``now`` to simulate the passing of time.
    :param disk: the system calls of durable writes; a test passes one that fails.
    """

    fallbacks: Sequence[FakeProvider]
    installed: bool
    clock: Clock
    disk: Disk


class Harness:
    """A whole claw in its own folder, for tests: real config, policy, session and loop; fakes at the edges.

    :param model: the provider that answers.
    :param tools: ``FakeTool`` or ``Tool``; they are the tools of the plugin ``acme``.
    :param config: the config file as plain data; without a model it gets the one of ``model``.
    :param channels: channels such as ``FakeChannel``; every sender is admitted unless ``config`` says otherwise.
    :param plugins: further plugin objects by id, registered through their hooks.
    :param home: its home folder; None = a temporary folder that ``close`` removes.
    :param environment: see :class:`HarnessEnvironment`.
    """

    def __init__(
        self,
        model: FakeProvider,
        *,
        tools: Sequence[FakeTool | Tool] = (),
        channels: Sequence[Channel] = (),
        config: Mapping[str, Any] | None = None,
        plugins: Mapping[str, Any] | None = None,
        home: Path | None = None,
        **environment: Unpack[HarnessEnvironment],
    ) -> None:
        self.home = home or Path(tempfile.mkdtemp(prefix="claw-harness-"))
        self._temporary = home is None
        self.workspace = self.home / "workspace-default"
        self.events: list[Event] = []
        self.log_lines: list[str] = []
        self._plugins = {
            "fakes": _FakePlugin((model, *environment.get("fallbacks", ())), channels),
            "acme": _ToolPlugin(tools),
            **(plugins or {}),
        }
        self._installed = environment.get("installed", False)
        self._clock = environment.get("clock", SYSTEM_CLOCK)
        self._disk = environment.get("disk", SYSTEM_DISK)
        self._write_config(config or {}, model.name, [channel.name for channel in channels])
        self._app: Any = None

    @property
    def app(self) -> Any:
        """The ``claw.app.App`` inside, built on first use."""
        if self._app is None:
            from claw.runtime import App, load_setup

            environ = {"CLAW_HOME": str(self.home), "HOME": str(self.home), "PATH": "/usr/bin:/bin"}
            setup = load_setup(environ, None if self._installed else standard_plugins(*self._plugins))
            self._app = App(
                setup,
                plugins=self._plugins,
                log=self.log_lines.append,
                clock=self._clock,
                disk=self._disk,
            )
        return self._app

    async def send(self, message: str | Inbound, **options: Any) -> Outbound | None:
        """Run a turn with a text typed at the terminal, or with any inbound message.

        :param options: fields of ``claw.runtime.TurnOptions``.
        """
        from claw.runtime import TurnOptions, terminal_message

        inbound = terminal_message(message) if isinstance(message, str) else message

        async def record(event: Event) -> None:
            self.events.append(event)

        answer: Outbound | None = await self.app.handle(inbound, record, TurnOptions(**options))
        return answer

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Harness"]:
        """Serve the channels until the block ends, as ``claw gateway run`` does."""
        services = self.app.host.on_demand("register_services")
        channels = next(one.value for one in services if one.value.name == "channels")
        stop = asyncio.Event()
        serving = asyncio.ensure_future(channels.run(self.app, stop))
        await asyncio.sleep(0)  # it listens
        try:
            yield self
        finally:
            stop.set()
            await serving

    async def close(self) -> None:
        """Close the app, and remove a temporary home."""
        if self._app is not None:
            await self._app.close()
        if self._temporary:
            shutil.rmtree(self.home, ignore_errors=True)

    async def __aenter__(self) -> "Harness":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _write_config(self, config: Mapping[str, Any], provider: str, channels: Sequence[str] = ()) -> None:
        tree = {**config}
        if channels:
            open_to_all = {
                name: {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"} for name in channels
            }
            tree["channels"] = {**open_to_all, **tree.get("channels", {})}
        agents = {**tree.get("agents", {})}
        agents["defaults"] = {
            "model": f"{provider}/m1",
            "workspace": str(self.workspace),
            **agents.get("defaults", {}),
        }
        tree["agents"] = agents
        tree["models"] = {
            "wait": "off",
            "leastContext": 0,
            "smallContext": 0,
            **tree.get("models", {}),
        }  # defaults for tests: no waiting for a model, no minimum window
        self.home.mkdir(parents=True, exist_ok=True)
        self.workspace.mkdir(exist_ok=True)
        (self.home / "config.yaml").write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")


class _FakePlugin:
    """A plugin that contributes fake providers and channels."""

    def __init__(self, providers: Sequence[FakeProvider], channels: Sequence[Channel]) -> None:
        self._providers, self._channels = providers, channels

    @hookimpl
    def register_providers(self) -> Sequence[FakeProvider]:
        return self._providers

    @hookimpl
    def register_channels(self) -> Sequence[Channel]:
        return self._channels


class _ToolPlugin:
    """A plugin that contributes tools."""

    def __init__(self, tools: Sequence[FakeTool | Tool]) -> None:
        self._tools = [tool.tool if isinstance(tool, FakeTool) else tool for tool in tools]

    @hookimpl
    def register_tools(self) -> Sequence[Tool]:
        return self._tools
