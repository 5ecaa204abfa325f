"""``claw help [COMMAND]``: the help of a command, as ``claw COMMAND --help`` prints it."""

from typing import Annotated

import typer


def help_(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(help="The words behind claw.")] = None,
) -> None:
    """Print the help of COMMAND; without one, the list of commands."""
    root = context.find_root().command
    root.main([*(command or ()), "--help"], prog_name="claw", standalone_mode=False)
