"""Commands: exec runs one, process manages those in the background."""

import asyncio
import atexit
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from claw import Tool, ToolContext, ToolError, ToolResult, nearest, t, tool

from claw_tools_std import programs, running
from claw_tools_std.settings import ExecSettings

MOST_SECONDS = 3600.0
MOST_RUNNING = 16
MOST_COMMAND_CHARS = 100_000
"""Linux limits a single word to 128 KiB, and a shell gets the line as one word."""
MOST_ENDED = 16
KEPT_BYTES = 900_000
"""Bytes of output kept per command; the middle of a longer one is dropped. A model sees
``tools.exec.maxOutputChars``.
"""
LISTED_ENVIRONMENT = {
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "SUDO_EDITOR"), "false"),
    **dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS", "BROWSER"), "false"),
    "GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh", "LESSSECURE": "1", "LESSOPEN": "",
    # git(1), "GIT_CONFIG_COUNT": these stand above the settings of a repository
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "/dev/null",
    "GIT_CONFIG_KEY_1": "core.fsmonitor", "GIT_CONFIG_VALUE_1": "false",
}  # fmt: skip
"""Variables of a program that only a list allows: no pager, editor or hook of its settings starts."""
_SETTLE_SECONDS = 0.25
_LOG_LINES = 200


@dataclass
class BackgroundCommand:
    """A background command of one conversation.

    :param asked: a person allowed it, and is asked about what is written to it.
    :param seen: how many bytes of its output polls have returned already.
    """

    id: str
    conversation: str
    command: str
    running: running.RunningCommand
    waiting: "asyncio.Task[int]"
    asked: bool = False
    seen: int = 0

    @property
    def state(self) -> str:
        """The state in words."""
        code = self.running.code
        return "running" if code is None else _ended(code)


