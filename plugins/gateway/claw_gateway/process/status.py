"""The status of the gateway, for other processes: one row per run in ``state.db``, updated while the process
lives.

A row in a living state whose process is gone is a crash, unless the note of its end says that it was killed: the next
start logs and counts it.
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

from claw.runtime import SYSTEM_CLOCK, Clock, Database, read_only_address
from claw_config_sdk import local_time

from claw_gateway.process.presence import gateway_pid
from claw_gateway.process.report import ChannelReport, HealthReport

FILE = "state.db"
STARTING, READY, STOPPING = "starting", "ready", "stopping"
STOPPED, FAILED, BROKEN = "stopped", "failed", "broken"
KILLED = "killed"
"""Of a run before: it ended from outside (a kill, lack of memory, a power cut), which says nothing about its plugins."""
_ENDS = (STOPPED, FAILED, BROKEN)
STALE_SECONDS = 15.0
"""A row is written every five seconds at least; one that is older belongs to a process that hangs."""
UNSERVED_SECONDS = 120.0
"""A channel that waits is interrupted until then, and receives nothing afterwards: a long poll alone takes 50."""
MOST_CRASHES, CRASH_WINDOW_SECONDS = 3, 600.0  # DESIGN section 5: safe mode at the third death in ten minutes
_KEPT_RUNS = 20
TABLE = """CREATE TABLE IF NOT EXISTS gateway_runs
    (run INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,
     started_at_ms INTEGER NOT NULL, seen_at_ms INTEGER NOT NULL, body TEXT NOT NULL)"""
_COLUMNS = "pid, host, state, started_at_ms, seen_at_ms, body"


@dataclass(frozen=True, slots=True)
class GatewayRun:
    """One run of the gateway, as its row says.

    :param state: starting, ready, stopping; at the end stopped, failed (it could not start) or broken.
    :param updated_at: time of the last write of the row, seconds since 1970.
    :param body: plain data: channels, running, waiting, owed, config, safe, error.
    """

    pid: int
    host: str
    state: str
    started_at: float
    updated_at: float
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def crashed(self) -> bool:
        """True if a run whose process is gone ended by itself, as far as is known, and was not asked to stop."""
        return self.state in (STARTING, READY, BROKEN)

    @property
    def ended_badly(self) -> bool:
        """True if a run whose process is gone did not come to its own end."""
        return self.crashed or self.state in (STOPPING, KILLED)


class StatusRow:
    """The status row of the gateway of this process.

    :param log: called when the state file was not a database and was renamed.
    :raises ClawError: from every method, when the state cannot be written.
    """

    def __init__(
        self, home: Path, log: Callable[[str], None] = lambda line: None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._database, self._clock = Database(home / FILE, clock, log), clock
        self._database.tables("gateway", TABLE)
        self._run, self._ended, self._write_lock = 0, False, threading.Lock()

    def begin(self, *, was_killed: bool = False) -> tuple[GatewayRun, ...]:
        """Insert the row of this process; return the runs before it, newest first.

        :param was_killed: the newest run before ended from outside.
        """
        if was_killed:
            newest = "run = (SELECT max(run) FROM gateway_runs)"
            sql = f"UPDATE gateway_runs SET state = ? WHERE {newest} AND state IN (?, ?)"
            self._database.write(sql, KILLED, STARTING, READY)
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
        """Write how this run is doing. After an end state no other state is written: a late thread may still
        call."""
        text = json.dumps(body, ensure_ascii=False, default=str)
        with self._write_lock:
            if self._ended and state not in _ENDS:
                return
            self._ended = state in _ENDS
            self._database.write(
                "UPDATE gateway_runs SET state = ?, seen_at_ms = ?, body = ? WHERE run = ?",
                state, self._clock.now_ms(), text, self._run,
            )  # fmt: skip

    def close(self) -> None:
        """Close the database; the last one who closes it makes it durable."""
        self._database.close()


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """The gateway of a home, seen from outside.

    :param pid: the process that holds the lock now; None when no gateway runs.
    :param last_run: the newest run that has a row; None when there is none, or the state cannot be read.
    """

    pid: int | None
    last_run: GatewayRun | None
    now: float

    @property
    def live_run(self) -> GatewayRun | None:
        """The row of the running gateway; None when none runs, or it has not written one yet."""
        return self.last_run if self.pid and self.last_run and self.last_run.pid == self.pid else None

    @property
    def on_other_host(self) -> bool:
        """True if it runs on another machine, or in another container, that shares this home: its process id
        is not ours."""
        return self.live_run is not None and self.live_run.host != socket.gethostname()

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the running gateway wrote its row; more than ``STALE_SECONDS``: it hangs."""
        return max(0.0, self.now - self.live_run.updated_at) if self.live_run else 0.0


def read_status(home: Path, clock: Clock = SYSTEM_CLOCK) -> GatewayStatus:
    """Read the status of the gateway of ``home``. Write nothing, and wait for no lock."""
    path, rows = home / FILE, []
    if path.exists():
        try:
            with closing(sqlite3.connect(read_only_address(path), uri=True, timeout=2)) as database:
                query = f"SELECT {_COLUMNS} FROM gateway_runs ORDER BY run DESC LIMIT 1"
                rows = database.execute(query).fetchall()
        except sqlite3.DatabaseError:
            rows = []
    return GatewayStatus(gateway_pid(home), _run(rows[0]) if rows else None, clock.now())


def recent_crashes(before: tuple[GatewayRun, ...], now: float) -> int:
    """Count the recent crashes since the gateway last came to its own end. ``before``: newest first."""
    count = 0
    for run in before:
        if not run.crashed or run.updated_at < now - CRASH_WINDOW_SECONDS:
            break
        count += 1
    return count


def local_time_of(moment: float, clock: Clock = SYSTEM_CLOCK) -> str:
    """Format a moment for people, in local time."""
    return local_time(moment, clock.now())


def report_data(report: HealthReport) -> dict[str, Any]:
    """Return a report as plain data, as it is stored and shown."""
    return {
        "channels": [_channel(one) for one in report.channels],
        "running": report.running,
        "waiting": report.waiting,
        "owed": report.pending,
    }


def without_volatile(body: Mapping[str, Any]) -> Any:
    """Return a body without the fields that change all the time: two bodies that agree need one write."""
    channels = [
        {name: value for name, value in one.items() if name != "lastFrameAt"} for one in body["channels"]
    ]
    return {**body, "channels": channels}


def _channel(one: ChannelReport) -> dict[str, Any]:
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


def _run(row: tuple[Any, ...]) -> GatewayRun:
    pid, host, state, started_at_ms, seen_at_ms, text = row
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    return GatewayRun(
        pid, host, state, started_at_ms / 1000, seen_at_ms / 1000, body if isinstance(body, dict) else {}
    )
