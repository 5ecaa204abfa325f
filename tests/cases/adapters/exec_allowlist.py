"""``exec_allowlist``: each row's line is read and judged as the tool ``exec`` does; programs lie where ``resolve`` says.

Programs that only look at files of the agent are none of the table's matter: the fence judges what they may see.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from claw.contracts.errors import ToolError
from claw_tool_sdk import split_commands
from claw_tools_std.allowed import refusal

FUNCTIONS = ("claw_tool_sdk.command_line:split_commands", "claw_tools_std.allowed:refusal")


def check(case: dict[str, Any], tmp_path: Path) -> None:
    del tmp_path
    assert _must_prompt(case) is case["must_prompt"], case["why"]


def _must_prompt(case: dict[str, Any]) -> bool:
    policy, resolve = case["policy"], case["resolve"]
    settings = SimpleNamespace(**policy)

    def real(word: str) -> str:
        if word not in resolve:
            raise ToolError("there is no program {word}", word=word)
        return str(resolve[word])

    if policy["ask"] == "always" or policy["mode"] == "full":
        return bool(policy["ask"] == "always")
    try:
        return any(refusal(step.words, settings, real) for step in split_commands(case["command"]))
    except ToolError:
        return True