class ShellTools:
    """The two tools, and their running commands. One instance for each time the plugin is loaded.

    :param settings: ``tools.exec`` of the config file; an agent's own overrides it.
    """

    def __init__(self, settings: ExecSettings) -> None:
        self._settings = settings
        self._sessions: dict[str, BackgroundCommand] = {}
        self._count = 0

    def tools(self) -> tuple[Tool, Tool]:
        """Return exec and process."""

        async def foreground(
            context: ToolContext,
            command: str,
            timeout: float | None = None,
            workdir: str | None = None,
            pty: bool | None = None,
        ) -> ToolResult:
            return await self._exec(context, command, timeout, workdir or ".", bool(pty), False)

        async def run(
            context: ToolContext,
            command: str,
            timeout: float | None = None,
            workdir: str | None = None,
            pty: bool | None = None,
            background: bool | None = None,
        ) -> ToolResult:
            return await self._exec(context, command, timeout, workdir or ".", bool(pty), bool(background))

        async def process(
            context: ToolContext,
            action: Literal["list", "poll", "log", "write", "kill"],
            session_id: str | None = None,
            data: str | None = None,
            offset: int | None = None,
            limit: int | None = None,
        ) -> ToolResult:
            return await self._process(context, action, session_id, data, offset, limit)

        about = "Run a command in the workspace. timeout: seconds; workdir: folder; pty: with a terminal"
        alone = tool(name="exec", description=f"{about}.", effects="once", parallel=False, close=self.close)
        exec_ = tool(
            name="exec",
            description=f"{about}; background: return at once, go on with `process`.",
            effects="once",
            parallel=False,
            leaves_running=("background",),
            close=self.close,
        )
        return (
            replace(exec_(run), without={"process": alone(foreground)}),
            tool(
                name="process",
                description="Look after background commands: list, poll (news), log (lines), write (data), kill.",
                effects="once",
                leaves_running=("data",),
            )(process),
        )

    async def close(self) -> None:
        """End everything that still runs."""
        atexit.unregister(self._kill_now)
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(self._end(session) for session in sessions))

    async def _exec(
        self,
        context: ToolContext,
        line: str,
        timeout: float | None,
        workdir: str,
        pty: bool,
        background: bool,
    ) -> ToolResult:
        settings = programs.settings_of(self._settings, context)
        if len(line) > MOST_COMMAND_CHARS:
            raise ToolError(
                "a command has at most {most} characters",
                fix="Write a script with write, and run that",
                most=MOST_COMMAND_CHARS,
            )
        if background:
            self._check_free_slot(context.session_key, settings.background)
        start = await _authorize(line, workdir, settings, context, typed=pty, background=background)
        command, folder = start.command, start.folder
        try:
            argv = context.wrap([command.program, *command.argv[1:]]) if context.wrap else command.argv
            started = await running.start(
                argv,
                argv[0] if context.wrap else command.program,
                folder=folder,
                environment={**context.environment, **(LISTED_ENVIRONMENT if start.is_listed else {})},
                limit=max(settings.max_output_chars, KEPT_BYTES),
                pty=pty,
                stdin=background and not start.is_listed,
            )
        except OSError as failed:
            raise ToolError(
                "{program} cannot be started: {failed}", program=command.argv[0], failed=failed
            ) from None
        if background:
            most = settings.max_output_chars
            return await self._keep(context.session_key, line, started, most, start.asked)
        seconds = min(timeout, MOST_SECONDS) if timeout and timeout > 0 else settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                code = await started.wait()
        except TimeoutError:
            await started.kill()
            text = f"{_said(started.output.text())}[stopped after {seconds:g} s; raise timeout]"
            details: dict[str, Any] = {"exitCode": None, "timedOut": True}
            return ToolResult(text, details, is_error=True, most_chars=settings.max_output_chars)
        except BaseException:
            await started.kill()
            raise
        text = _said(started.output.text())
        if code or len(text) > settings.max_output_chars:  # of a truncated output show the end
            text += f"[{_ended(code)}]"
        if not started.output.is_whole:
            text += (
                f"\n[{started.output.lines} lines in all; the middle was dropped: write to a file to keep it]"
            )
        details = {"exitCode": code, "bytes": started.output.total}
        most = settings.max_output_chars
        return ToolResult(text or "(no output)", details, is_error=code != 0, most_chars=most)

    def _check_free_slot(self, conversation: str, allowed: bool) -> None:
        if not allowed:
            raise ToolError("background commands are switched off", where="tools.exec.background")
        if sum(session.running.code is None for session in self._of(conversation)) >= MOST_RUNNING:
            raise ToolError(
                "{most} commands run in the background already; kill one first", most=MOST_RUNNING
            )

    async def _keep(
        self, conversation: str, line: str, started: running.RunningCommand, most: int, asked: bool
    ) -> ToolResult:
        """Add a started command to the sessions; wait a moment, since many that fail do so at once."""
        if not self._sessions:
            atexit.register(self._kill_now)
        self._count += 1
        waiting = asyncio.create_task(started.wait(), name=f"background {started.pid}")
        session = BackgroundCommand(f"p{self._count}", conversation, line, started, waiting, asked)
        self._sessions[session.id] = session
        ended = [each for each in self._of(conversation) if each.running.code is not None]
        for old in ended[:-MOST_ENDED]:
            del self._sessions[old.id]
        await asyncio.wait({waiting}, timeout=_SETTLE_SECONDS)
        news = self._new_output(session)
        text = f"Session {session.id} (pid {started.pid}): {session.state}\n{news}"
        details = {"sessionId": session.id, "pid": started.pid, "exitCode": started.code}
        return ToolResult(text, details, most_chars=most)

    async def _process(
        self,
        context: ToolContext,
        action: str,
        session_id: str | None,
        data: str | None,
        offset: int | None,
        limit: int | None,
    ) -> ToolResult:
        if action == "list":
            rows = [f"{s.id}  {s.state}  {_age(s)}  {s.command[:200]}" for s in self._of(context.session_key)]
            return ToolResult("\n".join(rows) or "No background commands.", {"sessions": len(rows)})
        session = self._find(context.session_key, session_id)
        most = programs.settings_of(self._settings, context).max_output_chars
        if action == "log":
            page = _page(session.running.output.text(), offset, limit)
            return ToolResult(page, {"state": session.state}, most_chars=most)
        if action == "write":
            await _write(session, data, context)
            await asyncio.sleep(_SETTLE_SECONDS)
        elif action == "kill":
            await self._end(session)
        text = f"{session.id}: {session.state}\n{self._new_output(session)}"
        return ToolResult(text, {"state": session.state, "exitCode": session.running.code}, most_chars=most)

    def _of(self, conversation: str) -> list[BackgroundCommand]:
        """Return the sessions of one conversation; those of others are not visible to it."""
        return [session for session in self._sessions.values() if session.conversation == conversation]

    def _find(self, conversation: str, session_id: str | None) -> BackgroundCommand:
        there = {session.id: session for session in self._of(conversation)}
        if session_id in there:
            return there[session_id]
        hint = f"; did you mean {nearest(session_id or '', there, 0)}?" if there else "; none runs"
        raise ToolError(
            "there is no background command {id}{hint}", id=session_id or "without session_id", hint=hint
        )

    def _new_output(self, session: BackgroundCommand) -> str:
        text = session.running.output.text(session.seen)
        session.seen = session.running.output.total
        return text or "(nothing new)"

    async def _end(self, session: BackgroundCommand) -> None:
        if session.running.code is None:
            await session.running.kill()
        await asyncio.wait({session.waiting})

    def _kill_now(self) -> None:
        for session in self._sessions.values():
            if session.running.code is None:
                session.running.kill_now()


