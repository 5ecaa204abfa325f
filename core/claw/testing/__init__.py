"""The fakes we ship: a provider that says what it is told, a tool that writes down its calls, a house around both.

async def test_the_tool_is_called():
    status = FakeTool("acme_status", result="fine")
    model = FakeProvider(calls("acme_status", name="door"), says("The door is fine."))
    async with House(model, tools=[status]) as house:
        reply = await house.hear("how is the door?")
    assert reply.text == "The door is fine."
    assert status.calls == [{"name": "door"}]
"""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from claw.auth import Credential
from claw.channel import Channel
from claw.clock import SYSTEM, Clock
from claw.event import Event
from claw.hookspecs import hookimpl
from claw.message import Inbound, Outbound
from claw.provider import Finished, ModelEvent, Request, TextDelta
from claw.store import SYSTEM as DISK, Disk
from claw.testing.bench import FakeTalk, asked, brought, plugin_config, prompt_facts, tool_context
from claw.testing.fake_channel import FakeChannel
from claw.testing.portable import Fault, tool_faults, tool_tokens
from claw.tool import Effects, Tool, ToolContext, fit, perform
from claw.transcript import Assistant, Text, ToolCall, ToolResult, Usage

__all__ = [
    "FakeChannel", "FakeProvider", "FakeTalk", "FakeTool", "Fault", "Heard", "House", "also", "answered", "asked",
    "brought", "calls", "fit", "perform", "plugin_config", "prompt_facts", "says", "tool_context",
    "tool_faults", "tool_tokens",
]  # fmt: skip

_ids = itertools.count(1)

Answer = Assistant | BaseException | Callable[[Request], Assistant]


def says(text: str, **usage: int) -> Assistant:
    """An answer in words. ``usage`` may hold input, output, cache_read, cache_write."""
    return Assistant((Text(text),), usage=Usage(**usage))


def calls(name: str, /, **arguments: Any) -> Assistant:
    """An answer that asks for one tool; add two of them (``also``) for parallel calls."""
    return Assistant((ToolCall(f"call_{next(_ids)}", name, arguments),), stop_reason="tool_use")


def answered(call: ToolCall, text: str = "", *, is_error: bool = False) -> ToolResult:
    """What a tool answered to a call, as the next request holds it."""
    return ToolResult(call.id, call.name, (Text(text),) if text else (), is_error=is_error)


def also(first: Assistant, *others: Assistant) -> Assistant:
    """One answer with everything that several say and ask for."""
    content = tuple(block for answer in (first, *others) for block in answer.content)
    return Assistant(content, stop_reason="tool_use")


@dataclass(frozen=True)
class Heard:
    """A request that a fake provider got."""

    request: Request

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results in it, in order."""
        return tuple(message for message in self.request.messages if isinstance(message, ToolResult))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools it offers."""
        return tuple(tool.name for tool in self.request.tools)


class FakeProvider:
    """A model service that answers from a list, and writes down what it was asked.

    :param answers: in order; an exception is raised instead, a function is given the request. Asked more often than
        it has answers, it fails the test.
    """

    def __init__(
        self,
        *answers: Answer,
        name: str = "fake",
        context_tokens: int = 200_000,
        keys: Sequence[Credential] | None = None,
    ) -> None:
        self.name = name
        self.requests: list[Heard] = []
        self._answers = list(answers)
        self._window = context_tokens
        self._keys = tuple(keys) if keys is not None else (Credential("fake", ""),)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """The next answer, its words in two pieces."""
        self.requests.append(Heard(request))
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
        """As it was made."""
        return self._window

    def credentials(self) -> tuple[Credential, ...]:
        """As it was made; one keyless key by default."""
        return self._keys


