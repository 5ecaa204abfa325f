"""The interface of a simulated platform for every channel: people write, the channel answers, and the test reads both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import claw_http
from claw.contracts.provider import Finished, TextDelta
from claw.host.isolation import Timeouts
from claw.testing import FakeProvider, FakeTool, Harness, says
from claw_channel_sdk import UnavailableChannel
from claw_gateway.supervisor import ChannelServer


@dataclass(frozen=True)
class PlatformChat:
    """A chat in which people write.

    :param chat: as the config names it.
    """

    chat: str
    thread: str = ""


@dataclass(frozen=True)
class PersonMessage:
    """A message of a person: its id, and the platform's object for it."""

    id: str
    raw: Any = None


@dataclass(frozen=True)
class VisibleMessage:
    """A message of ours as people see it.

    :param quotes: id of the message it answers visibly; ``code`` the content of code blocks, ``files`` sizes in bytes.
    """

    id: str
    text: str
    quotes: str = ""
    code: tuple[str, ...] = ()
    files: tuple[int, ...] = ()
    buttons: tuple[str, ...] = ()


class SimulatedPlatform(Protocol):
    """A platform on loopback and its users: ``ann`` and ``ben`` may write, ``boss`` is the owner, ``eve`` is unknown.

    :ivar plugin: what is registered in claw.
    :ivar wrong: keys of ``section`` that hold bad credentials; ``fix`` a piece of the line that says what to do.
    :ivar patience: the shortest pause that the platform asks for, in seconds.
    :ivar largest_out: bytes of the largest file that goes out; ``too_large_in`` of one that is not fetched.
    :ivar acknowledges: true if accepted messages are acknowledged to the platform. ``drops_repeats``: it shows a
        message that is sent twice under one key once.
    """

    name: str
    plugin: Any
    ann: str
    ben: str
    boss: str
    eve: str
    group: PlatformChat
    topic: PlatformChat
    wrong: Mapping[str, Any]
    fix: str
    patience: float
    largest_out: int
    too_large_in: int
    acknowledges: bool
    drops_repeats: bool

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *raised: object) -> None: ...

    @property
    def section(self) -> dict[str, Any]:
        """Of the config: where the service is and how to prove ourselves."""
        ...

    def quicken(self, channel: Any) -> None:
        """Let the channel's pauses after a failure be short."""
        ...

    async def opened(self, url: str) -> None:
        """The gateway listens there: a platform that calls webhooks calls it from now on."""
        ...

    async def another(self) -> Self:
        """A service for a second account; where one process can have only one service, the same."""
        ...

    def direct(self, person: str) -> PlatformChat:
        """The chat of somebody with us."""
        ...

    async def says(
        self, text: str, who: str, place: PlatformChat | None = None, *, to_us: bool = False, bot: bool = False,
        file: tuple[str, bytes] | None = None, claims: int = 0,
    ) -> PersonMessage:  # fmt: skip
        """Somebody writes; in the direct chat when no place is named.

        :param to_us: we are mentioned. ``bot``: whoever writes is one.
        :param claims: the service says that the file has so many bytes.
        """
        ...

    async def again(self, said: PersonMessage) -> None:
        """The platform delivers a message a second time."""
        ...

    def acked(self, said: PersonMessage) -> bool:
        """Return true if the message was acknowledged to the platform."""
        ...

    async def presses(self, seen: VisibleMessage, place: PlatformChat, label: str, who: str) -> None:
        """Somebody presses a button of ours."""
        ...

    def seen(self, place: PlatformChat) -> list[VisibleMessage]:
        """Return our visible messages, oldest first."""
        ...

    def being_written(self) -> list[str]:
        """Return the visible signs that an answer is still being written."""
        ...

    def attempts(self, place: PlatformChat) -> int:
        """Count our attempts to send a new message there."""
        ...

    def press(self, place: PlatformChat) -> None:
        """Refuse the next message to a place because they come too fast."""
        ...

    def refuse(self, place: PlatformChat) -> None:
        """Refuse whatever we say there, for good."""
        ...

    def lose(self, place: PlatformChat, times: int = 1) -> None:
        """Carry out what we say next there, so many times, and break the line before we hear so."""
        ...

    async def drop(self) -> None:
        """Break the line on which messages come in."""
        ...


class Slow(FakeProvider):
    """A model that says the first half of its answer, then waits to be let go.

    :ivar begun: it was asked and has said that much.
    """

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.gate, self.begun = asyncio.Event(), asyncio.Event()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        async for event in super().stream(request):
            if isinstance(event, TextDelta) or (isinstance(event, Finished) and not self.begun.is_set()):
                yield event
                self.begun.set()
                await self.gate.wait()
            else:
                yield event


@dataclass
class Answers(FakeProvider):
    """A model whose answer depends on what it was asked last: the first key that is in it."""

    by: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        asked = str(request.messages[-1].content)
        self._answers.append(says(next(answer for key, answer in self.by.items() if key in asked)))
        async for event in super().stream(request):
            yield event


async def until(holds: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until something holds; what it is then."""
    async with asyncio.timeout(seconds):
        while not (now := holds()):
            await asyncio.sleep(0.005)
    return now


def text_received_by(model: FakeProvider, at: int = -1) -> str:
    """The words of the newest message of a request."""
    return "".join(getattr(block, "text", "") for block in model.requests[at].request.messages[-1].content)


def config(stage: SimulatedPlatform, section: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The file of a gateway that knows ann, ben and the boss, and one group."""
    known = {
        "allowFrom": [stage.ann, stage.ben, stage.boss],
        "groups": {stage.group.chat: {}},
        **stage.section,
        **(section or {}),
    }
    return {
        "channels": {stage.name: known, "http": {}},
        "gateway": {"port": 0, "auth": {"token": "a-token-of-this-test-house"}},
        "owners": [f"{stage.name}:{stage.boss}"],
        **more,
    }


@asynccontextmanager
async def served(
    stage: SimulatedPlatform,
    model: FakeProvider,
    home: Path,
    tree: Mapping[str, Any] | None = None,
    *,
    tools: Sequence[FakeTool] = (),
    others: Mapping[str, Any] | None = None,
    stop_seconds: float = 10.0,
    up: bool = True,
) -> AsyncIterator[Harness]:
    """Claw serves the platform until the block ends.

    :param others: further plugins, by id.
    :param stop_seconds: that turns get when it stops.
    """
    plugins = {"http": claw_http, stage.name: stage.plugin, **(others or {})}
    harness = Harness(model, tools=tools, home=home, config=tree or config(stage), plugins=plugins)
    harness.app.timeouts = Timeouts(stop_seconds=stop_seconds, pause_seconds=0.05)
    for contribution in harness.app.registry.channels.values():
        if contribution.value.name == stage.name and not isinstance(contribution.value, UnavailableChannel):
            stage.quicken(contribution.value)
    stop, serving = asyncio.Event(), ChannelServer(harness.app)
    running = asyncio.ensure_future(serving.run(stop))
    harness.serving = serving  # type: ignore[attr-defined]
    try:
        http = harness.app.registry.channel("http", "default")
        await until(lambda: http.url and (not up or set(states(harness, stage.name)) == {"up"}))
        await stage.opened(http.url)
        yield harness
    finally:
        stop.set()
        await asyncio.wait_for(running, 20)
        await harness.close()


def states(harness: Harness, channel: str) -> list[str]:
    """Return the states of a channel's accounts, as claw reports them."""
    report = harness.serving.report()  # type: ignore[attr-defined]
    return [one.state.state for one in report.channels if one.name == channel]
