"""Many connections at once: all of them are served, also where few files may be open."""

import asyncio
import resource
from collections.abc import Iterator

import pytest
from plugins.http.bench import TOKEN, listening

AT_ONCE = 1000


@pytest.fixture
def open_files() -> Iterator[None]:
    """Enough descriptors for both ends in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4096), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def call(harness, number):
    reader, writer = await asyncio.open_connection(harness.host, harness.port)
    body = b'{"messages": [{"role": "user", "content": "%d"}]}' % number
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
        f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200") and b'"you said: %d"' % number in answer


@pytest.mark.parametrize("most_open", [4096, 60])
async def test_a_thousand_calls_at_once_are_all_answered(open_files, most_open):
    async with listening(most_open=most_open) as harness, asyncio.timeout(60):
        answers = await asyncio.gather(*(call(harness, number) for number in range(AT_ONCE)))
    assert answers.count(True) == AT_ONCE


async def test_while_no_more_connections_may_be_open_idle_ones_make_space(open_files):
    async with listening(most_open=20) as harness:
        idle = [await asyncio.open_connection(harness.host, harness.port) for _ in range(60)]
        async with asyncio.timeout(8):
            assert await call(harness, 1)
        for _, writer in idle:
            writer.close()
