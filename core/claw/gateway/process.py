"""``claw gateway run``: one process that serves the channels of a home until it is told to stop."""

import asyncio
import faulthandler
import gc
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from claw import __version__, survey
from claw.app import App, House, look_round
from claw.clock import SYSTEM
from claw.errors import ClawError
from claw.gateway import status
from claw.gateway.logs import FILE, Book, Sink, level_of, logging_to
from claw.gateway.presence import hold
from claw.gateway.reload import Watch, guarded, judge, keep_last_good, still_runs
from claw.gateway.signals import Signals, end_in
from claw.gateway.status import time_of
from claw.kit import channel_key
from claw.serve import Serving
from claw.wall import name_of, own_stdout
from claw.words import say

_LOOK_SECONDS = 0.5  # between two looks at the channels and at the config file
_WRITE_SECONDS = 5.0
_SERVING_SECONDS, _CLOSING_SECONDS = 12.0, 2.0  # of the fifteen that a stop may take
_LEFT_SECONDS = (
    0.5  # for what does not even end when it is cancelled; everything that counts is on disk by then
)
_TIDY_AFTER_SECONDS, _DAY_SECONDS = 60.0, 86_400.0
_held: list[Any] = []


def run_gateway(
    environ: Mapping[str, str] = os.environ,
    *,
    guests: Mapping[str, Any] | None = None,
    safe: bool | None = None,
    screen: TextIO | None = None,
    quiet: bool = False,
    began: float | None = None,
) -> int:
    """Serve the home of ``environ`` until SIGTERM or SIGINT; the exit code. The lock is held until the process ends.

    :param guests: plugin objects handed in by a test, by id.
    :param safe: without the plugins of others; None = when the gateway died three times in ten minutes.
    :param screen: lines for people; None = stderr.
    :param quiet: nothing on it any more, once the gateway is ready.
    :param began: when the start began, by the monotonic clock; None = now.
    :raises BusyError: a gateway runs here already.
    :raises ClawError: it cannot start.
    """
    began = SYSTEM.monotonic() if began is None else began
    os.umask(0o077)
    home = survey.home_of(environ)
    _held.append(hold(home))
    sink = Sink(Book(home / "logs" / FILE), screen or sys.stderr)
    with suppress(Exception):  # stderr may be no real file
        faulthandler.enable()
    with logging_to(sink) as log:
        return Gateway(environ, home, sink, log, began, guests, safe, quiet).live()


