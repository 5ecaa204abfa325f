"""Start and stop the gateway of a home from another process, through the service manager where it is
installed there."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claw import ClawError, t
from claw.runtime import SYSTEM_DISK, cannot_write

from claw_gateway.process.presence import gateway_pid
from claw_gateway.process.service import SystemService
from claw_gateway.process.status import READY, read_status

OUTPUT_FILE = "gateway.out"
"""File in ``logs``: the output of a background gateway until it is ready, and of its interpreter when it
crashes."""
START_SECONDS, STOP_SECONDS = 90.0, 25.0
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class StartResult:
    """The result of a start.

    :param pid: process id of the running gateway; None = it could not start.
    :param already_running: true if a gateway was running already.
    :param exit_code: exit code of a gateway that could not start; ``output`` is what it printed.
    """

    pid: int | None
    already_running: bool = False
    exit_code: int = 0
    output: str = ""


def start_gateway(home: Path, environ: Mapping[str, str], words: Sequence[str] = ()) -> StartResult:
    """Start a gateway in the background, and wait until it is ready.

    :param words: further options of ``claw gateway run``.
    :raises ClawError: the service manager refuses, or the gateway is not ready in time.
    """
    if read_status(home).live_run:
        return StartResult(gateway_pid(home), already_running=True)
    service = SystemService(home, environ)
    if service.usable() and not words:
        started_at = time.time()
        service.start()
        return _wait_until_ready(home, lambda: _service_failure(home, started_at))
    SYSTEM_DISK.make_folder(home / "logs")
    out = home / "logs" / OUTPUT_FILE
    try:
        fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        SYSTEM_DISK.append(
            fd, b"\n"
        )  # a full disk refuses that, and would leave the error of the child unsaid
    except OSError as refused:
        raise cannot_write(out, refused) from refused
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "claw", "gateway", "run", "--quiet", *words],
            stdin=subprocess.DEVNULL, stdout=fd, stderr=fd, cwd=home, env=dict(environ), start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(fd)
    return _wait_until_ready(home, lambda: _child_failure(child, out))


def _wait_until_ready(home: Path, failed: Callable[[], StartResult | None]) -> StartResult:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        run = read_status(home).live_run
        if run and run.state == READY:
            return StartResult(run.pid)
        if (failure := failed()) is not None:
            return failure
        time.sleep(_PAUSE_SECONDS)
    raise ClawError(
        "the gateway is not ready after {seconds:.0f} s",
        where=str(home),
        fix="claw logs may show why",
        seconds=START_SECONDS,
    )


def _service_failure(home: Path, started_at: float) -> StartResult | None:
    """Return the error of the run that the service manager started, if that run is over already."""
    seen = read_status(home)
    if (
        seen.pid
        or seen.last_run is None
        or seen.last_run.started_at < started_at
        or not seen.last_run.body.get("error")
    ):
        return None
    return StartResult(
        None, exit_code=int(seen.last_run.body.get("code", 1)), output=str(seen.last_run.body["error"])
    )


def _child_failure(child: "subprocess.Popen[bytes]", out: Path) -> StartResult | None:
    """Return the result of a child that is over: another gateway may have started first, else its output says
    why."""
    code = child.poll()
    if code is None:
        return None
    silent = t("it exited with code {code} and no message; claw gateway run may show why", code=code)
    output = out.read_text(encoding="utf-8", errors="replace").strip() or silent
    return StartResult(None, exit_code=code if code > 0 else 1, output=output)


def stop_gateway(home: Path, environ: Mapping[str, str], *, now: bool = False) -> int | None:
    """End the gateway of ``home``, wait until its process is gone, and return its process id; None when none
    ran.

    :param now: kill it; the next start resumes or reports interrupted turns.
    :raises ClawError: it cannot be ended from here, or does not end.
    """
    seen = read_status(home)
    if seen.pid is None:
        return None
    if seen.live_run is None:
        raise ClawError(
            "process {pid} holds this home and has not identified itself as a gateway",
            where=str(home),
            fix="check it with ps -p {pid}; an installation of plugins ends by itself",
            pid=seen.pid,
        )
    if seen.on_other_host:
        raise ClawError(
            "the gateway runs on {host}, as process {pid} there", where=str(home), fix="stop it there",
            host=seen.live_run.host, pid=seen.pid,
        )  # fmt: skip
    service = SystemService(home, environ)
    if not now and service.usable() and service.pid() == seen.pid:
        service.stop()
    else:
        _signal(seen.pid, signal.SIGKILL if now else signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while gateway_pid(home) == seen.pid:
        if time.monotonic() > deadline:
            raise ClawError(
                "process {pid} does not exit",
                where=str(home),
                fix="claw gateway stop --now kills it",
                pid=seen.pid,
            )
        time.sleep(_PAUSE_SECONDS)
    return seen.pid


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError as refused:
        raise ClawError(
            "process {pid} belongs to another user", fix="stop it as that user", pid=pid
        ) from refused
