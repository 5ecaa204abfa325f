"""``claw chat TEXT``: one message to an agent, and its answer. A plugin that has a command ``chat`` is the chat at a
terminal: line by line, the answer as it grows, chat commands.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from claw.agent.routing import route_message, terminal_message
from claw.agent.turn_context import TurnOptions, find_model
from claw.app import App, load_setup
from claw.cli.errors import PRINTED, print_error
from claw.cli.output import SCHEMA_VERSION
from claw.cli.plugin_commands import contributed_commands
from claw.config.summary import package_of, plugins_that_bring
from claw.contracts import events
from claw.contracts.errors import ClawError, UsageError
from claw.contracts.text import escape_controls, with_ellipsis
from claw.host.isolation import reserved_stdout

app = typer.Typer(add_completion=False)
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
    if text is None and not sys.stdin.isatty():
        text = sys.stdin.read(_MOST_CHARS + 1)
    if text is not None and not text.strip():
        raise UsageError("there is nothing to say", fix="claw chat 'your message'")
    if text is not None and len(text) > _MOST_CHARS:
        raise UsageError("a message has at most 400,000 characters", fix="name a file instead")
    options = turn_options(agent, session, model, tool_choice, workspace)
    wants_terminal = text is None or (not as_json and (text.startswith("/") or sys.stdout.isatty()))
    if wants_terminal and (front_end := _front_end(text)):
        front_end.callback(
            text=text, agent=agent, session=session, model=model, workspace=workspace, tool_choice=tool_choice,
            as_json=as_json,
        )  # fmt: skip
        return
    with reserved_stdout() as out, asyncio.Runner() as runner:
        runner.run(_answer((text or "").strip(), options, AnswerPrinter(as_json, out)))


def _front_end(text: str | None) -> Any:
    """Return the command of the plugin that is the chat at a terminal; None when a message needs none.

    :raises ClawError: what is wanted needs one, and there is none, or it cannot be used.
    """
    found = contributed_commands().get("chat")
    try:
        if found is not None:
            return found.load()
    except ClawError as why:
        if text is None:
            raise
        print_error(str(why))
    package = package_of(plugins_that_bring("commands").get("chat", ""))
    if text is None:
        problem, fix = "a chat line by line comes with {package}", "claw chat 'your message', or: {install}"
        raise UsageError(problem, fix=fix, package=package, install=f"pip install {package}")
    name = text[1:].split(maxsplit=1)[0] if text[1:] else ""
    of_command = {"help": "", **plugins_that_bring("chatCommands")}.get(name) if text[0] == "/" else None
    if of_command is not None:
        packages = " ".join(filter(None, (package, package_of(of_command))))
        problem = "/{name} at a terminal needs {packages}"
        raise UsageError(problem, fix="pip install {packages}", name=name, packages=packages)
    return None


def turn_options(
    agent: str, session: str, model: str, tool_choice: str, workspace: Path | None
) -> TurnOptions:
    """Return the options of the turns of a chat at this terminal.

    :raises UsageError: the workspace is no folder.
    """
    folder = workspace.expanduser().resolve() if workspace else None
    if folder and not folder.is_dir():
        is_file = folder.exists()
        problem = "{folder} is a file, not a folder" if is_file else "there is no folder {folder}"
        fix = "Name a folder" if is_file else "create it first"
        raise UsageError(problem, where="--workspace", fix=fix, folder=folder)
    return TurnOptions(agent, session, model, tool_choice, folder, Path.cwd())


async def open_chat(options: TurnOptions, printer: "AnswerPrinter") -> tuple[App, TurnOptions]:
    """Open the app of a chat at this terminal, and connect its output; return it with the options, the model found.

    :raises ClawError: the config is wrong, or no model is meant.
    """

    def warn_once(line: str) -> None:
        if line not in PRINTED:
            PRINTED.add(line)
            sys.stderr.write(f"claw: {line}\n")

    app = App(load_setup(models=[options.model]), log=warn_once)
    asyncio.get_running_loop().set_exception_handler(app.on_loop_error)
    printer.redact = app.redact.redact_data
    if options.model:
        try:
            route = route_message(terminal_message(""), app.config, options.agent, options.session)
            model = find_model(options.model, app.config.agent(route.agent_id), app.runtime)
        except ClawError:
            await app.close()
            raise
        options = replace(options, model=model)
    approver = app.runtime.registry.approver
    ask_here = getattr(approver.value, "ask_at_terminal", None) if approver else None
    if ask_here and not printer.as_json:  # with --json no person reads
        ask_here(printer.note)
    return app, options


async def _answer(text: str, options: TurnOptions, printer: "AnswerPrinter") -> None:
    app, options = await open_chat(options, printer)
    async with app:
        outbound = await app.handle(terminal_message(text), printer.on_event, options)
        printer.answer(outbound.text if outbound else "")


class AnswerPrinter:
    """The output of a turn: the whole answer on ``out``, everything else on stderr; or the events as JSON.

    :param as_json: print events instead of words.
    :param out: claw's own stdout.
    """

    def __init__(self, as_json: bool, out: TextIO) -> None:
        self.as_json, self.out = as_json, out
        self.redact: Callable[[Any], Any] = lambda shown: shown

    async def on_event(self, event: events.Event) -> None:
        """Show one event of the turn."""
        if self.as_json:
            line = {"schemaVersion": SCHEMA_VERSION, **self.redact(events.as_json(event))}
            self.out.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
            self.out.flush()
        elif isinstance(event, events.ToolBegan) and (sys.stderr.isatty() or self.out.isatty()):
            arguments = json.dumps(event.call.arguments, ensure_ascii=False)
            self.note(f"· {_tool_name(event.call.name)} {with_ellipsis(self.redact(arguments), 100)}")
        elif isinstance(event, events.ToolEnded) and event.result.is_error:
            self.note(f"! {_tool_name(event.call.name)}: {self.redact(_result_line(event.result))}")
        elif isinstance(event, events.ToolProgress | events.Notice):
            self.note(f"  {self.redact(event.text)}")

    def answer(self, text: str) -> None:
        """Print the whole answer."""
        if text and not self.as_json:
            self.write(text.rstrip("\n") + "\n")

    def note(self, text: str) -> None:
        """Print a line that is not the answer on stderr: dim on a terminal."""
        text = escape_controls(text)
        dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        sys.stderr.write(f"\x1b[2m{text}\x1b[0m\n" if dim else f"{text}\n")

    def write(self, text: str) -> None:
        """Write text: without control sequences to a terminal, unchanged to a pipe."""
        self.out.write(escape_controls(text) if self.out.isatty() else text)
        self.out.flush()


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
