"""Commands for plugin authors: ``claw dev``, and ``claw plugins new``, ``build``, ``check`` and ``grade``."""

from typing import Any

from claw import hookimpl


@hookimpl
def register_commands(app: Any) -> None:
    """Add ``claw dev`` and the four commands of ``claw plugins``."""
    from claw_author import commands
    from claw_author.dev import dev
    from claw_author.grade_command import grade

    app.command("dev")(dev)
    app.command("plugins new")(commands.new)
    app.command("plugins build")(commands.build)
    app.command("plugins check")(commands.check)
    app.command("plugins grade")(grade)
