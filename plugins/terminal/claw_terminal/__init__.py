"""The chat at a terminal, for claw: line by line, the answer as it grows, chat commands, a history of lines.

``claw chat`` with a text in a pipe needs no plugin; everything that is drawn on a terminal is here.
"""

from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    import typer


@hookimpl
def register_commands(app: "typer.Typer") -> None:
    """Add ``claw chat`` at a terminal."""
    from claw_terminal.command import chat

    app.command("chat")(chat)
