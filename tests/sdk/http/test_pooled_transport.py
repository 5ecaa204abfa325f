"""Pooled connections: bytes behind an answer never belong to the next one, idle connections are used again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from claw import HttpClients
from claw_http_sdk import pooled
from http_server import Serve, listening, port_of


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[tuple[httpx2.AsyncClient, asyncio.Server]]:
    """A client for what ``serve`` says to each connection."""
    network = HttpClients()
    async with listening(serve) as server:
        try:
            yield pooled(network.client)(f"http://127.0.0.1:{port_of(server)}"), server
        finally:
            await network.aclose()


@pytest.mark.parametrize(
    "more", [b" and more", b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlies"], ids=["words", "an answer"]
)
@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
async def test_what_comes_behind_an_answer_is_never_taken_for_the_next_one(more: bytes, later: bool) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood" + (b"" if later else more))
            if later:
                await asyncio.sleep(0.02)
                writer.write(more)

    async with serving(serve) as (client, _):
        for _ in range(3):
            assert (await client.get("/")).text == "good"
            await asyncio.sleep(0.05)
    assert connections == 3


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "more", "connections_used"),
    [
        (CHUNKED + b"2\r\ngo\r\n2;x=1\r\nod\r\n0\r\n\r\n", b"", 1),
        (CHUNKED + b"4\r\ngood\r\n0\r\nTrailer: x\r\n\r\n", b"", 1),
        (CHUNKED + b"4\r\ngood\r\n0\r\n\r\n", b"0\r\n\r\n", 3),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood", b"", 1),
    ],
    ids=["chunks", "trailers", "chunks and more", "a status before"],
)
@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
async def test_a_connection_is_used_again_only_when_its_answer_ended_with_its_last_byte(
    answer: bytes, more: bytes, connections_used: int, in_pieces: bool
) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            for piece in (answer[:-9], answer[-9:] + more) if in_pieces else (answer + more,):
                writer.write(piece)
                await asyncio.sleep(0.01)

    async with serving(serve) as (client, _):
        for _ in range(3):
            assert (await client.get("/")).text == "good"
            await asyncio.sleep(0.03)
    assert connections == connections_used


async def test_an_answer_without_a_body_leaves_its_connection_in_use() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while (await reader.readuntil(b"\r\n\r\n")).startswith(b"HEAD"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with serving(serve) as (client, _):
        assert [(await client.head("/")).status_code for _ in range(2)] == [200, 200]
        assert (await client.get("/")).status_code == 204
    assert connections == 1
