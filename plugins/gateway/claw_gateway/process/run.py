"""``claw gateway run``: one process that serves the channels of a home until a signal stops it."""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from claw import ClawError, __version__, t
from claw.runtime import (
    SYSTEM_CLOCK,
    App,
    Setup,
    channel_key,
    describe_exception,
    home_of,
    load_setup,
    reserved_stdout,
)

from claw_gateway.process import status
from claw_gateway.process.descriptors import open_files, raise_file_limit
from claw_gateway.process.last_end import EndNote, open_end_note
from claw_gateway.process.log_settings import LogLevel, LogSize, LogsKept
from claw_gateway.process.logs import FILE, LogHandler, RotatingLogFile, install_handler, level_number
from claw_gateway.process.notify import ServiceManager
from claw_gateway.process.presence import take_gateway_lock
from claw_gateway.process.reload import (
    ConfigWatch,
    old_config_note,
    record_safe_mode,
    reread_config,
    save_last_good,
)
from claw_gateway.process.safe_mode import SafeModeReviewer, guards_left_out, safe_mode
from claw_gateway.process.services import ServiceRunner
from claw_gateway.process.signals import SignalHandlers, exit_after
from claw_gateway.process.status import local_time_of
from claw_gateway.supervisor import ChannelServer

_LOOK_SECONDS = 0.5  # between two checks of the channels and of the config file
_WRITE_SECONDS = 5.0
_SERVING_SECONDS, _CLOSING_SECONDS = 12.0, 2.0  # of the fifteen that a stop may take
_LEFT_SECONDS = 0.5  # for tasks that do not end when cancelled; everything that counts is on disk by then
_locks: list[Any] = []


def run_gateway(
    environ: Mapping[str, str] = os.environ,
    *,
    plugins: Mapping[str, Any] | None = None,
    safe: bool | None = None,
    screen: TextIO | None = None,
    quiet: bool = False,
    began: float | None = None,
) -> int:
    """Serve the home of ``environ`` until SIGTERM or SIGINT, and return the exit code. The lock is held until
    the process ends.

    :param plugins: plugin objects handed in by a test, by id.
    :param safe: load only claw's own plugins; None = if the gateway crashed three times in ten minutes.
    :param screen: the stream for people; None = stderr.
    :param quiet: write nothing to ``screen`` once the gateway is ready.
    :param began: when the start began, by the monotonic clock; None = now.
    :raises BusyError: a gateway runs here already.
    :raises ClawError: it cannot start.
    """
    began = SYSTEM_CLOCK.monotonic() if began is None else began
    os.umask(0o077)
    home = home_of(environ)
    _locks.append(take_gateway_lock(home))
    sink = LogHandler(RotatingLogFile(home / "logs" / FILE), screen or sys.stderr)
    with install_handler(sink) as log, open_end_note(home) as end_note:
        return Gateway(environ, home, sink, log, began, RunOptions(end_note, plugins, safe, quiet)).run()


@dataclass(frozen=True)
class RunOptions:
    """The options of ``claw gateway run``.

    :param end_note: of this process.
    :param plugins: plugin objects that a test passes in, by id.
    :param safe: load no third-party plugin; None = after repeated crashes.
    :param quiet: do not print the banner.
    """

    end_note: EndNote
    plugins: Mapping[str, Any] | None = None
    safe: bool | None = None
    quiet: bool = False


