"""The public names of claw_tool_sdk and their modules, one name a line: for type checkers and ``__init__.py``."""

from claw_tool_sdk.capabilities import (
    undeclared_access as undeclared_access,
)
from claw_tool_sdk.chat_api import (
    ChatApi as ChatApi,
    chat_of as chat_of,
)
from claw_tool_sdk.command_line import (
    CommandStep as CommandStep,
    split_commands as split_commands,
    split_single_command as split_single_command,
)
from claw_tool_sdk.interpreters import (
    is_decided_by_words as is_decided_by_words,
    is_interpreter as is_interpreter,
)
from claw_tool_sdk.packages import (
    changed_files as changed_files,
    pip_command as pip_command,
)
from claw_tool_sdk.tool_limit import (
    tool_shares as tool_shares,
)

__all__: list[str]
