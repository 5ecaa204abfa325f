"""Commands for plugin authors: ``claw plugins new``, ``claw plugins build`` and ``claw plugins check``."""

from typing import Any

from claw import hookimpl


@hookimpl
def register_commands(app: Any) -> None:
    """Add the three commands to ``claw plugins``."""
    from claw_author import commands

    app.command("plugins new")(commands.new)
    app.command("plugins build")(commands.build)
    app.command("plugins check")(commands.check)
