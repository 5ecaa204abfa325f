"""``claw chat``: talk to an agent, once or line by line."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer

from claw.cli.show import SCHEMA_VERSION
from claw.errors import ClawError, UsageError
from claw.truncation import shortened
from claw.wall import own_stdout
from claw.words import say

if TYPE_CHECKING:
    from claw.app import App
    from claw.event import Event
    from claw.stage import Wish

T = TypeVar("T")

app = typer.Typer(add_completion=False)
_LEAVE = ("/exit", "/quit")


@app.command()
def chat(
    text: Annotated[
        str | None, typer.Argument(help="One message; without it, a conversation line by line.")
    ] = None,
    agent: Annotated[str, typer.Option(help="Which agent; default: the default one.")] = "",
    session: Annotated[str, typer.Option(help="Which conversation; default: the main one.")] = "",
    model: Annotated[
        str, typer.Option(help="provider/model for this run; with @KEY behind it, that key first.")
    ] = "",
    workspace: Annotated[
        Path | None, typer.Option(help="Folder to work in; default: the agent's, else this one.")
    ] = None,
    tool_choice: Annotated[str, typer.Option(help="auto, none, required, or a tool's name.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the events, one JSON object a line.")
    ] = False,
) -> None:
    """Talk to an agent. In a pipe only the answer is printed."""
    from claw.stage import Wish

    folder = workspace.expanduser().resolve() if workspace else None
    if folder and not folder.is_dir():
        raise UsageError(
            "there is no folder {folder}", where="--workspace", fix="make it first", folder=folder
        )
    if text is None and not sys.stdin.isatty():
        text = sys.stdin.read().strip()
        if not text:
            raise UsageError("there is nothing to say", fix="claw chat 'your message'")
    wish = Wish(agent, session, model, tool_choice, folder, Path.cwd())
    with own_stdout() if text is not None else nullcontext(sys.stdout) as out, asyncio.Runner() as runner:
        talk = Talk(runner, wish, as_json, out)
        try:
            if text is not None:
                talk.once(text)
            else:
                talk.line_by_line()
        finally:
            talk.close()


class Talk:
    """One conversation on this terminal.

    :param as_json: print events instead of words.
    :param out: claw's own stdout. When it is the process's too, strangers get another one while they run, and not
        while a line is typed: readline writes to the real one.
    """

    def __init__(self, runner: asyncio.Runner, wish: "Wish", as_json: bool, out: TextIO) -> None:
        self._runner, self._wish = runner, wish
        self._screen = Screen(as_json, out)
        self._app: App = self._run(_opened(wish.model))
        self._screen.redacted = self._app.redact.data
        self._show_questions()

    def once(self, text: str) -> None:
        """One message, one answer; a failed turn is raised."""
        self._run(self._said(text))

    def line_by_line(self) -> None:
        """Ask for lines until the person leaves; a failed or stopped turn does not end it."""
        history = History(self._app.config.home / "chat_history")
        self._banner()
        while True:
            try:
                line = input("› ").strip()
            except EOFError:
                break
            except KeyboardInterrupt:
                self._screen.out.write("\n")
                continue
            if line in _LEAVE:
                break
            if line:
                self._line(line)
        history.keep()

    def close(self) -> None:
        """End the app."""
        self._run(self._app.close())

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        before = sys.stdout
        if self._screen.out is not before:  # it is kept for the whole of this process
            return self._runner.run(step)
        try:
            with own_stdout() as self._screen.out:
                return self._runner.run(step)
        finally:
            self._screen.out = before

    def _line(self, line: str) -> None:
        try:
            self._run(self._said(line))
        except KeyboardInterrupt:
            self._screen.aside(say("stopped"))
        except ClawError as failed:
            self._screen.aside(self._app.redact(str(failed)))

    async def _said(self, text: str) -> None:
        """Take up what the person said: a command, or a message."""
        command = text.startswith("/") and not self._screen.as_json
        if not (command and await self._command(text)):
            await self._turn(text)

    def _show_questions(self) -> None:
        """Whoever sits here is asked by key; in a pipe nobody is."""
        from claw.cli.answer import Answers

        if self._app.rooms.approvals and Answers.possible() and not self._screen.as_json:
            answers = Answers(self._app.rooms.approvals, self._screen.aside)
            self._app.rooms.approvals.present = answers.present

    async def _turn(self, text: str) -> None:
        from claw.app import from_terminal
        from claw.cli.desk import TerminalDesk

        self._screen.reasoning = bool(
            TerminalDesk(self._app, from_terminal(text), self._wish).chosen.reasoning
        )
        outbound = await self._app.hear(from_terminal(text), self._screen.hear, self._wish)
        self._screen.answer(outbound.text if outbound else "")

    async def _command(self, line: str) -> bool:
        """Do what a line says, if it is a command."""
        from claw.app import from_terminal
        from claw.builtin.chat_commands import run
        from claw.cli.desk import TerminalDesk

        desk = TerminalDesk(self._app, from_terminal(line), self._wish)
        said = await run(line, desk)
        if said is None:
            return False
        self._wish = desk.wish
        more = "\n/exit — " + say("leave (Ctrl-D does the same)") if line.split() == ["/help"] else ""
        self._screen.line(said + more)
        for text in desk.further:
            await self._turn(text)
        return True

    def _banner(self) -> None:
        from claw.app import from_terminal

        stage = self._run(self._app.stage(from_terminal(""), self._wish))
        who, model, folder = stage.agent.id, stage.models[0], stage.workspace
        text = say("{agent} with {model}, in {folder}", agent=who, model=model, folder=folder)
        self._screen.aside(f"claw · {text} · {say('/help lists the commands')}")


class Screen:
    """Shows a turn while it runs: words as they come, tool calls beside them. A pipe gets the answer alone."""

    def __init__(self, as_json: bool, out: TextIO) -> None:
        self.as_json, self.out = as_json, out
        self.reasoning = False
        self.redacted: Callable[[Any], Any] = lambda shown: shown
        self._live = out.isatty()
        self._words: list[str] = []  # of the newest step that had any
        self._streamed = self._broke = self._open = False

    async def hear(self, event: "Event") -> None:
        """One event of the turn."""
        from claw.event import (
            Notice,
            Said,
            StepStarted,
            TextPiece,
            ThinkingPiece,
            ToolBegan,
            ToolEnded,
            ToolProgress,
            TurnStarted,
            as_json,
        )

        if self.as_json:
            line = {"schemaVersion": SCHEMA_VERSION, **self.redacted(as_json(event))}
            self.out.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
            self.out.flush()
        elif isinstance(event, TurnStarted):
            self._words, self._broke = [], False
        elif isinstance(event, Said):
            self._broke = self._streamed and getattr(event.message, "stop_reason", "") == "error"
        elif isinstance(event, StepStarted):
            if self._broke:  # what stands on a terminal cannot be taken back
                self.line(say("(The answer broke off there. It begins anew:)"))
            self._streamed = self._broke = False
        elif isinstance(event, TextPiece) and self._live:
            self._words = self._words if self._streamed else []
            self._words.append(event.text)
            self._streamed = self._open = True
            self._write(event.text)
        elif isinstance(event, ThinkingPiece) and self.reasoning:
            self._open = True
            self._write(event.text)
        elif isinstance(event, ToolBegan):
            given = json.dumps(event.call.arguments, ensure_ascii=False)
            self.aside(f"· {_name(event.call.name)} {shortened(self.redacted(given), 100)}")
        elif isinstance(event, ToolEnded) and event.result.is_error:
            self.aside(f"! {_name(event.call.name)}: {self.redacted(_line(event.result))}")
        elif isinstance(event, ToolProgress | Notice):
            self.aside(f"  {self.redacted(event.text)}")

    def answer(self, text: str) -> None:
        """The whole answer: printed when it was not shown while it came."""
        if self.as_json:
            return
        if self._streamed or (self._live and text.strip() == "".join(self._words).strip()):
            self._end_line()
        elif text:
            self._write(text.rstrip("\n") + "\n")

    def line(self, text: str) -> None:
        """What claw itself answers."""
        self._end_line()
        self._write(text + "\n")

    def aside(self, text: str) -> None:
        """A line that is not the answer: dim on a terminal, on stderr, nothing of it in a pipe's stdout."""
        from claw.conversations.told import harmless

        self._end_line()
        text = harmless(text)
        dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        if self._live or sys.stderr.isatty() or not text.startswith("·"):
            sys.stderr.write(f"\x1b[2m{text}\x1b[0m\n" if dim else f"{text}\n")

    def _write(self, text: str) -> None:
        """Nobody's words steer a terminal; a pipe gets them as they are."""
        from claw.conversations.told import harmless

        self.out.write(harmless(text) if self._live else text)
        self.out.flush()

    def _end_line(self) -> None:
        if self._open:
            self.out.write("\n")
            self.out.flush()
        self._open = False


