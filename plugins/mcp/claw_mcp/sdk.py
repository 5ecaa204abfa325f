"""Sessions with MCP servers; the only module that uses the MCP SDK, which is imported on first use."""

import asyncio
import atexit
import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import ClawError, child_environment, t
from claw.runtime import make_folder

from claw_mcp.logins import LoginFile
from claw_mcp.repair import install_words
from claw_mcp.settings import ServerSettings, find_program

if TYPE_CHECKING:
    import httpx2

SDK = "mcp >=2.3,<3"
_INTERNAL_ERROR = -32603  # of JSON-RPC 2.0
_TAIL_BYTES = 4096
_PID_MARK = b"claw-mcp-pid "
_SHELL = ("/bin/sh", "-c", 'printf "%s%s\\n" "$0" "$$" >&2; exec "$@"', _PID_MARK.decode())
"""A shell that tells its pid on stderr and becomes the program: the SDK, which starts it as the first process of a group,
does not tell it.
"""
_LOST = ("connection closed", "session terminated")


@dataclass(frozen=True)
class SessionEnvironment:
    """The environment of a session.

    :param folder: the working folder of programs that name none.
    :param http: the client for an address that the operator wrote.
    :param learn: masks secrets from now on.
    :param login: the login at this server; filled in for each.
    """

    folder: Path
    environ: Mapping[str, str]
    http: Callable[[str], "httpx2.AsyncClient"]
    learn: Callable[[Iterable[str]], None] = lambda secrets: None
    login: LoginFile | None = None


class StderrTail:
    """The stderr of a server: its tail is kept for errors, and none of it reaches the terminal. Its first line is the pid
    of the server.
    """

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._chunks: deque[bytes] = deque(maxlen=64)
        self._group = 0
        read, write = os.pipe()
        self.file = os.fdopen(write, "w", encoding="utf-8")
        self._thread = threading.Thread(
            target=self._read_pipe, args=(read,), daemon=True, name="claw-mcp-stderr"
        )
        self._thread.start()

    def close(self) -> None:
        """Close our own end of the pipe: the server has ended, or holds the pipe itself."""
        self.file.close()

    def kill(self) -> None:
        """Kill what is left of the server and its children."""
        group, self._group = self._group, 0
        _groups.discard(group)
        if group:
            _kill(group)

    @property
    def lines(self) -> list[str]:
        """The last lines, secrets masked."""
        text = b"".join(self._chunks)[-_TAIL_BYTES:].decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, "******") if secret else text
        return [line for line in text.splitlines() if line.strip()][-20:]

    def settle(self) -> list[str]:
        """Return the last lines of a server that has ended, after reading the rest of the pipe."""
        self._thread.join(1.0)
        return self.lines

    def _read_pipe(self, read: int) -> None:
        with os.fdopen(read, "rb") as pipe:
            first = pipe.readline(_TAIL_BYTES)
            if first.startswith(_PID_MARK):
                self._group = int(first.removeprefix(_PID_MARK))
                _groups.add(self._group)
            else:
                self._chunks.append(first)
            while chunk := pipe.read1(1024):
                self._chunks.append(chunk)


_groups: set[int] = set()
"""The process groups of servers that run: killed at the end of this process, should it come before that of a session."""


def _kill(group: int) -> None:
    with contextlib.suppress(OSError):  # there is none any more
        os.killpg(group, signal.SIGKILL)


@atexit.register
def _kill_all() -> None:
    for group in tuple(_groups):
        _kill(group)


async def load() -> Any:
    """Import the SDK off the event loop: that costs one to two seconds of CPU.

    :raises ClawError: it is not installed.
    """
    try:
        sdk = await asyncio.to_thread(import_module, "mcp")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "mcp":
            raise
        raise ClawError(
            "the MCP SDK is not installed (the extra claw-mcp[sdk])",
            fix="run: {command}",
            command=install_words(sys.executable, SDK),
        ) from None
    # Its loggers log messages with tracebacks; a logger without a handler writes to the terminal.
    for name in ("mcp", "client"):
        logging.getLogger(name).propagate = False
        logging.getLogger(name).addHandler(logging.NullHandler())
    return sdk


