"""The real program under more messages than it can answer one by one: who waits how long, what it costs, what is lost."""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claw.contracts.channel import ChannelLimits, Inbox
from claw.contracts.messages import Address, Inbound, Outbound, Receipt, Sender
from claw.contracts.provider import Finished, ModelEvent, Request, TextDelta
from claw.contracts.transcript import Assistant, Text, User
from claw.storage.clock import SYSTEM_CLOCK
from claw.testing import FakeProvider, Harness
from claw_gateway.supervisor import ChannelServer

_NUMBER = re.compile(r"\bn(\d+)\b")
_PAGE_BYTES = 4096
_MODEL_SECONDS = 0.002


class Crowd:
    """A channel on which many write at once, as by webhooks.

    :param said: (second, chat) of each message, by its number, in order of time.
    :ivar taken_at: second at which a message was acknowledged, by number; ``refused`` those that were not taken.
    :ivar delays: how long each acknowledgement took, in seconds.
    :ivar answers: what was said in each chat, in order; ``answered_at`` the second at which a number was first named.
    """

    name, account, capabilities, limits = "crowd", "default", frozenset({"idempotent"}), ChannelLimits()

    def __init__(self, said: Sequence[tuple[float, str]]) -> None:
        self._said = said
        self.taken_at: dict[int, float] = {}
        self.refused: list[int] = []
        self.delays: list[float] = []
        self.answers: dict[str, list[str]] = defaultdict(list)
        self.answered_at: dict[int, float] = {}
        self._seconds = SYSTEM_CLOCK.monotonic

    async def run(self, inbox: Inbox) -> None:
        """Say everything at its time, however long claw takes, then listen for ever."""
        began = self._seconds()
        async with asyncio.TaskGroup() as people:
            for number, (second, chat) in enumerate(self._said):
                if (early := began + second - self._seconds()) > 0:
                    await asyncio.sleep(early)
                people.create_task(self._write(inbox, number, chat))
        await asyncio.Event().wait()

    async def _write(self, inbox: Inbox, number: int, chat: str) -> None:
        began, address = self._seconds(), Address(self.name, chat)
        message = Inbound(address, f"n{number}", Sender(chat), message_id=str(number), event_id=f"e{number}")
        if await inbox.submit(message):
            self.taken_at[number] = self._seconds()
            self.delays.append(self.taken_at[number] - began)
        else:
            self.refused.append(number)

    async def send(self, outbound: Outbound) -> Receipt:
        """Somebody reads it."""
        chat = outbound.address.chat
        self.answers[chat].append(outbound.text)
        for number in self.named(outbound.text):
            self.answered_at.setdefault(number, self._seconds())
        return Receipt((f"{chat}-{len(self.answers[chat])}",))

    @staticmethod
    def named(text: str) -> list[int]:
        """The messages that a text speaks of."""
        return [int(number) for number in _NUMBER.findall(text)]


class Echo(FakeProvider):
    """A model that names every message since its last answer, without state of its own."""

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """After a moment, in one piece."""
        await asyncio.sleep(_MODEL_SECONDS)
        reported: list[str] = []
        for message in reversed(request.messages):
            if not isinstance(message, User):
                break
            words = "".join(block.text for block in message.content if isinstance(block, Text))
            reported[:0] = _NUMBER.findall(words)
        answer = " ".join(f"n{number}" for number in dict.fromkeys(reported))
        yield TextDelta(answer)
        yield Finished(Assistant((Text(answer),)))


@dataclass
class Flooded:
    """The result of a flood of messages.

    :param waits: of each answered message, seconds from its acknowledgement to its answer, by number.
    :param grown_bytes: the most that this process grew meanwhile.
    :param seconds: from the first message to the last answer.
    :param states: of the inbox, with counts.
    """

    crowd: Crowd
    waits: dict[int, float] = field(default_factory=dict)
    grown_bytes: int = 0
    seconds: float = 0.0
    turns: int = 0
    states: Mapping[str, int] = field(default_factory=dict)


async def flood(
    said: Sequence[tuple[float, str]], home: Path, queue: Mapping[str, Any] | None = None
) -> Flooded:
    """Let a crowd write to a gateway, until all is answered."""
    crowd = Crowd(said)
    config = {"messages": {"queue": dict(queue or {})}}
    harness = Harness(Echo(), channels=[crowd], config=config, home=home)
    serving, stop, result = ChannelServer(harness.app), asyncio.Event(), Flooded(crowd)
    before, began = _resident_bytes(), SYSTEM_CLOCK.monotonic()
    running = asyncio.ensure_future(serving.run(stop))
    try:
        while len(crowd.taken_at) + len(crowd.refused) < len(said) or not _is_quiet(serving):
            await asyncio.sleep(0.02)
            result.grown_bytes = max(result.grown_bytes, _resident_bytes() - before)
        result.seconds = SYSTEM_CLOCK.monotonic() - began
        database = harness.app.runtime.turn_log._database
        result.states = dict(database.read("SELECT state, count(*) FROM inbox GROUP BY state"))
        [(result.turns,)] = database.read("SELECT count(*) FROM turns WHERE ended_at_ms IS NOT NULL")
    finally:
        stop.set()
        await running
        await harness.close()
    result.waits = {number: crowd.answered_at[number] - at for number, at in crowd.taken_at.items()
                    if number in crowd.answered_at}  # fmt: skip
    return result


def _is_quiet(serving: ChannelServer) -> bool:
    report = serving.report()
    return report.running == report.waiting == report.pending == 0


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
