"""A process group, its output, and its end: no process outlives the call or the session that started it."""

import asyncio
import fcntl
import os
import re
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

KILL_AFTER_SECONDS = 2.0
_DRAIN_SECONDS = 1.0
_CHUNK = 65536
_TERMINAL_SIZE = (40, 120)  # lines, columns
_CONTROLS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|\r(?=\n)")


class Output:
    """The output of a process: head and tail, with the middle left out when it is more than ``limit``
    bytes.
    """

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = self.lines = 0

    def add(self, data: bytes) -> None:
        """Append output."""
        self.total += len(data)
        self.lines += data.count(b"\n")
        free = self._half - len(self._head)
        self._head += data[:free]
        self._tail += data[free:] if free < len(data) else b""
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def is_whole(self) -> bool:
        """True if no part of the output was dropped."""
        return self.total <= len(self._head) + min(len(self._tail), self._half)

    def text(self, start: int = 0) -> str:
        """Return the output from byte ``start`` on, as far as it was kept."""
        tail = bytes(self._tail[-self._half :])
        tail_start = self.total - len(tail)
        head = bytes(self._head[start:])
        missing = tail_start - max(start, len(self._head))
        tail = tail[max(start - tail_start, 0) :]
        gap = f"\n[... {missing} bytes left out ...]\n".encode() if missing > 0 else b""
        return _CONTROLS.sub(b"", head + gap + tail).decode("utf-8", "replace")


class RunningCommand:
    """One started command and its process group.

    :param outlet: its output; :param inlet: its input, None = no input. Both are pipes of our own, or one
        terminal: asyncio would consider a process as running as long as any child of it holds its output open.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, output: Output, outlet: int, inlet: int | None
    ) -> None:
        self._process, self._outlet, self._inlet = process, outlet, inlet
        self.output = output
        self.pid = process.pid
        self.began = time.monotonic()
        self._silent = asyncio.Event()
        os.set_blocking(outlet, False)
        asyncio.get_running_loop().add_reader(outlet, self._ready)

    @property
    def code(self) -> int | None:
        """The exit code; negative = the signal that ended it; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for the leader to end, then end the rest of its group."""
        code = await self._process.wait()
        self._signal(signal.SIGKILL)
        with suppress(TimeoutError):  # no wait_for: in Python 3.11 it can lose a cancellation
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._silent.wait()
        self._close()
        return code

    async def kill(self) -> None:
        """End the whole group: SIGTERM first, SIGKILL after :data:`KILL_AFTER_SECONDS`; SIGKILL at once
        when cancelled.
        """
        try:
            if self._signal(signal.SIGTERM):
                async with asyncio.timeout(KILL_AFTER_SECONDS):
                    await self._process.wait()
                    while self._signal(0):  # noqa: ASYNC110  nothing tells when a group is empty
                        await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGKILL)
        await self.wait()

    def kill_now(self) -> None:
        """Kill the group, without waiting."""
        self._signal(signal.SIGKILL)

    def write(self, data: bytes) -> None:
        """Write to the input of the process.

        :raises OSError: it does not read any more, or not fast enough.
        """
        if self._inlet is None:
            raise BrokenPipeError("it was started without an input")
        while data:
            data = data[os.write(self._inlet, data) :]

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; return False when it has no process left."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _ready(self) -> None:
        try:
            data = os.read(self._outlet, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other side is closed
            data = b""
        if data:
            self.output.add(data)
        else:
            asyncio.get_running_loop().remove_reader(self._outlet)
            self._silent.set()

    def _close(self) -> None:
        if self._outlet < 0:
            return
        asyncio.get_running_loop().remove_reader(self._outlet)
        for handle in {self._outlet, self._inlet} - {None}:
            os.close(handle)
        self._outlet, self._inlet = -1, None


async def start(
    argv: Sequence[str],
    program: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    limit: int,
    pty: bool = False,
    stdin: bool = False,
) -> RunningCommand:
    """Start a program in a process group of its own.

    :param limit: how many bytes of its output are kept.
    :param pty: give it a terminal.
    :param stdin: give it an input; else it has none.
    :raises OSError: it cannot be started.
    """
    if pty:
        outlet, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *_TERMINAL_SIZE, 0, 0))
        source, inlet = theirs, outlet
    else:
        outlet, theirs = os.pipe()
        source, inlet = os.pipe() if stdin else (asyncio.subprocess.DEVNULL, -1)
        if stdin:
            os.set_blocking(inlet, False)
    try:
        process = await asyncio.create_subprocess_exec(
            argv[0],
            *argv[1:],
            executable=program,
            cwd=folder,
            env={**environment, "TERM": "xterm-256color" if pty else "dumb"},
            start_new_session=True,
            stdin=source,
            stdout=theirs,
            stderr=theirs,
        )
    except BaseException:
        for handle in {outlet, inlet} - {-1}:
            os.close(handle)
        raise
    finally:
        for handle in {theirs, source} - {asyncio.subprocess.DEVNULL}:
            os.close(handle)
    return RunningCommand(process, Output(limit), outlet, inlet if inlet >= 0 else None)
