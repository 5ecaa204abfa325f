"""The subset of HTTP/1.1 that the fake needs, on asyncio streams."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_RAW = {
    "text",
    "caption",
    "url",
    "question",
    "callback_query_id",
    "parse_mode",
    "secret_token",
    "file_id",
    "emoji",
}
"""Parameters that are always text, even when they look like JSON."""


@dataclass(frozen=True)
class FakeHttpRequest:
    """One request as received.

    :param params: from JSON, a form or the query; numbers and objects in forms are parsed.
    :param files: by field: name, type, bytes.
    """

    verb: str
    path: str
    headers: dict[str, str]
    params: dict[str, Any] = field(default_factory=dict)
    files: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)


async def read_request(reader: asyncio.StreamReader) -> FakeHttpRequest | None:
    """Read the next request; None when the peer has closed."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.strip().split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)
        }
        if headers.get("transfer-encoding") == "chunked":
            body = await _chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    verb, target, _ = line.split(" ", 2)
    params, files = _read(body, headers.get("content-type", ""))
    query = dict(parse_qsl(urlsplit(target).query))
    return FakeHttpRequest(verb, unquote(urlsplit(target).path), headers, {**_typed(query), **params}, files)


async def post(url: str, body: Any, headers: dict[str, str]) -> int:
    """Post JSON to a loopback address and return the status of the answer.

    :raises OSError: nothing listens there.
    """
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        data = json.dumps(body).encode()
        lines = {
            "Host": where.netloc,
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            "Connection": "close",
            **headers,
        }
        head = f"POST {where.path or '/'} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
        writer.write(head.encode() + b"\r\n" + data)
        await writer.drain()
        status = await reader.readline()
        return int(status.split()[1]) if status else 0
    finally:
        writer.close()


def answer(status: int, body: bytes, content_type: str = "application/json") -> bytes:
    """Build a complete response; the connection stays open."""
    head = f"HTTP/1.1 {status} OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return body


def _read(body: bytes, kind: str) -> tuple[dict[str, Any], dict[str, tuple[str, str, bytes]]]:
    if not body:
        return {}, {}
    if kind.startswith("application/json"):
        return json.loads(body), {}
    if boundary := re.search(r'boundary="?([^";]+)', kind):
        return _parts(body, boundary[1].encode())
    return _typed(dict(parse_qsl(body.decode(), keep_blank_values=True))), {}


def _parts(body: bytes, boundary: bytes) -> tuple[dict[str, Any], dict[str, tuple[str, str, bytes]]]:
    """Parse a multipart form."""
    fields: dict[str, str] = {}
    files: dict[str, tuple[str, str, bytes]] = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        head_text = head.decode()
        name = re.search(r'[; ]name="([^"]*)"', head_text)
        file = re.search(r'filename="([^"]*)"', head_text)
        kind = re.search(r"(?i)content-type:\s*(\S+)", head_text)
        if name and file:
            files[name[1]] = (file[1], kind[1] if kind else "", data.removesuffix(b"\r\n"))
        elif name:
            fields[name[1]] = data.removesuffix(b"\r\n").decode()
    return _typed(fields), files


def _typed(fields: dict[str, str]) -> dict[str, Any]:
    return {name: value if name in _RAW else _parsed(value) for name, value in fields.items()}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
