"""For authors of claw tools: a strict parser of shell command lines."""

from claw_tool_sdk.command_line import (
    CommandStep as CommandStep,
    split_commands as split_commands,
    split_single_command as split_single_command,
)
