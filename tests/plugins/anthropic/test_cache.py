"""The vendor's prompt cache over whole conversations: its rules, played over the requests that claw sends.

Facts: docs.anthropic.com, "Prompt caching": the order is tools, system, messages; an entry is written at each mark, and
read at a mark or up to 20 blocks before it; four marks at most; 1,024 tokens at least.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import claw_anthropic
import pytest
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness
from claw_testing.services import AnthropicService, ServiceReply
from integration.test_serving import Channels

LOOK_BACK, LEAST_BYTES = 20, 4096


def blocks_of(body: dict[str, Any]) -> Iterator[tuple[bytes, bool]]:
    """All blocks of a request in the order of the cache: their bytes, and whether they bear a mark."""
    plain = [*body.get("tools", ()), *body.get("system", ())]
    for message in body["messages"]:
        plain += [{"role": message["role"], **block} for block in message["content"]]
    for block in plain:
        marked = "cache_control" in block
        kept = {key: value for key, value in block.items() if key != "cache_control"}
        yield json.dumps(kept, sort_keys=True).encode(), marked


class VendorCache:
    """Counts the bytes that each request reads from the cache, and those that it writes."""

    def __init__(self) -> None:
        self._entries: set[bytes] = set()

    def count(self, body: dict[str, Any]) -> tuple[int, int]:
        digest, size, prefixes, marks = hashlib.sha256(), 0, list[tuple[bytes, int]](), list[int]()
        for at, (data, marked) in enumerate(blocks_of(body)):
            digest.update(data)
            size += len(data)
            prefixes.append((digest.digest(), size))
            marks += [at] * marked
        assert len(marks) <= 4
        read = 0
        for mark in marks:
            for key, length in prefixes[max(0, mark - LOOK_BACK) : mark + 1]:
                read = max(read, length if key in self._entries else 0)
        new = [prefixes[mark] for mark in marks if prefixes[mark][1] >= LEAST_BYTES]
        self._entries |= {key for key, _ in new}
        return read, max(0, max((length for _, length in new), default=0) - read)


async def talked(
    channel: FakeChannel | None, turns: int = 6, reads: int = 2, together: int = 1, kilobytes: int = 8
) -> list[dict[str, Any]]:
    """The requests of a conversation in whose turns the model asks ``reads`` times for ``together`` files."""
    replies = [
        reply
        for n in range(turns)
        for reply in (
            *(
                ServiceReply(calls=[("peek", {"path": f"{n}-{ask}-{at}"}) for at in range(together)])
                for ask in range(reads)
            ),
            ServiceReply(text=f"answer {n} " + "words " * 40),
        )
    ]
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = FakeTool("peek", "result " * 144 * kilobytes, schema)
    config: dict[str, Any] = {"channels": {"fake": {"allowFrom": ["u1"]}}}
    async with AnthropicService(replies) as service:
        config["providers"] = {"anthropic": {"baseUrl": service.url, "apiKey": "k"}}
        plugins = {"anthropic": claw_anthropic, "channels": Channels(*([channel] if channel else []))}
        async with Harness(FakeProvider(), tools=[tool], plugins=plugins, config=config) as harness:
            for n in range(turns):
                text = f"question {n}: what do the files say?"
                message = channel.says(text, "u1") if channel else text
                await harness.send(message, model="anthropic/claude-sonnet-4-6")
        assert service.refusals == []
        return [request.body for request in service.requests]


def counted(bodies: list[dict[str, Any]]) -> list[tuple[int, int]]:
    cache = VendorCache()
    return [cache.count(body) for body in bodies]


async def test_a_new_message_in_a_chat_reads_the_past_from_the_cache() -> None:
    figures = counted(await talked(FakeChannel()))

    read, written = (sum(column) for column in zip(*figures, strict=True))
    assert read / written >= 3.8, f"{read:,} bytes read, {written:,} written"
    for turn in range(2, 6):
        before_read, before_written = figures[3 * turn - 4]  # the second request of the turn before
        read, _ = figures[3 * turn]
        assert read >= (before_read + before_written) * 0.5 * (turn - 1) / turn


async def test_at_the_terminal_the_whole_past_is_read() -> None:
    figures = counted(await talked(None))

    read, written = (sum(column) for column in zip(*figures, strict=True))
    assert read / written >= 7, f"{read:,} bytes read, {written:,} written"


@pytest.mark.parametrize(("reads", "together"), [(14, 1), (3, 10)], ids=["one after another", "at once"])
async def test_a_turn_of_many_calls_costs_the_next_ones_no_more_than_itself(
    reads: int, together: int
) -> None:
    """A mark reads at most 20 blocks back; such a turn has more of them."""
    figures = counted(await talked(FakeChannel(), turns=4, reads=reads, together=together, kilobytes=2))

    rounds = reads + 1
    first = [figures[turn * rounds] for turn in range(4)]
    for turn in (2, 3):  # the turn before is read up to its message, and its own calls are written once more
        read, written = first[turn]
        assert read >= (turn - 1) * reads * together * 2000
        assert written <= 1.2 * (first[1][1] - first[0][1] + reads * together * 100)
