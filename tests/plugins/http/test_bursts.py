"""Many connections at once: all of them are served, also where few files may be open."""

import asyncio
import resource
import socket
import sys
from collections.abc import Iterator

import pytest
from claw_http.connection import CROWDED_SECONDS, silent_seconds
from plugins.http.bench import TOKEN, listening

AT_ONCE = 1000


@pytest.fixture
def open_files() -> Iterator[None]:
    """Enough descriptors for both ends in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4096), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def call(harness, number, silent_seconds=0.0):
    reader, writer = await asyncio.open_connection(harness.host, harness.port)
    await asyncio.sleep(silent_seconds)
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the time that a connection waited")
async def test_callers_that_are_slow_to_send_are_not_closed_for_others(open_files):
    async with listening(most_open=20) as harness, asyncio.timeout(30):
        slow = [call(harness, number, CROWDED_SECONDS * 2) for number in range(60)]
        answers = await asyncio.gather(*slow)
    assert answers.count(True) == 60


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the time that a connection waited")
@pytest.mark.parametrize(("sent", "is_counted"), [(b"", True), (b"POST / HTTP/1.1", False)])
async def test_the_time_in_the_backlog_counts_for_a_connection_that_sent_nothing_alone(sent, is_counted):
    listening_socket = socket.create_server(("127.0.0.1", 0))
    with listening_socket, socket.create_connection(listening_socket.getsockname()) as caller:
        caller.sendall(sent)
        await asyncio.sleep(0.3)
        accepted, _ = listening_socket.accept()
        ages = []

        class Seen(asyncio.Protocol):
            def connection_made(self, transport):
                ages.append(silent_seconds(transport))

        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(Seen, accepted)
        transport.close()
    assert (ages[0] >= 0.2) is is_counted
