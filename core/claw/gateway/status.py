"""How the gateway is doing, for other processes: one row for each run in ``state.db``, written while it lives.

A row that speaks of a life, and whose process is gone, is a death: the next start tells of it, and counts it.
"""

import json
import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claw.clock import SYSTEM, Clock, here
from claw.gateway.presence import holder
from claw.report import Listening, Report
from claw.store import Database

FILE = "state.db"
STARTING, READY, STOPPING = "starting", "ready", "stopping"
STOPPED, FAILED, BROKEN = "stopped", "failed", "broken"
_ENDS = (STOPPED, FAILED, BROKEN)
STALE_SECONDS = 15.0
"""A row is written every five seconds at least; one that is older belongs to a process that hangs."""
MOST_DEATHS, DEATHS_WITHIN_SECONDS = 3, 600.0  # DESIGN section 5: safe mode at the third death in ten minutes
_KEPT_RUNS = 20
_TABLE = """CREATE TABLE IF NOT EXISTS gateway_runs
    (run INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,
     started_at_ms INTEGER NOT NULL, seen_at_ms INTEGER NOT NULL, body TEXT NOT NULL)"""
_COLUMNS = "pid, host, state, started_at_ms, seen_at_ms, body"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the gateway, as it last wrote itself down.

    :param state: starting, ready, stopping; at the end stopped, failed (it could not start) or broken.
    :param seen_at: when it wrote this, seconds since 1970.
    :param body: plain data: channels, running, waiting, owed, config, safe, error.
    """

    pid: int
    host: str
    state: str
    started_at: float
    seen_at: float
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def died(self) -> bool:
        """Of a run whose process is gone: it was not asked to stop, and did not end by itself."""
        return self.state in (STARTING, READY, BROKEN)

    @property
    def unclean(self) -> bool:
        """Of a run whose process is gone: it did not come to its own end."""
        return self.died or self.state == STOPPING


class Board:
    """What the gateway of this process writes about itself.

    :param complain: told when the state was no database, and was set aside.
    :raises ClawError: from every method, when the state cannot be written.
    """

    def __init__(
        self, home: Path, complain: Callable[[str], None] = lambda line: None, clock: Clock = SYSTEM
    ) -> None:
        self._database, self._clock = Database(home / FILE, clock, complain), clock
        self._database.tables("gateway", _TABLE)
        self._run, self._over, self._guard = 0, False, threading.Lock()

    def begin(self) -> tuple[Run, ...]:
        """Begin a row of this process; answers with the runs before it, newest first."""
        before = tuple(
            map(_run, self._database.read(f"SELECT {_COLUMNS} FROM gateway_runs ORDER BY run DESC"))
        )
        now = self._clock.now_ms()
        self._database.write(
            f"INSERT INTO gateway_runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, '{{}}')",
            os.getpid(), socket.gethostname(), STARTING, now, now,
        )  # fmt: skip
        [(self._run,)] = self._database.read("SELECT max(run) FROM gateway_runs")
        self._database.write("DELETE FROM gateway_runs WHERE run <= ?", self._run - _KEPT_RUNS)
        return before

    def write(self, state: str, body: Mapping[str, Any]) -> None:
        """Say how this run is doing now. Once it has said that it is over, a thread that is late says nothing else."""
        text = json.dumps(body, ensure_ascii=False, default=str)
        with self._guard:
            if self._over and state not in _ENDS:
                return
            self._over = state in _ENDS
            self._database.write(
                "UPDATE gateway_runs SET state = ?, seen_at_ms = ?, body = ? WHERE run = ?",
                state, self._clock.now_ms(), text, self._run,
            )  # fmt: skip

    def close(self) -> None:
        """Let go of the file; the last one who does so makes it durable."""
        self._database.close()


@dataclass(frozen=True, slots=True)
class Seen:
    """The gateway of a home, looked at from outside.

    :param pid: of the process that holds the lock now; None when no gateway runs.
    :param run: the newest run that is written down; None when there is none, or the state cannot be read.
    """

    pid: int | None
    run: Run | None
    now: float

    @property
    def told(self) -> Run | None:
        """What the running gateway says of itself; None when none runs, or it has said nothing yet."""
        return self.run if self.pid and self.run and self.run.pid == self.pid else None

    @property
    def elsewhere(self) -> bool:
        """It runs on another machine, or in another container, that shares this home: its number is not ours."""
        return self.told is not None and self.told.host != socket.gethostname()

    @property
    def quiet_seconds(self) -> float:
        """How long ago the running one was last heard of; more than ``STALE_SECONDS``: it hangs."""
        return max(0.0, self.now - self.told.seen_at) if self.told else 0.0


def look(home: Path, clock: Clock = SYSTEM) -> Seen:
    """How the gateway of ``home`` is doing. Writes nothing, and waits for nobody."""
    path, rows = home / FILE, []
    if path.exists():
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as database:
                query = f"SELECT {_COLUMNS} FROM gateway_runs ORDER BY run DESC LIMIT 1"
                rows = database.execute(query).fetchall()
        except sqlite3.DatabaseError:
            rows = []
    return Seen(holder(home), _run(rows[0]) if rows else None, clock.now())


def deaths(before: tuple[Run, ...], now: float) -> int:
    """How often the gateway died of late, since it last came to its own end. ``before``: newest first."""
    count = 0
    for run in before:
        if not run.died or run.seen_at < now - DEATHS_WITHIN_SECONDS:
            break
        count += 1
    return count


def time_of(moment: float, clock: Clock = SYSTEM) -> str:
    """A moment as people here say it now."""
    return here(moment, clock.now())


def as_data(report: Report) -> dict[str, Any]:
    """A report as plain data, as it is written down and shown."""
    return {
        "channels": [_channel(one) for one in report.channels],
        "running": report.running,
        "waiting": report.waiting,
        "owed": report.owed,
    }


def still(body: Mapping[str, Any]) -> Any:
    """What is left of a body when that is taken out which changes all the time: two that agree need one writing."""
    channels = [
        {name: value for name, value in one.items() if name != "lastFrameAt"} for one in body["channels"]
    ]
    return {**body, "channels": channels}


def _channel(one: Listening) -> dict[str, Any]:
    return {
        "channel": one.name,
        "account": one.account,
        "plugin": one.plugin,
        "state": one.state.state,
        "detail": one.state.detail,
        "lastFrameAt": one.state.last_frame_at,
        "reconnects": one.state.reconnects,
        "lastError": one.state.last_error,
    }


def _run(row: tuple[Any, ...]) -> Run:
    pid, host, state, started_at_ms, seen_at_ms, text = row
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    return Run(
        pid, host, state, started_at_ms / 1000, seen_at_ms / 1000, body if isinstance(body, dict) else {}
    )
