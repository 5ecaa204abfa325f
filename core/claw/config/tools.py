"""``tools``: which tools may be used, and how the core ones behave."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, Field, model_validator

from claw.config.values import Names, Section, part, wrong

Profile = Literal["minimal", "coding", "messaging", "full", "default"]

_INTERPRETERS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "ash", "python", "pypy", "perl", "ruby", "node",
    "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh", "r", "rscript", "awk", "gawk", "mawk", "nawk", "sed",
    "gsed", "jq", "osascript", "pwsh", "powershell", "java", "busybox", "env", "xargs", "find", "vi", "vim", "ed",
    "ex", "emacs",
})  # fmt: skip
"""Programs that run a text they are given; a version behind the name (python3.12) does not change that."""


def is_interpreter(program: str) -> bool:
    """Whether a program, by its name or path, runs any text or program that it is given."""
    return program.rsplit("/", 1)[-1].lower().rstrip("0123456789.-") in _INTERPRETERS


def _filters_only(value: tuple[str, ...]) -> tuple[str, ...]:
    for index, name in enumerate(value):
        if is_interpreter(name):
            problem = (
                "{name} is an interpreter: it runs any program it is given, so it is never a safe filter"
            )
            fix = "Take it out of safeBins; allow whole commands with tools.exec.allow"
            raise wrong(problem, fix, at=(index,), name=name)
    return value


class ToolLists(Section):
    """Which tools pass. An empty or absent ``allow`` restricts nothing; ``deny`` wins."""

    allow: Names | None = Field(None, description="Tool names, plugin ids, group:NAME, patterns with *.")
    deny: Names = Field((), description="The same words; what they name is taken away.")
    also_allow: Names | None = Field(None, description="Added to the profile's list.")

    @model_validator(mode="after")
    def _one_of_two(self) -> "ToolLists":
        if self.allow and self.also_allow:
            raise wrong(
                "allow and alsoAllow stand together in one section",
                "Move the entries of alsoAllow into allow, or take allow away and let a profile be widened by alsoAllow",
                at=("alsoAllow",),
            )
        return self


class ToolScope(ToolLists):
    """Lists on top of a profile."""

    profile: Profile | None = Field(None, description="minimal, coding, messaging, full; default = no limit.")


class ExecSettings(Section):
    """The tool ``exec``."""

    mode: Literal["deny", "allowlist", "full"] = Field(
        "allowlist",
        validation_alias=AliasChoices("mode", "security"),
        description="deny, only listed commands, or everything.",
    )
    ask: Literal["off", "on-miss", "always"] = Field("on-miss", description="When a person is asked.")
    allow: tuple[str | dict[str, Any], ...] = Field((), description="Commands that need no question.")
    safe_bins: Annotated[tuple[str, ...], AfterValidator(_filters_only)] = Field(
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


class MessageSettings(Section):
    """The tool ``message``."""

    targets: tuple[str, ...] = Field(
        (), description="Chats beside the one it answers in: channel:chat, or channel/account:chat."
    )


class LoopDetectors(Section):
    """Which circles are looked for."""

    generic_repeat: bool = Field(True, description="The same call again and again.")
    known_poll_no_progress: bool = Field(
        True, description="The tool process asked again and again, nothing new."
    )
    ping_pong: bool = Field(True, description="Two calls in turns.")


class LoopDetection(Section):
    """A model that goes round in circles within one turn."""

    enabled: bool = True
    history_size: int = Field(30, ge=1, description="Newest calls that are looked at.")
    warning_threshold: int = Field(10, ge=1, description="The model is told.")
    critical_threshold: int = Field(
        20, ge=1, description="The call is refused; the third refusal ends the turn."
    )
    breaker_threshold: int = Field(
        30,
        ge=1,
        validation_alias=AliasChoices(
            "breakerThreshold",
            "breaker_threshold",
            "globalCircuitBreakerThreshold",
            "global_circuit_breaker_threshold",
        ),
        description="So many equal answers of one call end the turn.",
    )
    detectors: LoopDetectors = part()


class ScopedTools(Section):
    """Lists for runs of one kind."""

    tools: ToolLists = part()


class SpawnLists(ToolLists):
    """Lists for sub-agents."""

    allow_spawn: bool = Field(False, description="Let a sub-agent start sub-agents, down to the depth cap.")


class SubagentTools(Section):
    """Lists for sub-agents."""

    tools: SpawnLists = part()


class ToolsSettings(ToolScope):
    """``tools``, of the house or of one agent."""

    by_provider: dict[str, ToolScope] = Field({}, description="By provider or provider/model.")
    exec: ExecSettings = part()
    sandbox: ScopedTools | None = Field(None, description="Lists for sandboxed runs.")
    subagents: SubagentTools | None = Field(None, description="Lists for sub-agents.")
    suppliers: dict[str, str] = Field({}, description="Core tool name → plugin that supplies it.")
    message: MessageSettings = part()
    loop_detection: LoopDetection = part()
