"""``tools.exec`` in the config file, for all agents or for one."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from claw import Section
from claw.runtime import validation_error
from claw_tool_sdk import is_decided_by_words, is_interpreter
from pydantic import AfterValidator, AliasChoices, Field

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WILDCARD = re.compile(r"[*?\[]")


def _no_interpreters(value: tuple[str, ...]) -> tuple[str, ...]:
    for index, name in enumerate(value):
        if is_interpreter(name):
            problem = (
                "{name} is an interpreter: it runs any program it is given, so it is never a safe filter"
            )
            fix = "Remove it from safeBins; allow whole commands with tools.exec.allow"
            raise validation_error(problem, fix, at=(index,), name=name)
    return value


def _missing_program(entry: str | dict[str, Any]) -> str:
    """Return the program of an entry of ``allow`` that is not on this machine; empty if it is there, or a pattern."""
    argv = () if isinstance(entry, str) else entry.get("argv") or ()
    name = entry if isinstance(entry, str) else str(entry.get("pattern") or next(iter(argv), ""))
    if not name or _WILDCARD.search(name):
        return ""
    return "" if (Path(name).is_file() if "/" in name else shutil.which(name)) else name


class ExecSettings(Section):
    """The tool ``exec``."""

    mode: Literal["ask", "deny", "allowlist", "full"] = Field(
        "ask",
        validation_alias=AliasChoices("mode", "security"),
        description="ask about each command, run none, only listed ones, or everything.",
    )
    ask: Literal["off", "on-miss", "always"] = Field("on-miss", description="When a person is asked.")
    allow: tuple[str | dict[str, Any], ...] = Field((), description="Commands that need no question.")
    safe_bins: Annotated[tuple[str, ...], AfterValidator(_no_interpreters)] = Field(
        (), description="Programs that only filter a stream."
    )
    trusted_dirs: tuple[str, ...] = Field((), description="Folders whose programs are what they seem.")
    strict_inline_eval: bool = Field(
        True,
        description="An interpreter runs script files only; program text in its command line is refused.",
    )
    env_allow: tuple[str, ...] = Field((), description="More environment variables that a command may see.")
    timeout_seconds: float = Field(120.0, gt=0, description="Longest command, when the agent names no time.")
    max_output_chars: int = Field(
        30_000,
        ge=1000,
        description="Shown of what a command says; the whole is kept, and the agent reads on there.",
    )
    background: bool = Field(True, description="Whether commands may go on in the background.")

    def mode_in_force(self, sandboxed: bool) -> str:
        """Return ``deny``, ``ask``, ``allowlist`` or ``full``.

        ``ask`` gives way to a list that the file has, and to a sandbox, which limits what a command can do.
        """
        if self.mode != "ask":
            return self.mode
        if self.model_fields_set & {"allow", "safe_bins"}:
            return "allowlist"
        return "full" if sandboxed else "ask"

    def odd_keys(self, agents: Any) -> Iterator[tuple[tuple[str | int, ...], str, str, dict[str, object]]]:
        """Yield a warning for each entry that matches no folder, program or variable."""
        for index, entry in enumerate(self.allow):
            missing = _missing_program(entry)
            if missing:
                problem = "it has no effect: there is no program {program} on this machine"
                yield ("allow", index), problem, "Correct it, or remove it", {"program": missing}
            elif isinstance(entry, str) and not is_decided_by_words((entry,)):
                problem = (
                    "{program} may obey files that the agent writes, or start other programs: it is trusted as a "
                    "shell is"
                )
                fix = "List whole commands in place of it, such as {{argv: [{program}, status]}}"
                yield ("allow", index), problem, fix, {"program": entry}
        for index, folder in enumerate(self.trusted_dirs):
            if not Path(folder).is_dir():
                problem = "it has no effect: there is no folder {folder}"
                yield ("trustedDirs", index), problem, "Write its whole path", {"folder": folder or "''"}
        for index, name in enumerate(self.safe_bins):
            if not name.strip() or "/" in name:
                problem, fix = "it has no effect: this is no name of a program", "Write a name such as cut"
                yield ("safeBins", index), problem, fix, {}
        for index, name in enumerate(self.env_allow):
            if not _VARIABLE.fullmatch(name):
                problem = "it has no effect: this is no name of an environment variable"
                yield ("envAllow", index), problem, "Write a name such as AWS_PROFILE", {}