class Gateway:
    """The life of the process: what is told, written down, and watched beside the serving itself."""

    def __init__(
        self,
        environ: Mapping[str, str],
        home: Path,
        sink: Sink,
        log: logging.Logger,
        began: float,
        guests: Mapping[str, Any] | None = None,
        safe: bool | None = None,
        quiet: bool = False,
    ) -> None:
        self._environ, self._home, self._guests = environ, home, guests
        self._sink, self._log, self._began, self._quiet = sink, log, began, quiet
        self._board, self._signals = status.Board(home, log.warning), Signals()
        self._wish_safe, self._safe = safe, False
        self._problem, self._since, self._text = "", SYSTEM.now(), b""
        self._stop, self._reload = asyncio.Event(), asyncio.Event()
        self._unwritten = ""
        self._file = Watch(home)

    def live(self) -> int:
        """From the first look at the home to the last line."""
        self._signals.take()
        before = self._board.begin()
        self._tell_of(before)
        state, error, code = status.BROKEN, "", 1
        try:
            house = self._first_house(before)
            if self._signals.asked:
                state = status.STOPPED
                return 0
            with own_stdout():  # strangers print into a void, not between our lines
                asyncio.run(self._serve(house))
            state = status.STOPPED
        except ClawError as refused:
            state, error, code = status.FAILED, str(refused), refused.exit_code
            self._sink.screen = None  # who called says it there
            self._log.error(error)
            raise
        except Exception as broken:
            error = name_of(broken)
            self._log.exception(say("the gateway broke: {why}", why=error))
            raise
        finally:
            self._write(state, {"error": self._sink.safe(error), "code": code} if error else {})
            self._board.close()
        return 0

    def _first_house(self, before: tuple[status.Run, ...]) -> House:
        house = look_round(self._environ)
        self._log_as(house)
        if path := house.config.path:
            with suppress(OSError):
                self._text = path.read_bytes()
        died = status.deaths(before, SYSTEM.now())
        self._safe = died >= status.MOST_DEATHS if self._wish_safe is None else self._wish_safe
        if not self._safe:
            return house
        self._log.warning(
            say(
                "safe mode: the gateway died {count} times within minutes, so only claw's own plugins are used; "
                "claw gateway restart tries the others again",
                count=died,
            )
            if died
            else say("safe mode, as you asked for: only claw's own plugins are used")
        )
        return guarded(house)

    def _log_as(self, house: House) -> None:
        """What is heard, and how much of it is kept."""
        settings = house.config.settings.logging
        self._sink.hear((one.found.package for one in house.standings), level_of(settings.level))
        self._sink.book.max_bytes, self._sink.book.keep = settings.max_size, settings.keep

    async def _serve(self, house: House) -> None:
        loop = asyncio.get_running_loop()
        app = App(house, guests=self._guests, complain=self._log.warning)
        loop.set_exception_handler(app.overheard)
        serving = Serving(app)
        self._sink.redact = lambda text: serving.app.redact(text)  # noqa: PLW0108 - a reload brings another app
        self._signals.tell(loop, self._stop, self._reload)
        served = asyncio.ensure_future(serving.run(self._stop))
        beside = {
            asyncio.ensure_future(self._report(serving)),
            asyncio.ensure_future(self._watch(serving, house)),
            asyncio.ensure_future(self._tidy(serving)),
        }
        try:
            await asyncio.sleep(0)
            if served.done():  # it could not even begin
                served.result()
            self._tell_ready(house, serving)
            _spare_the_collector()
            await self._until_stopped(served)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside, timeout=1)
            with suppress(TimeoutError):
                await asyncio.wait_for(serving.app.close(), _CLOSING_SECONDS)
            stopped = self._stop.is_set()
            if stopped:
                self._write(status.STOPPED, {})
                self._log.info(say("stopped"))
            end_in(_LEFT_SECONDS, int(not stopped))

    async def _until_stopped(self, served: "asyncio.Future[None]") -> None:
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({served, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._stop.is_set():
            self._log.info(say("stopping: what is under way is finished or parked"))
            await asyncio.to_thread(self._write, status.STOPPING, {})
            _, late = await asyncio.wait({served}, timeout=_SERVING_SECONDS)
            if late:
                self._log.warning(say("something did not end in time and was left behind"))
                served.cancel()
                return
        served.result()
        if not self._stop.is_set():
            raise RuntimeError("serving ended by itself")

    # --- what is told

    def _tell_of(self, before: tuple[status.Run, ...]) -> None:
        if before and before[0].unclean:
            told = "the gateway before this one (process {pid}) did not end in good order; it was last seen at {time}"
            self._log.warning(say(told, pid=before[0].pid, time=time_of(before[0].seen_at)))

    def _tell_ready(self, house: House, serving: Serving) -> None:
        seconds = f"{SYSTEM.monotonic() - self._began:.1f}"
        configured = serving.report().channels
        channels = [channel_key(one.name, one.account) for one in configured if one.state.state != "failed"]
        if channels:
            self._log.info(
                say("ready after {seconds} s: {channels}", seconds=seconds, channels=", ".join(channels))
            )
        else:
            self._log.info(say("ready after {seconds} s", seconds=seconds))
            none = say(
                "no channel of {file} can be served: claw channels status says why", file=house.config.file
            )
            self._log.warning(none if configured else no_channel(house))
        if self._quiet:
            self._sink.screen = None
        self._kept(self._text)

    # --- what is written down

    async def _report(self, serving: Serving) -> None:
        last: Any = None
        written = 0.0
        while True:
            with suppress(
                ClawError
            ):  # the state cannot be read just now: what is written grows old, and says so
                body = {**status.as_data(serving.report()), **self._facts()}
                now, still = SYSTEM.monotonic(), status.still(body)
                if not self._stop.is_set() and (still != last or now - written >= _WRITE_SECONDS):
                    last, written = still, now
                    await asyncio.to_thread(self._write, status.READY, body)
            await asyncio.sleep(_LOOK_SECONDS)

    def _facts(self) -> dict[str, Any]:
        config = {"since": self._since, "problem": self._problem}
        return {"version": __version__, "safe": self._safe, "config": config}

    def _write(self, state: str, body: Mapping[str, Any]) -> None:
        """What cannot be written is told once, until it works again or fails in another way."""
        try:
            self._board.write(state, body)
            self._unwritten = ""
        except ClawError as refused:
            if str(refused) != self._unwritten:
                self._unwritten = str(refused)
                self._log.error(self._unwritten)

    # --- what is watched

    async def _watch(self, serving: Serving, house: House) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reload.wait(), _LOOK_SECONDS)
            asked = self._reload.is_set()
            self._reload.clear()
            if asked:
                self._sink.reopen()
            if asked or await asyncio.to_thread(self._file.changed):
                house = await self._renewed(serving, house, asked)

    async def _renewed(self, serving: Serving, house: House, asked: bool) -> House:
        """The house after a look at the file: the new one, or the old one."""
        verdict = await asyncio.to_thread(judge, self._environ, house, safe=self._safe)
        if verdict.house is not None and verdict.text == self._text and not asked:
            if self._problem:
                self._log.info(say("the config file is again as it was"))
            self._problem = ""
            return house
        try:
            if verdict.house is None:
                raise ClawError("{problem}", problem=verdict.problem)
            await serving.reload(verdict.house)
        except ClawError as wrong:
            self._problem = self._sink.safe(still_runs(" ".join(str(wrong).split()), self._since))
            self._log.error(self._problem)
            return house
        except Exception as broken:  # noqa: BLE001 - strangers' code is in it, and the watch must go on
            self._problem = self._sink.safe(still_runs(name_of(broken), self._since))
            self._log.error(self._problem, exc_info=broken)
            return house
        self._log_as(verdict.house)
        self._problem, self._since, self._text = "", SYSTEM.now(), verdict.text
        self._log.info(say("the new configuration is in force"))
        self._kept(verdict.text)
        return verdict.house

    async def _tidy(self, serving: Serving) -> None:
        """Once a day, what ``session.keep`` says of conversations that were set aside."""
        pause = _TIDY_AFTER_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = _DAY_SECONDS
            try:
                from claw.conversations.tended import archive  # once a day

                done = await asyncio.to_thread(archive, self._home, serving.app.config.settings.session.keep)
            except (ClawError, OSError) as refused:
                self._log.error(say("old conversations could not be tidied: {why}", why=refused))
                continue
            if done.compressed or done.removed:
                packed, gone = len(done.compressed), len(done.removed)
                self._log.info(
                    say("old conversations: {packed} compressed, {gone} removed", packed=packed, gone=gone)
                )

    def _kept(self, text: bytes) -> None:
        if text:
            try:
                keep_last_good(self._home, text)
            except OSError as refused:
                self._log.error(say("no copy of the config file could be kept: {why}", why=refused))


def no_channel(house: House) -> str:
    """What to do when nobody can write to this gateway."""
    names = sorted(
        {name for one in house.found if one.manifest for name in one.manifest.channels} - {"terminal"}
    )
    if not names:
        return say(
            "no channel is configured, and no plugin brings one: claw plugins install claw-telegram, for one, and then "
            "claw config set channels.telegram.enabled true"
        )
    return say(
        "no channel is configured, so nobody can write to this gateway. Begin with: "
        "claw config set channels.NAME.enabled true (NAME: {names})",
        names=", ".join(names),
    )  # fmt: skip


def _spare_the_collector() -> None:
    """What stands now stands for good: the collector need not look at it again, nor look as often as it usually does."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
