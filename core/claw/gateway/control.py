"""Start and stop the gateway of a home from another process, by the system's service manager when it knows it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claw.errors import ClawError
from claw.gateway.presence import holder
from claw.gateway.service import Service
from claw.gateway.status import READY, look
from claw.store import SYSTEM as DISK, cannot_write
from claw.words import say

OUT = "gateway.out"
"""Below ``logs``: what a gateway in the background says until it is ready, and what its interpreter says if it dies."""
START_SECONDS, STOP_SECONDS = 90.0, 25.0
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Started:
    """What came of a start.

    :param pid: of the gateway that runs now; None = it could not start.
    :param before: it ran already.
    :param code: exit code of one that could not start; ``said`` is what it said.
    """

    pid: int | None
    before: bool = False
    code: int = 0
    said: str = ""


def start(home: Path, environ: Mapping[str, str], words: Sequence[str] = ()) -> Started:
    """Have a gateway run in the background, and wait until it is ready.

    :param words: further options of ``claw gateway run``.
    :raises ClawError: the service manager refuses, or the gateway is not ready in time.
    """
    if look(home).told:
        return Started(holder(home), before=True)
    service = Service(home, environ)
    if service.usable() and not words:
        began = time.time()
        service.start()
        return _ready(home, lambda: _refused(home, began))
    DISK.make_folder(home / "logs")
    out = home / "logs" / OUT
    try:
        fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as refused:
        raise cannot_write(out, refused) from refused
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "claw", "gateway", "run", "--quiet", *words],
            stdin=subprocess.DEVNULL, stdout=fd, stderr=fd, cwd=home, env=dict(environ), start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(fd)
    return _ready(home, lambda: _ended(child, out))


def _ready(home: Path, ended: Callable[[], Started | None]) -> Started:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        told = look(home).told
        if told and told.state == READY:
            return Started(told.pid)
        if (over := ended()) is not None:
            return over
        time.sleep(_PAUSE_SECONDS)
    raise ClawError(
        "the gateway is not ready after {seconds:.0f} s", where=str(home), fix="claw logs may tell why",
        seconds=START_SECONDS,
    )  # fmt: skip


def _refused(home: Path, began: float) -> Started | None:
    """What the run that the service manager began said, when it is over already."""
    seen = look(home)
    if seen.pid or seen.run is None or seen.run.started_at < began or not seen.run.body.get("error"):
        return None
    return Started(None, code=int(seen.run.body.get("code", 1)), said=str(seen.run.body["error"]))


def _ended(child: "subprocess.Popen[bytes]", out: Path) -> Started | None:
    """A child that is over: another one may have been quicker, else it says why it did not start."""
    code = child.poll()
    if code is None:
        return None
    silent = say("it ended with code {code} and without a word; claw gateway run may tell why", code=code)
    said = out.read_text(encoding="utf-8", errors="replace").strip() or silent
    return Started(None, code=code if code > 0 else 1, said=said)


def stop(home: Path, environ: Mapping[str, str], *, now: bool = False) -> int | None:
    """End the gateway of ``home`` and wait until it is gone; its number, None when none ran.

    :param now: kill it; what was under way is resumed or told by the next start.
    :raises ClawError: it cannot be ended from here, or does not end.
    """
    seen = look(home)
    if seen.pid is None:
        return None
    if seen.told is None:
        raise ClawError(
            "process {pid} holds this home, and has not said that it is a gateway",
            where=str(home), fix="see what it is: ps -p {pid}; a change of plugins ends by itself", pid=seen.pid,
        )  # fmt: skip
    if seen.elsewhere:
        raise ClawError(
            "the gateway runs on {host}, as process {pid} there", where=str(home), fix="stop it there",
            host=seen.told.host, pid=seen.pid,
        )  # fmt: skip
    service = Service(home, environ)
    if not now and service.usable() and service.pid() == seen.pid:
        service.stop()
    else:
        _signal(seen.pid, signal.SIGKILL if now else signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while holder(home) == seen.pid:
        if time.monotonic() > until:
            raise ClawError(
                "process {pid} does not end",
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
            "process {pid} belongs to somebody else", fix="stop it as that user", pid=pid
        ) from refused
