"""``agents``, and the sections that each agent may have for itself."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, field_validator, model_validator

from claw.config.tools import ToolLists, ToolsSettings
from claw.config.values import Duration, Names, Secret, Section, Size, part, wrong

Thinking = Literal["off", "minimal", "low", "medium", "high", "adaptive"]
Share = Annotated[float, Field(gt=0, le=1)]
Tokens = Annotated[int, Field(ge=0)]


def _model(value: Any) -> Any:
    return {"primary": value} if isinstance(value, str) else value


def _zone(value: str) -> str:
    if value in ("user", "local"):
        return value
    from zoneinfo import ZoneInfo  # 3 ms of CPU that most files need not pay

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as cause:
        fix = "Write a name such as Europe/Berlin, or user or local"
        raise wrong("{value} is not a known time zone", fix, value=value) from cause
    return value


Zone = Annotated[str, AfterValidator(_zone)]


def _people(value: tuple[str, ...]) -> tuple[str, ...]:
    for index, person in enumerate(value):
        if "*" in person:
            problem = "{person} would make everybody an owner"
            raise wrong(problem, "Name each owner by id: channel:id", at=(index,), person=person)
    return value


People = Annotated[tuple[str, ...], AfterValidator(_people)]
"""Owners: stable ids, ``channel:id``; a star is refused."""


class ModelChoice(Section):
    """Which model answers, and which ones stand in for it, in order."""

    primary: str | None = Field(None, description="provider/model, such as anthropic/claude-sonnet-4-6.")
    fallbacks: tuple[str, ...] = Field((), description="Models to try when the first one fails.")


Model = Annotated[ModelChoice, BeforeValidator(_model, json_schema_input_type=str | ModelChoice)]


class SkillSettings(Section):
    """Which skills an agent sees, and where they come from."""

    allow: tuple[str, ...] | None = Field(None, description="Names of skills; absent = all, empty = none.")
    extra_dirs: tuple[str, ...] = Field((), description="More folders to look for skills in.")
    entries: dict[str, dict[str, Any]] = Field({}, description="By skill name: enabled, env, apiKey.")
    max_in_prompt: int = Field(150, ge=0, description="How many skills the prompt lists.")
    max_prompt_chars: int = Field(18_000, ge=0, description="Characters of the prompt that skills may take.")


def _skills(value: Any) -> Any:
    return {"allow": value} if isinstance(value, list | tuple) else value


class MemoryFlush(Section):
    """A silent turn before compaction, in which the agent saves what matters."""

    enabled: bool = True
    soft_threshold_tokens: Tokens = Field(4000, description="How far before the threshold of compaction.")
    force_flush_transcript_bytes: Size = Field(2 << 20, description="Flush when the transcript is larger.")
    prompt: str | None = None
    system_prompt: str | None = None


class Compaction(Section):
    """When and how the past is made shorter."""

    enabled: bool = Field(True, description="off: nothing is summarised; what does not fit is not shown.")
    mode: Literal["default", "safeguard"] = Field(
        "default", description="safeguard: when no model can summarise, the file keeps the past as it is."
    )
    trigger_ratio: Share = Field(0.8, description="Share of the window above which the past is compacted.")
    reserve_tokens: Tokens = Field(
        20_000, description="Kept free for the answer and the summary; at most half of the window."
    )
    reserve_tokens_floor: Tokens = Field(20_000, description="The reserve is never below this; 0 = no floor.")
    keep_recent_tokens: Tokens = Field(20_000, description="The newest part, which is never summarised.")
    max_history_share: Share = Field(0.5, description="Safeguard: share of the window that history may take.")
    identifier_policy: Literal["strict", "off", "custom"] = "strict"
    identifier_instructions: str | None = None
    custom_instructions: str | None = Field(None, description="Added to what the summariser is told.")
    model: str | None = Field(None, description="Model that writes summaries; absent = the agent's own.")
    timeout_seconds: float = Field(180, gt=0, description="Longest wait for a summary, all tries together.")
    memory_flush: MemoryFlush = part()


class SoftTrim(Section):
    """How a long tool result is cut: head and tail stay."""

    max_chars: int = Field(5000, ge=0)
    head_chars: int = Field(2000, ge=0)
    tail_chars: int = Field(2000, ge=0)


class HardClear(Section):
    """Whether an old tool result is replaced by a placeholder."""

    enabled: bool = True
    placeholder: str = "[Old tool result removed to save room]"


class PrunedTools(Section):
    """Whose results may be cut."""

    allow: Names | None = None
    deny: Names = ()


class ContextPruning(Section):
    """Cut old tool results before a request, in memory only."""

    mode: Literal["off", "cache-ttl"] = "off"
    ttl: Duration = Field(3600.0, description="Only when the last request is older than this.")
    keep_last_assistants: int = Field(3, ge=0)
    soft_trim_ratio: Share = 0.7
    hard_clear_ratio: Share = 0.85
    min_prunable_tool_chars: int = Field(1000, ge=0)
    tools: PrunedTools = part()
    soft_trim: SoftTrim = part()
    hard_clear: HardClear = part()


class Subagents(Section):
    """Limits of the agents that an agent may start."""

    max_spawn_depth: int = Field(2, ge=0, le=10, description="How deep agents may start agents; 0 = never.")
    max_children_per_agent: int = Field(5, ge=0, le=100)
    max_concurrent: int = Field(1, ge=1, le=100)
    archive_after_minutes: int = Field(60, ge=0)
    model: Model | None = None
    thinking: Thinking | None = None


class ActiveHours(Section):
    """From when to when, in which zone."""

    start: str | None = Field(None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="HH:MM.")
    end: str | None = Field(
        None, pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$", description="HH:MM, not included."
    )
    timezone: Zone = Field("user", description="user, local or a name such as Asia/Shanghai.")


class Heartbeat(Section):
    """Turns that the clock starts."""

    every: Duration = Field(1800.0, description="off, or at least 10s.")
    active_hours: ActiveHours | None = None
    model: Model | None = None
    session: str = "main"
    target: str = Field("last", description="Where to say it: last, none, or a channel.")
    to: str | None = None
    prompt: str | None = None
    ack_max_chars: int = Field(300, ge=0)
    light_context: bool = False

    @field_validator("every")
    @classmethod
    def _not_a_busy_loop(cls, value: float) -> float:
        if 0 < value < 10 or value < 0:
            raise wrong("must be at least 10s", "Write a longer time such as 30m; off or 0m switches it off")
        return value


class MemorySearch(Section):
    """How memory is searched."""

    enabled: bool = True
    provider: str | None = Field(None, description="Who embeds texts; absent = what is installed.")
    model: str | None = None
    citations: Literal["on", "off", "auto"] = "on"
    max_results: int = Field(6, ge=1)


class SandboxSettings(Section):
    """Whether commands run inside walls."""

    mode: Literal["off", "non-main", "all"] = Field(
        "off", description="off, all, or all but the main session."
    )
    backend: str | None = Field(None, description="bubblewrap, docker, or another installed one.")
    tools: ToolLists | None = Field(None, description="Read as tools.sandbox.tools.")


class Identity(Section):
    """Who the agent is, and who owns it."""

    name: str | None = None
    emoji: str | None = None
    owner_numbers: People = Field((), description="Owners; read beside the top-level owners.")
    owner_display_secret: Secret | None = Field(None, description="Key of the hashes of owners in prompts.")


def _workspace(value: str) -> str:
    if not value.strip():
        raise wrong("is empty", "Write a folder, or leave the key out")
    if value.strip().rstrip("/\\") in ("", "~", "$HOME", "/.") or value.strip().startswith("/.."):
        problem = "a whole disk or home ({value}) cannot be a workspace"
        raise wrong(problem, "Name a folder below the root", value=value)
    return value


class AgentSettings(Section):
    """One agent, or what all agents start from (``agents.defaults``)."""

    model: Model | None = None
    workspace: Annotated[str, AfterValidator(_workspace)] | None = Field(
        None,
        validation_alias=AliasChoices("workspace", "workspaceDir", "workspace_dir"),
        description="Folder where tools work; absent = workspace-ID in the home.",
    )
    system_prompt: str | None = Field(None, description="Your instructions, at the head of the prompt.")
    tools: ToolsSettings | None = None
    skills: Annotated[
        SkillSettings, BeforeValidator(_skills, json_schema_input_type=tuple[str, ...] | SkillSettings)
    ] = part()
    thinking_default: Thinking = "off"
    tool_choice: str = Field(
        "auto", description="auto, none, required, or a tool, for a turn's first model call."
    )
    context_tokens: int | None = Field(None, ge=1000, description="Window; absent = the model's.")
    max_tokens: int | None = Field(None, ge=1, description="Longest answer.")
    max_turns: int | None = Field(None, ge=1, description="Model calls per message; absent = no limit.")
    temperature: float | None = Field(None, ge=0, le=2)
    timeout_seconds: float | None = Field(None, gt=0, description="Longest turn.")
    history_limit: int | None = Field(None, ge=0, description="Earlier turns kept in a request; 0 = all.")
    bootstrap_max_chars: int = Field(20_000, ge=0, description="Of one context file in the prompt.")
    bootstrap_total_max_chars: int = Field(60_000, ge=0, description="Of all context files in the prompt.")
    rule_files: Literal["ask", "allow", "deny"] = Field(
        "ask",
        description="The agent changing SOUL.md, AGENTS.md …: an owner is asked, it may, or it may not.",
    )
    compaction: Compaction = part()
    context_pruning: ContextPruning = part()
    subagents: Subagents = part()
    heartbeat: Heartbeat | None = None
    memory_search: MemorySearch = part()
    sandbox: SandboxSettings = part()
    identity: Identity = part()
    user_timezone: Zone | None = None
    plugins: dict[str, dict[str, Any]] = Field({}, description="By plugin id: what it reads for this agent.")

    @model_validator(mode="after")
    def _room_is_left(self) -> "AgentSettings":
        reserve, window = self.compaction.reserve_tokens, self.context_tokens
        if "reserve_tokens" in self.compaction.model_fields_set and window is not None and reserve >= window:
            problem = "{reserve} tokens are reserved, but the context window is not larger than {window}"
            at = ("compaction", "reserveTokens")
            raise wrong(problem, "Reserve less than contextTokens", at=at, reserve=reserve, window=window)
        return self


class AgentEntry(AgentSettings):
    """One entry of ``agents.list``: what differs from the defaults, a section at a time."""

    id: str = Field(min_length=1, description="Name in keys, folders and sessions.")
    name: str | None = Field(None, description="What people call it.")
    default: bool = Field(False, description="Take this one when nobody names an agent.")


class Agents(Section):
    """``agents``: what all have in common, and each one."""

    defaults: AgentSettings = part()
    list: tuple[AgentEntry, ...] = Field((), description="Also read: entries, a map of id to agent.")