@dataclass(frozen=True)
class SessionEvents:
    """The events of a session.

    :param ended: called when the server goes away.
    :param changed: called when the server says that its list of tools changed.
    :param withheld: called with each tool whose form the SDK does not take, and why: without it the whole list fails.
    :param callbacks: for the requests of the server (``mcp.Client``).
    :param refused: called with the reason when the server does not accept the authorization of a request.
    """

    ended: Callable[[], None]
    changed: Callable[[], None]
    withheld: Callable[[str, str], None] = lambda tool, why: None
    refused: Callable[[ClawError], None] = lambda why: None
    callbacks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def session(
    server: ServerSettings, place: SessionEnvironment, stderr_tail: StderrTail, events: SessionEvents
) -> AsyncIterator[Any]:
    """Open a session (``mcp.Client``) for the duration of the block."""
    sdk, is_open = await load(), False

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            events.changed()

    def ended() -> None:
        if is_open:  # else it is a transport that did not fit
            events.ended()

    def client(transport: Any, mode: str = "auto") -> Any:
        return sdk.Client(
            _Watched(transport, ended, events.withheld),
            mode=mode,
            cache=None,
            message_handler=hear,
            client_info=sdk.Implementation(name="claw", version="0.1.0"),
            read_timeout_seconds=None,
            **events.callbacks,
        )

    async with contextlib.AsyncExitStack() as stack:
        if server.url:

            def refused(why: ClawError) -> None:
                if is_open:  # else the handshake goes on, perhaps without authorization
                    events.refused(why)

            opened = await _open_remote(server, place, stack, client, refused)
        else:
            opened = await stack.enter_async_context(client(_stdio(server, place, stderr_tail)))
        is_open = True
        yield opened


def is_lost(error: Exception) -> bool:
    """Return true if a failed request means that the session is lost, rather than an error from the
    server.
    """
    return str(error).strip().lower().startswith(_LOST)


async def _open_remote(
    server: ServerSettings,
    place: SessionEnvironment,
    stack: contextlib.AsyncExitStack,
    client: Callable[..., Any],
    refused: Callable[[ClawError], None],
) -> Any:
    """Open a session with a server at an address, in the transport that it has."""
    from claw_mcp.remote import RemoteServer

    def report() -> None:
        if fault := remote.login_fault:
            refused(fault)

    remote, status = RemoteServer(server, place.http, place.login, refused=report), 0
    if server.type != "sse":
        try:
            return await stack.enter_async_context(client(remote.streamable_http()))
        except Exception as why:
            if fault := remote.login_fault:
                raise fault from why
            if not remote.may_be_sse:
                raise
            status = remote.status
    try:  # the servers of SSE know no other beginning than the handshake
        return await stack.enter_async_context(client(remote.sse(), mode="legacy"))
    except Exception as why:
        if fault := remote.login_fault:
            raise fault from why
        if not status:
            raise
        fix = "Correct the url: its path is often /mcp or /sse"
        problem = "the address answers a message with HTTP {status}, and opens no stream of SSE"
        raise ClawError(problem, fix=fix, status=status) from why


def _stdio(server: ServerSettings, place: SessionEnvironment, stderr_tail: StderrTail) -> Any:
    """Return the transport of a program, over its pipes."""
    from mcp.client import stdio

    # By default a program that ignores its end is killed after 4 s: too late, as a plugin has 5 s to close.
    stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT = 1.0, 0.5
    environment = child_environment(place.environ, server.env_allow)
    environment |= {name: secret.reveal() for name, secret in server.env.items()}
    command = program(server.command or "", environment["PATH"])
    parameters = stdio.StdioServerParameters(
        command=_SHELL[0],
        args=[*_SHELL[1:], command, *server.args],
        env=environment,
        cwd=_folder(server, place),
        encoding_error_handler="replace",
    )
    return stdio.stdio_client(parameters, errlog=stderr_tail.file)


