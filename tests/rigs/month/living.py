"""A month lived with the real program: sessions, flush, compaction, pruning, tools and memory, on a clock of its own."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any

import msgspec
from claw.agent.turn_context import TurnOptions
from claw.contracts.errors import ProviderError
from claw.contracts.events import ToolBegan
from claw.contracts.provider import Finished, ModelEvent, Request, TextDelta
from claw.contracts.transcript import Assistant, Text, ToolCall, Usage
from claw.runtime import terminal_message
from claw.storage.clock import Clock
from claw.storage.records import SUMMARY
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness
from claw_memory.embedder import built_in
from claw_memory.memory import Memory
from claw_memory.settings import MemorySettings
from claw_openai.chat import ChatMessages, body as chat_body
from claw_openai.config import Quirks

from rigs.month import words
from rigs.month.model import answer, tokens
from rigs.month.script import GROUP, PHONE, REPORTS, WORK, Line

_ALLOWED = ["tools-std", "memory", "fakes", "acme"]
WINDOW = 32_000
_LOOK_EACH = 100  # turns
_ANSWER_TOKENS = 1_000
_WITHIN_SECONDS = 30.0

WHOLE: Mapping[str, Any] = {
    "agents": {"defaults": {"contextPruning": {"mode": "cache-ttl"}, "userTimezone": "UTC"}},
    "session": {
        "resetByChannel": {"phone": {"mode": "daily"}},
        "resetByType": {"group": {"idleMinutes": 600}},
    },
    "plugins": {"allow": _ALLOWED, "entries": {"memory": {"config": {"watch": False}}}},
}
"""As it comes, with pruning on. New session: phone each night, group after ten quiet hours, terminal never."""

DROPS_OLDEST: Mapping[str, Any] = {
    "agents": {"defaults": {"compaction": {"enabled": False}, "userTimezone": "UTC"}},
    "plugins": {"allow": [name for name in _ALLOWED if name != "memory"]},
}
"""Messages that do not fit are left out, oldest first; no new session is started."""


class Model(FakeProvider):
    """The model behind its wire: it gets bytes, refuses what is too long for it, and keeps nothing.

    :param plain: what claw puts in the place of messages that it left out is not sent either.
    :ivar source: the source of the newest answer; ``refusals`` the number of requests that were too long.
    """

    def __init__(self, plain: bool = False) -> None:
        super().__init__(name="scripted", context_tokens=WINDOW)
        self._plain = plain
        self.asked = self.refusals = self.read_tokens = 0
        self.source = ""

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """One request, one answer."""
        self.asked += 1
        data = _bytes(request, self._plain)
        read = tokens(data)
        if read + _ANSWER_TOKENS > WINDOW:
            self.refusals += 1
            raise ProviderError("the prompt is too long", reason="context_overflow")
        self.read_tokens += read
        reply = answer(data)
        self.source = reply.source or self.source
        name = sha1(data, usedforsecurity=False).hexdigest()[:12]
        calls = [
            ToolCall(f"call_{name}{at}", tool, arguments) for at, (tool, arguments) in enumerate(reply.calls)
        ]
        if reply.text:
            yield TextDelta(reply.text)
        content = (*((Text(reply.text),) if reply.text else ()), *calls)
        usage = Usage(input=read, output=len(reply.text) // 4 + 30 * len(calls))
        yield Finished(Assistant(content, usage=usage, stop_reason="tool_use" if calls else "stop"))


def _bytes(request: Request, plain: bool) -> bytes:
    rows = ChatMessages("scripted", Quirks())
    for at, message in enumerate(request.messages):
        stands_in = at == 0 and isinstance(message, Assistant) and message.text.startswith(SUMMARY)
        if not (plain and stands_in):
            rows.add(message)
    return msgspec.json.encode(chat_body(request, rows, None, Quirks()))


@dataclass
class Lived:
    """The result of a month.

    :param found: when questions were answered rightly; ``lost`` the questions of the others, with what was said instead.
    :param sources: the sources of the right answers.
    :param outcomes: of all turns, with counts; ``complaints`` what claw complained about.
    """

    found: list[int] = field(default_factory=list)
    lost: list[tuple[Line, str]] = field(default_factory=list)
    sources: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    requests: int = 0
    refusals: int = 0
    read_tokens: int = 0

    @property
    def right(self) -> int:
        """Facts found."""
        return len(self.found)


class LifecycleTests:
    """:param settings: ``WHOLE`` or ``DROPS_OLDEST``."""

    def __init__(self, home: Path, settings: Mapping[str, Any]) -> None:
        self._home, self._settings = home, settings
        self._now = 0.0
        self._model = Model(plain=settings is DROPS_OLDEST)
        self._clock = Clock(now=lambda: self._now)
        self._embedder = built_in()[0]
        self._outcomes: dict[str, str] = {}
        self.lived = Lived()

    async def live(self, lines: Sequence[Line]) -> Lived:
        """The whole of it."""
        self._lay_out()
        began = Clock().monotonic()
        for part in _by_restart(lines):
            self._now = part[0].at
            await self._until_restart(part)
        self.lived.seconds = Clock().monotonic() - began
        self.lived.requests, self.lived.refusals = self._model.asked, self._model.refusals
        self.lived.read_tokens = self._model.read_tokens
        self.lived.outcomes = Counter(self._outcomes.values())
        self._count_records()
        return self.lived

    async def _until_restart(self, part: Sequence[Line]) -> None:
        channels = [FakeChannel(PHONE), FakeChannel(GROUP)]
        config = {**self._settings, "owners": [f"{PHONE}:owner", f"{GROUP}:owner"]}
        customer = FakeTool(
            "customer", lambda given: words.customer(given["number"]), _NUMBER, "What is known of a customer."
        )
        harness = Harness(
            self._model, tools=[customer], channels=channels, config=config, home=self._home, installed=True,
            clock=self._clock,
        )  # fmt: skip
        async with harness, harness.serving():
            places = {channel.name: channel for channel in channels}
            for number, line in enumerate(part, 1):
                self._now = line.at
                if line.asked:
                    self._index_memory()
                self._model.source = ""
                said = await (self._in_channel(places[line.chat], line) if line.chat in places
                              else self._at_terminal(harness, line))  # fmt: skip
                if line.asked:
                    self._judge(line, said)
                if number % _LOOK_EACH == 0:
                    self._look(harness)
            self._look(harness)
        self.lived.complaints += harness.log_lines

    async def _at_terminal(self, harness: Harness, line: Line) -> str:
        task: asyncio.Task[Any]

        async def note(event: Any) -> None:
            if line.cut and isinstance(event, ToolBegan):
                task.cancel()

        options = TurnOptions(session=WORK if line.chat == WORK else "")
        task = asyncio.ensure_future(harness.app.handle(terminal_message(line.text), note, options))
        await asyncio.wait({task})
        if task.cancelled():
            return ""
        return task.result().text if task.result() else ""

    async def _in_channel(self, channel: FakeChannel, line: Line) -> str:
        before = len(channel.sent)
        group = {"chat": "group-1", "chat_type": "group", "mentions_us": True} if line.chat == GROUP else {}
        # The platform's ids go on where they were before a restart.
        ids = {"message_id": f"m{line.at}", "event_id": f"e{line.at}", "sent_at": line.at}
        channel.says(line.text, "owner", **group, **ids)
        sent = await channel.until_sent(before + 1, _WITHIN_SECONDS)
        return "\n".join(outbound.text for outbound in sent[before:])

    def _look(self, harness: Harness) -> None:
        """Return the outcomes of the newest turns; the journal keeps those of a week."""
        turns = harness.app.runtime.turn_log.turns(2 * _LOOK_EACH)
        self._outcomes |= {turn["turn"]: turn["outcome"] for turn in turns}

    def _judge(self, line: Line, said: str) -> None:
        assert line.asked
        if line.asked.value in said:
            self.lived.found.append(int(line.at))
            self.lived.sources[self._model.source] += 1
        else:
            self.lived.lost.append((line, said))

    def _index_memory(self) -> None:
        """Update the index of notes to its end, which a thread does in the product between two turns."""
        index = self._home / "plugins" / "memory" / "default.sqlite"
        own = self._home / "agents" / "default" / "agent"
        if self._settings is DROPS_OLDEST or not (own / "memory").exists():
            return
        index.parent.mkdir(parents=True, exist_ok=True)
        memory = Memory(own, index, MemorySettings())
        memory.sync()
        memory.embed(self._embedder)
        memory.index.close()

    def _lay_out(self) -> None:
        workspace = self._home / "workspace-default"
        workspace.mkdir(parents=True)
        for number in range(REPORTS):
            (workspace / f"report-{number}.txt").write_text(words.report(number), encoding="utf-8")

    def _count_records(self) -> None:
        for path in self._home.glob("agents/*/sessions/*.jsonl*"):
            if not path.name.endswith(".lock"):
                for line in path.read_text(encoding="utf-8").splitlines():
                    self.lived.records[msgspec.json.decode(line)["type"]] += 1


_NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def _by_restart(lines: Sequence[Line]) -> Iterator[list[Line]]:
    part: list[Line] = []
    for line in lines:
        if line.restart and part:
            yield part
            part = []
        part.append(line)
    if part:
        yield part