@dataclass
class FakeTool:
    """A tool that writes down its calls.

    :param result: what it answers; a function is given the arguments, an exception is raised.
    """

    name: str
    result: Any = "done"
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    description: str = "A fake."
    optional: bool = False
    owner_only: bool = False
    effects: Effects = "none"
    parallel: bool = True
    timeout_seconds: float | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Write the call down and answer."""
        self.calls.append(arguments)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result(arguments) if callable(self.result) else self.result

    @property
    def tool(self) -> Tool:
        """As a plugin brings it."""
        return Tool(
            self.name, self.description, self.parameters, self.run, self.optional, self.owner_only, self.effects,
            self.parallel, self.timeout_seconds,
        )  # fmt: skip


class House:
    """The whole of claw in a folder of its own: real config, policy, session, loop; fakes at the edges.

    :param model: answers; further ones (``spares``) can be named as fallbacks in ``config``.
    :param tools: ``FakeTool`` or ``Tool``; they are the tools of the plugin ``acme``.
    :param config: the file, as plain data; the model is filled in when it names none.
    :param channels: places to talk, such as ``FakeChannel``; who writes there is let in where ``config`` says nothing.
    :param plugins: further plugin objects by id, registered through their hooks.
    :param home: where it lives; None = a folder that goes when the house is closed.
    :param installed: whether plugins that are installed here are seen too.
    :param clock: what time it is in it; a test sets ``now`` to live through days.
    :param disk: the system calls behind its durable writes; a test hands in one that refuses.
    """

    def __init__(
        self,
        model: FakeProvider,
        *,
        tools: Sequence[FakeTool | Tool] = (),
        spares: Sequence[FakeProvider] = (),
        channels: Sequence[Channel] = (),
        config: Mapping[str, Any] | None = None,
        plugins: Mapping[str, Any] | None = None,
        home: Path | None = None,
        installed: bool = False,
        clock: Clock = SYSTEM,
        disk: Disk = DISK,
    ) -> None:
        self.home = home or Path(tempfile.mkdtemp(prefix="claw-house-"))
        self._temporary = home is None
        self.workspace = self.home / "workspace-default"
        self.events: list[Event] = []
        self.complaints: list[str] = []
        self._plugins = {
            "fakes": _Fakes((model, *spares), channels),
            "acme": _Tools(tools),
            **(plugins or {}),
        }
        self._installed, self._clock, self._disk = installed, clock, disk
        self._write(config or {}, model.name, [channel.name for channel in channels])
        self._app: Any = None

    @property
    def app(self) -> Any:
        """The ``claw.app.App`` inside, built at the first need."""
        if self._app is None:
            from claw.app import App, look_round

            environ = {"CLAW_HOME": str(self.home), "HOME": str(self.home), "PATH": "/usr/bin:/bin"}
            house = look_round(environ, None if self._installed else ())
            self._app = App(
                house,
                guests=self._plugins,
                complain=self.complaints.append,
                clock=self._clock,
                disk=self._disk,
            )
        return self._app

    async def hear(self, said: str | Inbound, **wish: Any) -> Outbound | None:
        """Say something to the agent, as the person at the terminal; or hand in any inbound message."""
        from claw.app import from_terminal
        from claw.stage import Wish

        inbound = from_terminal(said) if isinstance(said, str) else said

        async def note(event: Event) -> None:
            self.events.append(event)

        answer: Outbound | None = await self.app.hear(inbound, note, Wish(**wish))
        return answer

    @asynccontextmanager
    async def served(self) -> AsyncIterator["House"]:
        """Serve the channels until the block ends, as ``claw gateway run`` does."""
        from claw.serve import Serving

        stop = asyncio.Event()
        serving = asyncio.ensure_future(Serving(self.app).run(stop))
        try:
            yield self
        finally:
            stop.set()
            await serving

    async def close(self) -> None:
        """End, and remove the folder if it is ours."""
        if self._app is not None:
            await self._app.close()
        if self._temporary:
            shutil.rmtree(self.home, ignore_errors=True)

    async def __aenter__(self) -> "House":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _write(self, config: Mapping[str, Any], provider: str, channels: Sequence[str] = ()) -> None:
        tree = {**config}
        if channels:
            anybody = {
                name: {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"} for name in channels
            }
            tree["channels"] = {**anybody, **tree.get("channels", {})}
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
        }  # no test waits for a model, or has one that reads too little, unless it says so
        self.home.mkdir(parents=True, exist_ok=True)
        self.workspace.mkdir(exist_ok=True)
        (self.home / "config.yaml").write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")


class _Fakes:
    """A plugin that brings fake providers, and channels."""

    def __init__(self, providers: Sequence[FakeProvider], channels: Sequence[Channel]) -> None:
        self._providers, self._channels = providers, channels

    @hookimpl
    def register_providers(self) -> Sequence[FakeProvider]:
        return self._providers

    @hookimpl
    def register_channels(self) -> Sequence[Channel]:
        return self._channels


class _Tools:
    """A plugin that brings tools."""

    def __init__(self, tools: Sequence[FakeTool | Tool]) -> None:
        self._tools = [tool.tool if isinstance(tool, FakeTool) else tool for tool in tools]

    @hookimpl
    def register_tools(self) -> Sequence[Tool]:
        return self._tools
