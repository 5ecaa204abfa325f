"""The figure of the plan (spec, P2): 1,000 slow callers and 100 bodies of 20 MB; memory stays, a true event is served."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAD = b"POST /hooks/acme HTTP/1.1\r\nhost: localhost\r\n"
MOST_KB = 50_000


@pytest.fixture
def alone() -> Iterator[tuple[int, int]]:
    """Process number and port of a listener."""
    script = str(Path(__file__).with_name("alone.py"))
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        yield running.pid, int(running.stdout.readline())
        running.communicate("", timeout=10)


def memory_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def slow(port: int, start: bytes) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(start)
    return writer


async def large(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(20 << 4):
            writer.write(b"10000\r\n" + bytes(64 << 10) + b"\r\n")
            await writer.drain()
    writer.close()


async def true_event(port: int) -> float:
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD + b"connection: close\r\ncontent-length: 4\r\n\r\ntrue")
    assert (await reader.read()).endswith(b'{"bytes": 4}')
    writer.close()
    return time.perf_counter() - began


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
async def test_slow_callers_and_large_bodies_cost_little_memory_and_delay_nobody(alone):
    pid, port = alone
    await true_event(port)
    before = memory_kb(pid)

    starts = [b"POST /hooks/ac", HEAD + b"content-length: 900000\r\n\r\n" + bytes(1000)]
    callers = [await slow(port, starts[number % 2]) for number in range(1000)]
    flood = [asyncio.ensure_future(large(port)) for _ in range(100)]
    waits, sizes = [], []
    for _ in range(10):
        waits.append(await true_event(port))
        sizes.append(memory_kb(pid))
        await asyncio.sleep(0.05)
    await asyncio.gather(*flood)

    assert max(waits) < 8, "ten seconds are given to a slow one"
    assert max(sizes) - before < MOST_KB
    for writer in callers:
        writer.close()
