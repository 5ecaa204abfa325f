"""Acme for claw: a read-only tool, and an optional one that changes something."""

from claw import ToolContext, hookimpl, tool


@tool(effects="none")
async def acme_status(name: str, verbose: bool = False) -> str:
    """Tell how one of Acme's machines is doing.

    :param name: which machine to ask about
    :param verbose: tell how busy it is, too
    """
    return f"{name}: fine, 3 jobs waiting" if verbose else f"{name}: fine"


@tool(optional=True, effects="once")
async def acme_restart(name: str, context: ToolContext) -> str:
    """Restart one of Acme's machines.

    :param name: which machine to restart
    """
    context.progress(f"restarting {name}")
    return f"{name} is starting again"


@hookimpl
def register_tools(config):
    return [acme_status, acme_restart]
