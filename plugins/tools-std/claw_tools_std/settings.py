"""``tools.exec`` in the config file, for all agents or for one."""

from typing import Annotated, Any, Literal

from claw import Section
from claw.runtime import validation_error
from claw_tool_sdk import is_interpreter
from pydantic import AfterValidator, AliasChoices, Field


def _no_interpreters(value: tuple[str, ...]) -> tuple[str, ...]:
    for index, name in enumerate(value):
        if is_interpreter(name):
            problem = (
                "{name} is an interpreter: it runs any program it is given, so it is never a safe filter"
            )
            fix = "Remove it from safeBins; allow whole commands with tools.exec.allow"
            raise validation_error(problem, fix, at=(index,), name=name)
    return value


class ExecSettings(Section):
    """The tool ``exec``."""

    mode: Literal["deny", "allowlist", "full"] = Field(
        "allowlist",
        validation_alias=AliasChoices("mode", "security"),
        description="deny, only listed commands, or everything.",
    )
    ask: Literal["off", "on-miss", "always"] = Field("on-miss", description="When a person is asked.")
    allow: tuple[str | dict[str, Any], ...] = Field((), description="Commands that need no question.")
    safe_bins: Annotated[tuple[str, ...], AfterValidator(_no_interpreters)] = Field(
        (), description="Programs that only filter a stream."
    )
    trusted_dirs: tuple[str, ...] = Field((), description="Folders whose programs are what they seem.")
    strict_inline_eval: bool = True
    env_allow: tuple[str, ...] = Field((), description="More environment variables that a command may see.")
    timeout_seconds: float = Field(120.0, gt=0)
    max_output_chars: int = Field(
        30_000,
        ge=1000,
        description="Shown of what a command says; the whole is kept, and the agent reads on there.",
    )
    background: bool = Field(True, description="Whether commands may go on in the background.")
