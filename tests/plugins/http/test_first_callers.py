"""Those who call before uvicorn is imported: they wait, and are served in full."""

import asyncio
import subprocess
import sys
from contextlib import suppress

from claw_http.listener import Listener

BEFORE_AND_AFTER = """
import asyncio, sys
from claw_http.listener import Listener

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})

async def main():
    listener = Listener(app)
    port = await listener.start("127.0.0.1", 0)
    print("uvicorn" in sys.modules)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
    print((await reader.readline()).decode().strip())
    print("uvicorn" in sys.modules)
    writer.close()
    await listener.stop()

asyncio.run(main())
"""


async def echo(scope, receive, send):
    body = (await receive())["body"]
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]}
    )
    await send({"type": "http.response.body", "body": body})


async def call(port: int, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


def test_a_listener_that_nobody_called_has_not_imported_uvicorn():
    ran = subprocess.run(
        [sys.executable, "-c", BEFORE_AND_AFTER], capture_output=True, text=True, timeout=30, check=True
    )

    assert ran.stdout.splitlines() == ["False", "HTTP/1.1 204 No Content", "True"]


async def test_the_first_callers_wait_and_each_is_answered():
    listener = Listener(echo)
    port = await listener.start("127.0.0.1", 0)

    bodies = [b"%d" % number * 5000 for number in range(20)]
    assert await asyncio.gather(*(call(port, body) for body in bodies)) == bodies

    assert await call(port, b"later") == b"later"
    await listener.stop()


async def test_a_first_caller_who_leaves_at_once_leaves_nothing_behind():
    listener = Listener(echo)
    port = await listener.start("127.0.0.1", 0)

    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.transport.abort()

    assert await call(port, b"next") == b"next"
    await listener.stop()


async def test_a_listener_that_stops_lets_go_of_those_who_still_wait():
    listener = Listener(echo)
    port = await listener.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0)

    await listener.stop()

    with suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