@dataclass(frozen=True, slots=True)
class _Start:
    """A command that may be started, and its folder.

    :param asked: a person allowed it; ``is_listed``: a list did.
    """

    command: programs.ShellCommand
    folder: Path
    asked: bool = False
    is_listed: bool = False


async def _authorize(
    line: str, workdir: str, settings: ExecSettings, context: ToolContext, *, typed: bool, background: bool
) -> _Start:
    """Return what to start, allowed by the settings or by a person; start exactly what the person allowed.

    :param typed: with a terminal; a program that only a list allows gets none, because a pager or an editor would take
        commands there.
    :raises ToolError: it may not run.
    """
    missed: ToolError | None = None
    mode = settings.mode_in_force(context.wrap is not None)
    try:
        command = await asyncio.to_thread(programs.command_of, line, settings, context, workdir)
        if typed and mode == "allowlist":
            problem = "a program that only the list allows gets no terminal"
            raise ToolError(problem, where="tools.exec.allow", fix="Leave pty out")
    except ToolError as refused:
        if mode not in ("ask", "allowlist") or settings.ask == "off":
            raise
        missed, command = refused, await asyncio.to_thread(programs.asked_for, line, context)
    folder = await asyncio.to_thread(context.files.folder, workdir)
    if missed is None and settings.ask != "always":
        return _Start(command, folder, is_listed=mode == "allowlist")
    before = await asyncio.to_thread(programs.command_digest, command, folder, context.environment)
    typing = t("what the agent types there is asked about") if background else ""
    terminal = t("with a terminal") if typed else ""
    facts = (
        "shell" if command.shell else command.program,
        str(folder),
        terminal,
        typing,
        programs.unbound(command),
    )
    where = " · ".join(filter(None, facts))
    if not await context.ask(line, where, before):
        raise missed or ToolError(
            "a person must allow every command, and no person can be asked here", where="tools.exec.ask"
        )
    folder = await asyncio.to_thread(context.files.folder, workdir)
    if before != await asyncio.to_thread(programs.command_digest, command, folder, context.environment):
        raise ToolError(
            "the program, a file it names, the folder or the environment is another one than was allowed: nothing ran"
        )
    return _Start(command, folder, asked=True)


async def _write(session: BackgroundCommand, data: str | None, context: ToolContext) -> None:
    if session.running.code is not None:
        raise ToolError("{id} has ended: {state}", id=session.id, state=session.state)
    if not data:
        raise ToolError("data is missing: what to write, with its line end")
    if session.asked and not await context.ask(data, f"{session.id} · {session.command}"):
        problem = "a person must allow what is written to {id}, and no person can be asked here"
        raise ToolError(problem, where="tools.exec.mode", id=session.id)
    try:
        session.running.write(data.encode())
    except OSError as failed:
        raise ToolError("{id} reads no more: {failed}", id=session.id, failed=failed) from None


def _page(text: str, offset: int | None, limit: int | None) -> str:
    """Return lines of a log: the last ones, or from line ``offset`` (1-based) on."""
    lines = text.splitlines()
    most = max(limit or _LOG_LINES, 1)
    start = max(len(lines) - most, 0) if offset is None else max(offset, 1) - 1
    shown = lines[start : start + most]
    return (
        f"[lines {start + 1} to {start + len(shown)} of {len(lines)}]\n" + "\n".join(shown)
        if shown
        else "(no lines)"
    )


def _said(text: str) -> str:
    return f"{text}\n" if text and not text.endswith("\n") else text


def _ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"


def _age(session: BackgroundCommand) -> str:
    return f"{time.monotonic() - session.running.began:.0f} s"