class History:
    """The lines typed before, at the arrow keys; kept in the home, for this person only."""

    def __init__(self, path: Path, keep_lines: int = 1000) -> None:
        self._path, self._keep = path, keep_lines
        try:
            import readline
        except ImportError:  # a Python without it: lines are asked for all the same
            self._readline: Any = None
            return
        self._readline = readline
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                readline.add_history(line)

    def keep(self) -> None:
        """Write them down."""
        if self._readline is None:
            return
        from claw.store import SYSTEM

        count = self._readline.get_current_history_length()
        kept = range(max(1, count - self._keep + 1), count + 1)
        lines = [self._readline.get_history_item(at) for at in kept]
        SYSTEM.replace(self._path, "".join(f"{line}\n" for line in lines if line).encode())


async def _opened(model: str) -> "App":
    from claw.app import App, look_round

    told: set[str] = set()

    def complain(line: str) -> None:
        if line not in told:
            told.add(line)
            sys.stderr.write(f"claw: {line}\n")

    app = App(look_round(models=[model]), complain=complain)
    asyncio.get_running_loop().set_exception_handler(app.overheard)
    return app


def _name(text: str) -> str:
    """What a model calls a tool, on one line: it may call it what it likes."""
    return shortened(" ".join(text.split()), 64)


def _line(result: Any) -> str:
    """The first line of a result; the one behind it too, where it only announces that one."""
    text = " ".join(block.text for block in result.blocks if hasattr(block, "text")).strip()
    first, _, rest = text.partition("\n")
    if first.endswith((":", "：")):
        first = f"{first} {rest.strip().partition(chr(10))[0]}"
    return shortened(first, 160)
