"""File, shell and message tools for claw agents."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, Tool


@hookimpl
def register_tools(config: "PluginConfig") -> "Iterable[Tool]":
    from claw_tools_std import conversation, files, patch, search, shell
    from claw_tools_std.settings import ExecSettings

    yield from (files.read, files.write, files.edit, patch.apply_patch, files.ls, search.grep, search.find)
    yield from shell.ShellTools(config.section("tools.exec", ExecSettings)).tools()
    yield from (conversation.message, conversation.session_status)