class Gateway:
    """The gateway process: its log, its status row and its watches, beside the serving itself."""

    def __init__(
        self,
        environ: Mapping[str, str],
        home: Path,
        sink: LogHandler,
        log: logging.Logger,
        began: float,
        options: RunOptions,
    ) -> None:
        self._environ, self._home, self._plugins = environ, home, options.plugins
        self._sink, self._log, self._began, self._quiet = sink, log, began, options.quiet
        self._board, self._signals = status.StatusRow(home, log.warning), SignalHandlers()
        self._safe_option, self._safe, self._end_note = options.safe, False, options.end_note
        self._guard = SafeModeReviewer()
        self._reload_error, self._config_since, self._config_text = "", SYSTEM_CLOCK.now(), b""
        self._stop, self._reload = asyncio.Event(), asyncio.Event()
        self._last_write_error = ""
        self._config_watch, self._services = ConfigWatch(home), ServiceRunner()
        self._manager = ServiceManager(os.environ)

    def run(self) -> int:
        """Run the gateway from reading the home to the last log line; return the exit code."""
        self._signals.install()
        raise_file_limit()
        before = self._board.begin(was_killed=self._end_note.previous == "")
        self._log_previous_run(before)
        state, error, code = status.BROKEN, "", 1
        try:
            setup = self._first_setup(before)
            if self._signals.stop_count:
                state = status.STOPPED
                return 0
            with reserved_stdout():  # output of plugins must not mix with our lines
                asyncio.run(self._serve(setup))
            state = status.STOPPED
        except ClawError as refused:
            state, error, code = status.FAILED, str(refused), refused.exit_code
            self._end_note.remove()
            self._sink.stream = None  # the caller prints the error there
            self._log.error(error)
            raise
        except Exception as broken:
            error = describe_exception(broken)
            self._log.exception(t("the gateway failed: {why}", why=error))
            raise
        finally:
            self._write(state, {"error": self._sink.redacted(error), "code": code} if error else {})
            self._board.close()
        return 0

    def _first_setup(self, before: tuple[status.GatewayRun, ...]) -> Setup:
        setup = load_setup(self._environ)
        self._configure_log(setup)
        if path := setup.config.path:
            with suppress(OSError):
                self._config_text = path.read_bytes()
        died = status.recent_crashes(before, SYSTEM_CLOCK.now())
        self._safe = died >= status.MOST_CRASHES if self._safe_option is None else self._safe_option
        if not self._safe:
            return setup
        self._log.warning(
            t(
                "safe mode: the gateway died {count} times within minutes, so only claw's own plugins are used; "
                "claw gateway restart tries the others again",
                count=died,
            )
            if died
            else t("safe mode, as requested: only claw's own plugins are used")
        )
        record_safe_mode(setup)
        setup = safe_mode(setup)
        self._guard.missing = guards_left_out(setup)
        self._plugins = {**(self._plugins or {}), "safe-mode": self._guard}
        return setup

    def _configure_log(self, setup: Setup) -> None:
        """Set the log's level and retention from the settings."""
        config, file = setup.config, self._sink.log_file
        level = level_number(config.section("logging.level", LogLevel).root)
        self._sink.set_levels((one.found.package for one in setup.plugin_states), level)
        file.max_bytes = config.section("logging.maxSize", LogSize).root
        file.keep = config.section("logging.keep", LogsKept).root

    async def _serve(self, setup: Setup) -> None:
        loop = asyncio.get_running_loop()
        app = App(setup, plugins=self._plugins, log=self._log.warning)
        loop.set_exception_handler(app.on_loop_error)
        serving = ChannelServer(app, self._end_note.previous, self._safe)
        self._sink.redact = lambda text: serving.app.redact(text)  # noqa: PLW0108 - a reload replaces the app
        self._signals.connect(loop, self._stop, self._reload)
        await self._services.start(app)  # first: the channels import their HTTP library as soon as they run
        served = asyncio.ensure_future(serving.run(self._stop))
        background = {
            asyncio.ensure_future(self._report(serving)),
            asyncio.ensure_future(self._watch(serving, setup)),
            asyncio.ensure_future(self._manager.report_life()),
        }
        try:
            await asyncio.sleep(0)
            if served.done():  # it failed at once
                served.result()
            self._log_ready(setup, serving)
            self._manager.send("READY=1")
            _tune_garbage_collector()
            await self._until_stopped(served)
        except BaseException as broken:
            self._end_note.add(describe_exception(broken))
            raise
        finally:
            for task in background:
                task.cancel()
            await asyncio.wait(background, timeout=1)
            await self._services.stop()
            with suppress(TimeoutError):
                await asyncio.wait_for(serving.app.close(), _CLOSING_SECONDS)
            stopped = self._stop.is_set()
            if stopped:
                self._write(status.STOPPED, {})
                self._log.info(t("stopped"))
            exit_after(_LEFT_SECONDS, int(not stopped))

    async def _until_stopped(self, served: "asyncio.Future[None]") -> None:
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({served, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._stop.is_set():
            self._end_note.remove()
            self._manager.send("STOPPING=1")
            self._log.info(t("stopping: running turns are finished or kept for the next start"))
            await asyncio.to_thread(self._write, status.STOPPING, {})
            _, unfinished = await asyncio.wait({served}, timeout=_SERVING_SECONDS)
            if unfinished:
                self._log.warning(t("a task did not end in time and was abandoned"))
                served.cancel()
                return
        served.result()
        if not self._stop.is_set():
            raise RuntimeError("serving ended by itself")

    # --- log lines

    def _log_previous_run(self, before: tuple[status.GatewayRun, ...]) -> None:
        if before and before[0].ended_badly:
            template = (
                "the previous gateway (process {pid}) did not exit cleanly; it was last active at {time}"
            )
            self._log.warning(t(template, pid=before[0].pid, time=local_time_of(before[0].updated_at)))
        if cause := self._end_note.previous:
            self._log.error(t("the previous gateway ended by itself: {why}", why=cause))

    def _log_ready(self, setup: Setup, serving: ChannelServer) -> None:
        seconds = f"{SYSTEM_CLOCK.monotonic() - self._began:.1f}"
        configured = serving.report().channels
        channels = [channel_key(one.name, one.account) for one in configured if one.state.state != "failed"]
        if channels:
            self._log.info(t("ready after {seconds} s: {channels}", seconds=seconds, channels=[*channels]))
        else:
            self._log.info(t("ready after {seconds} s", seconds=seconds))
            none = t(
                "no channel of {file} can be served: claw channels status says why", file=setup.config.file
            )
            self._log.warning(none if configured else no_channel_hint(setup))
        if self._quiet:
            self._sink.stream = None
        self._keep_config(self._config_text)

    # --- the status row

    async def _report(self, serving: ChannelServer) -> None:
        last: Any = None
        written = 0.0
        while True:
            with suppress(ClawError):  # the state cannot be read now: the age of the status row shows it
                body = {**status.report_data(serving.report()), **self._facts()}
                moment, steady = SYSTEM_CLOCK.monotonic(), status.without_volatile(body)
                if not self._stop.is_set() and (steady != last or moment - written >= _WRITE_SECONDS):
                    last, written = steady, moment
                    await asyncio.to_thread(self._write, status.READY, {**body, "files": open_files()})
            self._sink.write_counts()
            await asyncio.sleep(_LOOK_SECONDS)

    def _facts(self) -> dict[str, Any]:
        config = {"since": self._config_since, "problem": self._reload_error}
        services = {"services": said} if (said := self._services.health()) else {}
        return {"version": __version__, "safe": self._safe, "config": config, **services}

    def _write(self, state: str, body: Mapping[str, Any]) -> None:
        """Write the status row; log a failure once, until writing works again or fails in another way."""
        try:
            self._board.write(state, body)
            self._last_write_error = ""
        except ClawError as refused:
            if str(refused) != self._last_write_error:
                self._last_write_error = str(refused)
                self._log.error(self._last_write_error)

    # --- background tasks

    async def _watch(self, serving: ChannelServer, setup: Setup) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reload.wait(), _LOOK_SECONDS)
            asked = self._reload.is_set()
            self._reload.clear()
            if asked:
                self._sink.reopen()
            if asked or await asyncio.to_thread(self._config_watch.changed):
                setup = await self._reload_config(serving, setup, asked)

    async def _reload_config(self, serving: ChannelServer, setup: Setup, asked: bool) -> Setup:
        """Read the config file again; return the setup to serve: the new one, or the old one when the file is
        wrong."""
        verdict = await asyncio.to_thread(reread_config, self._environ, setup, safe=self._safe)
        if verdict.setup is not None and verdict.text == self._config_text and not asked:
            if self._reload_error:
                self._log.info(t("the config file is back to the active configuration"))
            self._reload_error = ""
            return setup
        try:
            if verdict.setup is None:
                raise ClawError("{problem}", problem=verdict.problem)
            await serving.reload(verdict.setup)
            self._guard.missing = guards_left_out(verdict.setup) if self._safe else ()
            await self._services.stop()
            await self._services.start(serving.app)
        except ClawError as wrong:
            self._reload_error = self._sink.redacted(
                old_config_note(" ".join(str(wrong).split()), self._config_since)
            )
            self._log.error(self._reload_error)
            return setup
        except Exception as broken:  # noqa: BLE001 - third-party code runs in it, and the watch must go on
            self._reload_error = self._sink.redacted(
                old_config_note(describe_exception(broken), self._config_since)
            )
            self._log.error(self._reload_error, exc_info=broken)
            return setup
        self._configure_log(verdict.setup)
        self._reload_error, self._config_since, self._config_text = "", SYSTEM_CLOCK.now(), verdict.text
        self._log.info(t("the new configuration is active"))
        self._keep_config(verdict.text)
        return verdict.setup

    def _keep_config(self, text: bytes) -> None:
        if text:
            try:
                save_last_good(self._home, text)
            except OSError as refused:
                self._log.error(t("no copy of the config file could be saved: {why}", why=refused))


def no_channel_hint(setup: Setup) -> str:
    """Return what to do when no channel can be served."""
    names = sorted(
        {name for one in setup.found if one.manifest for name in one.manifest.channels} - {"terminal"}
    )
    if not names:
        return t(
            "no channel is configured and no installed plugin provides one. For Telegram: claw "
            "plugins install claw-telegram, then claw config set channels.telegram.enabled true"
        )
    return t(
        (
            "no channel is configured, so no message can reach this gateway. Start with: claw config "
            "set channels.NAME.enabled true (NAME: {names})"
        ),
        names=[*names],
    )


def _tune_garbage_collector() -> None:
    """Exclude the objects that exist now from garbage collection, and collect less often than by default."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