def _folder(server: ServerSettings, place: SessionEnvironment) -> Path:
    if server.folder:
        return server.folder
    make_folder(place.folder)
    return place.folder


def program(command: str, path: str) -> str:
    """Return the path of a program: on ``PATH``, else beside the Python that claw runs in.

    :raises ClawError: it is not found.
    """
    found = find_program(command, path)
    if not found:
        raise ClawError(
            "the program {command} is not there",
            fix="install it, or write its full path as command",
            command=command,
        )
    return found


class _Watched:
    """A transport that reports when its reading side has ended, which the SDK itself does not, and leaves out tools in a
    form that the SDK refuses.
    """

    def __init__(
        self, transport: Any, ended: Callable[[], None], withheld: Callable[[str, str], None]
    ) -> None:
        self._transport, self._ended, self._withheld = transport, ended, withheld

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._transport.__aenter__()
        return _WatchedStream(read, self._ended, self._withheld), write

    async def __aexit__(self, *why: Any) -> Any:
        return await self._transport.__aexit__(*why)


class _WatchedStream:
    def __init__(self, stream: Any, ended: Callable[[], None], withheld: Callable[[str, str], None]) -> None:
        self._stream, self._ended, self._withheld = stream, ended, withheld

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> "_WatchedStream":
        return self

    async def __anext__(self) -> Any:
        try:
            return _with_sound_tools(_answered(await self._stream.__anext__()), self._withheld)
        except StopAsyncIteration:
            self._ended()
            raise

    async def receive(self) -> Any:
        try:
            return _with_sound_tools(_answered(await self._stream.receive()), self._withheld)
        except Exception:
            self._ended()
            raise

    async def __aenter__(self) -> "_WatchedStream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> Any:
        return await self._stream.__aexit__(*why)


def _answered(item: Any) -> Any:
    """Return a received message; in place of an answer that is no message, an error for the request that waits for it,
    which the SDK would let wait until its time limit.
    """
    from mcp.shared.message import SessionMessage
    from mcp.types import ErrorData, JSONRPCError
    from pydantic import ValidationError

    if not isinstance(item, ValidationError):
        return item
    for error in item.errors(include_url=False):
        given = error["input"]
        with contextlib.suppress(ValueError):
            given = json.loads(given) if isinstance(given, str | bytes) else given
        if isinstance(given, dict) and isinstance(given.get("id"), int | str):
            said = t("the MCP SDK cannot read its answer ({fault})", fault=first_fault(item))
            about = ErrorData(code=_INTERNAL_ERROR, message=said)
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=given["id"], error=about))
    return item


def _with_sound_tools(item: Any, withheld: Callable[[str, str], None]) -> Any:
    """Return a received message; a list of tools in it loses those in a form that the SDK refuses."""
    message = getattr(item, "message", None)
    result = getattr(getattr(message, "root", message), "result", None)
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(result, dict) and isinstance(tools, list):
        faults = [_fault_of(tool) for tool in tools]
        for tool, fault in zip(tools, faults, strict=True):
            if fault:
                withheld(str(tool.get("name", "?")) if isinstance(tool, dict) else "?", fault)
        result["tools"] = [tool for tool, fault in zip(tools, faults, strict=True) if not fault]
    return item


def _fault_of(tool: Any) -> str:
    """Return why a tool cannot be used as its server lists it: for the SDK, key and reason; empty when it can."""
    from mcp.types import Tool
    from pydantic import ValidationError

    try:
        execution = Tool.model_validate(tool).execution
    except ValidationError as why:
        return first_fault(why)
    kind = tool["inputSchema"].get("type")  # the lists of some versions of the protocol are refused for it
    if kind != "object":
        return f"inputSchema.type: it must be 'object', not {kind!r}"
    is_task = execution is not None and execution.task_support == "required"
    return t("it can only be called as a task, which claw does not do") if is_task else ""


def first_fault(why: Any) -> str:
    """Return the first of the errors of pydantic: where it is, and its reason."""
    first = why.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or '.'}: {first['msg']}"
