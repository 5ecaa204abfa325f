"""``claw chat``: talk to an agent, one message or line by line."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer

from claw.agent.chat_commands import Conversation, run_chat_command
from claw.agent.routing import route_message
from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup, terminal_message
from claw.cli.errors import PRINTED, TERMINATION
from claw.cli.output import SCHEMA_VERSION
from claw.contracts import events
from claw.contracts.errors import ClawError, UsageError
from claw.contracts.messages import Inbound
from claw.contracts.text import escape_controls, with_ellipsis
from claw.host.isolation import reserved_stdout
from claw.i18n import t
from claw.storage.files import SYSTEM_DISK

T = TypeVar("T")

app = typer.Typer(add_completion=False)
_LEAVE = ("/exit", "/quit")
_MOST_CHARS = 400_000  # as channels.http.maxTextChars: what most models can read at once


@app.command()
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
    folder = workspace.expanduser().resolve() if workspace else None
    if folder and not folder.is_dir():
        is_file = folder.exists()
        problem = "{folder} is a file, not a folder" if is_file else "there is no folder {folder}"
        fix = "Name a folder" if is_file else "create it first"
        raise UsageError(problem, where="--workspace", fix=fix, folder=folder)
    if text is None and not sys.stdin.isatty():
        text = sys.stdin.read(_MOST_CHARS + 1)
    if text is not None and not text.strip():
        raise UsageError("there is nothing to say", fix="claw chat 'your message'")
    if text is not None and len(text) > _MOST_CHARS:
        raise UsageError("a message has at most 400,000 characters", fix="name a file instead")
    options = TurnOptions(agent, session, model, tool_choice, folder, Path.cwd())
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
        self._runner, self._options = runner, options
        self._screen = TerminalScreen(as_json, out)
        self._app: App = self._run(_open_app(options.model))
        self._screen.redact = self._app.redact.redact_data
        if options.model:
            conversation = TerminalConversation(self._app, terminal_message(""), options)
            self._options = replace(options, model=conversation.find_model(options.model))
        self._connect_approvals()

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

    def _connect_approvals(self) -> None:
        """Let the approver ask the person at this terminal; with ``--json`` no person reads."""
        approver = self._app.runtime.registry.approver
        ask_here = getattr(approver.value, "ask_at_terminal", None) if approver else None
        if ask_here and not self._screen.as_json:
            ask_here(self._screen.note)

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
        route = route_message(inbound, app.config, options.agent, options.session)
        super().__init__(app.runtime, app.chat_commands, inbound, route, options)
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


class TerminalScreen:
    """The output of a turn: text as it streams, tool calls beside it. In a pipe, the answer alone."""

    def __init__(self, as_json: bool, out: TextIO) -> None:
        self.as_json, self.out, self.reasoning = as_json, out, False
        self.redact: Callable[[Any], Any] = lambda shown: shown
        self._is_terminal = out.isatty()
        self._pieces: list[str] = []  # of the newest step that had text
        self._streamed = self._interrupted = self._line_open = False

    async def on_event(self, event: events.Event) -> None:
        """Show one event of the turn."""
        if self.as_json:
            line = {"schemaVersion": SCHEMA_VERSION, **self.redact(events.as_json(event))}
            self.out.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
            self.out.flush()
        elif isinstance(event, events.TurnStarted):
            self._pieces, self._interrupted = [], False
        elif isinstance(event, events.MessageRecorded):
            self._interrupted = self._streamed and getattr(event.message, "stop_reason", "") == "error"
        elif isinstance(event, events.StepStarted):
            if self._interrupted:  # text on a terminal cannot be removed
                self.line(t("(The answer was interrupted. It starts again:)"))
            self._streamed = self._interrupted = False
        elif isinstance(event, events.TextStreamed) and self._is_terminal:
            self._pieces = self._pieces if self._streamed else []
            self._pieces.append(event.text)
            self._streamed = self._line_open = True
            self._write(event.text)
        elif isinstance(event, events.ThinkingStreamed) and self.reasoning:
            self._line_open = True
            self._write(event.text)
        elif isinstance(event, events.ToolBegan):
            arguments = json.dumps(event.call.arguments, ensure_ascii=False)
            self.note(f"· {_tool_name(event.call.name)} {with_ellipsis(self.redact(arguments), 100)}")
        elif isinstance(event, events.ToolEnded) and event.result.is_error:
            self.note(f"! {_tool_name(event.call.name)}: {self.redact(_result_line(event.result))}")
        elif isinstance(event, events.ToolProgress | events.Notice):
            self.note(f"  {self.redact(event.text)}")

    def answer(self, text: str) -> None:
        """Print the whole answer, unless it was streamed."""
        if self.as_json:
            return
        if self._streamed or (self._is_terminal and text.strip() == "".join(self._pieces).strip()):
            self._end_line()
        elif text:
            self._write(text.rstrip("\n") + "\n")

    def line(self, text: str) -> None:
        """Print an answer of claw itself."""
        self._end_line()
        self._write(text + "\n")

    def note(self, text: str) -> None:
        """Print a line that is not the answer: dim on a terminal, on stderr, never in a pipe's stdout."""
        self._end_line()
        text = escape_controls(text)
        dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        if self._is_terminal or sys.stderr.isatty() or not text.startswith("·"):
            sys.stderr.write(f"\x1b[2m{text}\x1b[0m\n" if dim else f"{text}\n")

    def _write(self, text: str) -> None:
        """Write text: without control sequences to a terminal, unchanged to a pipe."""
        self.out.write(escape_controls(text) if self._is_terminal else text)
        self.out.flush()

    def _end_line(self) -> None:
        if self._line_open:
            self.out.write("\n")
            self.out.flush()
        self._line_open = False


_HISTORY_LINES = 1000


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


async def _open_app(model: str) -> App:
    def warn_once(line: str) -> None:
        if line not in PRINTED:
            PRINTED.add(line)
            sys.stderr.write(f"claw: {line}\n")

    app = App(load_setup(models=[model]), log=warn_once)
    asyncio.get_running_loop().set_exception_handler(app.on_loop_error)
    return app


def _tool_name(text: str) -> str:
    """Cut a tool name to one line: the model may send any text as a name."""
    return with_ellipsis(" ".join(text.split()), 64)


def _result_line(result: Any) -> str:
    """Return the first line of a result, with the second one when the first only announces it."""
    text = " ".join(block.text for block in result.blocks if hasattr(block, "text")).strip()
    first, _, rest = text.partition("\n")
    if first.endswith((":", "：")):
        first = f"{first} {rest.strip().partition(chr(10))[0]}"
    return with_ellipsis(first, 160)
