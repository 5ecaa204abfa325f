"""``claw chat`` at a terminal: lines are read, run as commands or sent as messages, and answers are shown."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer
from claw import ClawError, Inbound, t
from claw.runtime import (
    SYSTEM_DISK,
    TERMINATION,
    App,
    TurnOptions,
    open_chat,
    reserved_stdout,
    route_message,
    terminal_message,
    turn_options,
)
from claw_channel_sdk import Conversation, run_chat_command

from claw_terminal.screen import TerminalScreen

T = TypeVar("T")

_LEAVE = ("/exit", "/quit")
_HISTORY_LINES = 1000


def chat(
    text: Annotated[str | None, typer.Argument(help="One message; default: an interactive chat.")] = None,
    agent: Annotated[str, typer.Option(help="Agent id; default: the default agent.")] = "",
    session: Annotated[str, typer.Option(help="Session key or its end; default: main.")] = "",
    model: Annotated[
        str, typer.Option(help="provider/model for this run; provider/model@KEY uses that key first.")
    ] = "",
    workspace: Annotated[
        Path | None, typer.Option(help="Working folder; default: the agent's workspace, else this folder.")
    ] = None,
    tool_choice: Annotated[str, typer.Option(help="auto, none, required, or a tool's name.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the events, one JSON object a line.")
    ] = False,
) -> None:
    """Chat with an agent. In a pipe only the answer is printed."""
    options = turn_options(agent, session, model, tool_choice, workspace)
    with (
        reserved_stdout() if text is not None else nullcontext(sys.stdout) as out,
        asyncio.Runner() as runner,
    ):
        conversation = TerminalChat(runner, options, as_json, out)
        try:
            if text is not None:
                conversation.send(text.strip())
            else:
                conversation.read_lines()
        finally:
            conversation.close()


class TerminalChat:
    """One conversation on this terminal.

    :param as_json: print events instead of words.
    :param out: claw's own stdout. When it is also the process's stdout, plugins get another one while they run,
        but not while a line is typed: readline writes to the real one.
    """

    def __init__(self, runner: asyncio.Runner, options: TurnOptions, as_json: bool, out: TextIO) -> None:
        self._runner = runner
        self._screen = TerminalScreen(as_json, out)
        self._app, self._options = self._run(open_chat(options, self._screen))

    def send(self, text: str) -> None:
        """Send one message and show its answer; a failed turn raises its error."""
        self._run(self._handle_input(text))

    def read_lines(self) -> None:
        """Read and answer lines until the person leaves; a failed or stopped turn does not end the loop."""
        with _line_history(self._app.config.home / "chat_history"):
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
                    self._run_line(line)

    def close(self) -> None:
        """Close the app."""
        self._run(self._app.close())

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        before = sys.stdout
        if self._screen.out is not before:  # stdout is already redirected for the whole process
            return self._runner.run(step)
        try:
            with reserved_stdout() as self._screen.out:
                return self._runner.run(step)
        finally:
            self._screen.out = before

    def _run_line(self, line: str) -> None:
        try:
            self._run(self._handle_input(line))
        except KeyboardInterrupt:
            if TERMINATION.signal:
                raise
            self._screen.note(t("stopped"))
        except ClawError as failed:
            self._screen.note(self._app.redact(str(failed)))

    async def _handle_input(self, text: str) -> None:
        """Run what the person typed: a command, or a message."""
        command = text.startswith("/") and not self._screen.as_json
        if not (command and await self._run_command(text)):
            await self._run_turn(text)

    async def _run_turn(self, text: str) -> None:
        overrides = TerminalConversation(self._app, terminal_message(text), self._options).overrides
        self._screen.reasoning = bool(overrides.reasoning)
        outbound = await self._app.handle(terminal_message(text), self._screen.on_event, self._options)
        self._screen.answer(outbound.text if outbound else "")

    async def _run_command(self, line: str) -> bool:
        """Run a line if it is a command; return true if it was one."""
        said = terminal_message(line)
        conversation = TerminalConversation(self._app, said, self._options, self._screen.line)
        reply = await run_chat_command(line, conversation)
        if reply is None:
            return False
        self._options = conversation.options
        more = "\n/exit — " + t("quit (same as Ctrl-D)") if line.split() == ["/help"] else ""
        self._screen.line(reply + more)
        for text in conversation.queued_messages:
            await self._run_turn(text)
        return True

    def _banner(self) -> None:
        context = self._run(self._app.resolve_turn(terminal_message(""), self._options))
        agent, model, folder = context.agent.id, context.models[0], context.workspace
        text = t("{agent} with {model}, in {folder}", agent=agent, model=model, folder=folder)
        self._screen.note(f"claw · {text} · {t('/help lists the commands')}")


class TerminalConversation(Conversation):
    """The context of one line at the terminal that may be a command.

    :param show: prints a text that precedes the answer of the command.
    :ivar queued_messages: messages to send after the command.
    """

    def __init__(
        self, app: App, inbound: Inbound, options: TurnOptions, show: Callable[[str], None] = print
    ) -> None:
        super().__init__(
            app, inbound, route_message(inbound, app.config, options.agent, options.session), options
        )
        self.queued_messages: list[str] = []
        self._show = show

    async def stop(self) -> str:
        """Say that nothing runs: a line is only read between turns."""
        return t("nothing is running; Ctrl-C stops a running turn")

    async def submit(self, text: str) -> None:
        """Queue a message to be sent after the command."""
        self.queued_messages.append(text)

    async def reply(self, text: str) -> None:
        """Print a text at once."""
        self._show(text)

    def set_overrides(self, **fields: Any) -> None:
        """Choose fields; a model that is chosen now comes before ``--model``."""
        super().set_overrides(**fields)
        if "model" in fields:
            self.options = replace(self.options, model="")


@contextmanager
def _line_history(path: Path) -> Iterator[None]:
    """Keep the lines that are typed in the block in a file, for the arrow keys, readable only by its owner.

    Lines that are pasted together are one message, and one line of the file.
    """
    try:
        import readline
    except ImportError:  # a Python without it: lines are read all the same
        yield
        return
    readline.parse_and_bind("set enable-bracketed-paste on")
    written = path.read_bytes().decode(errors="replace") if path.is_file() else ""
    for line in filter(None, written.split("\n")):
        readline.add_history(line.replace("\r", "\n"))
    yield
    count = readline.get_current_history_length()
    lines = map(readline.get_history_item, range(max(1, count - _HISTORY_LINES + 1), count + 1))
    SYSTEM_DISK.replace(path, "".join(line.replace("\n", "\r") + "\n" for line in lines if line).encode())
