"""``agents``: the sections that each agent may override, and an agent with its effective settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from claw.config.paths import AGENT_ID_CHARS, camel_case, normalise_agent_id
from claw.config.values import Names, Secret, Section, section_default, validation_error

M = TypeVar("M", bound=BaseModel)

Profile = Literal["minimal", "coding", "messaging", "full", "default"]


class ToolLists(Section):
    """Lists of allowed and denied tools. An empty or absent ``allow`` restricts nothing; ``deny`` wins."""

    allow: Names | None = None
    """Tool names, plugin ids, group:NAME, patterns with *."""
    deny: Names = ()
    """The same words; what they name is taken away."""
    also_allow: Names | None = None
    """Added to the profile's list."""

    @model_validator(mode="after")
    def _not_both_lists(self) -> "ToolLists":
        if self.allow and self.also_allow:
            fix = "Move the entries of alsoAllow into allow, or remove allow so that alsoAllow extends a profile"
            raise validation_error("allow and alsoAllow are both set in one section", fix, at=("alsoAllow",))
        return self


class ToolScope(ToolLists):
    """Lists on top of a profile."""

    profile: Profile | None = None
    """minimal, coding, messaging, full; default = no limit."""


class ExecEnvironment(Section):
    """``tools.exec`` as core reads it; the plugin that brings the tool checks the other keys."""

    model_config = ConfigDict(extra="allow")

    env_allow: tuple[str, ...] = ()
    """More environment variables that a command may see."""


class MessageSettings(Section):
    """The tool ``message``."""

    targets: tuple[str, ...] = ()
    """Chats beside the one it answers in: channel:chat, or channel/account:chat."""


class ScopedTools(Section):
    """Lists for runs of one kind."""

    tools: ToolLists = section_default()


class SpawnLists(ToolLists):
    """Lists for sub-agents."""

    allow_spawn: bool = False
    """Let a sub-agent start sub-agents, down to the depth cap."""


class SubagentTools(Section):
    """Lists for sub-agents."""

    tools: SpawnLists = section_default()


class ToolsSettings(ToolScope):
    """``tools``, for all agents or for one agent."""

    by_provider: dict[str, ToolScope] = Field({})
    """By provider or provider/model."""
    sandbox: ScopedTools | None = None
    """Lists for sandboxed runs."""
    subagents: SubagentTools | None = None
    """Lists for sub-agents."""
    suppliers: dict[str, str] = Field({})
    """Core tool name → plugin that supplies it."""
    message: MessageSettings = section_default()


Thinking = Literal["off", "minimal", "low", "medium", "high", "adaptive"]


def _to_model_choice(value: Any) -> Any:
    return {"primary": value} if isinstance(value, str) else value


def _to_model_name(value: str) -> str:
    if not value.strip():
        raise validation_error("is empty", "Write provider/model, or remove the key")
    return value.strip()


ModelName = Annotated[str, AfterValidator(_to_model_name)]


def _check_zone(value: str) -> str:
    if value in ("user", "local"):
        return value
    from zoneinfo import ZoneInfo  # 3 ms of CPU that most files need not pay

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as cause:
        fix = "Write a name such as Europe/Berlin, or user or local"
        raise validation_error("{value} is not a known time zone", fix, value=value) from cause
    return value


Zone = Annotated[str, AfterValidator(_check_zone)]


def _no_star(value: tuple[str, ...]) -> tuple[str, ...]:
    for index, person in enumerate(value):
        if not person.strip():
            raise validation_error("is empty", "Name each owner by id: channel:id", at=(index,))
        if "*" in person:
            problem = "{person} would make everyone an owner"
            raise validation_error(problem, "Name each owner by id: channel:id", at=(index,), person=person)
    return value


PEOPLE = "people"
"""The mark of a list of people in the metadata of its field."""
People = Annotated[tuple[str, ...], PEOPLE, AfterValidator(_no_star)]
"""Owners: stable ids, ``channel:id``; a star is refused."""


class ModelChoice(Section):
    """The model that answers, and its fallbacks, in order."""

    primary: ModelName | None = None
    """provider/model, such as anthropic/claude-sonnet-4-6."""
    fallbacks: tuple[ModelName, ...] = ()
    """Models to try when the first one fails."""


Model = Annotated[ModelChoice, BeforeValidator(_to_model_choice, json_schema_input_type=str | ModelChoice)]


class Subagents(Section):
    """Limits of the agents that an agent may start."""

    max_spawn_depth: int = Field(2, ge=0, le=10)
    """Depth to which agents may start agents; 0 = never."""
    max_children_per_agent: int = Field(5, ge=0, le=100)
    """Accepted, and without effect yet: sub-agents of one agent."""
    max_concurrent: int = Field(1, ge=1, le=100)
    """Accepted, and without effect yet: sub-agents that run at once."""
    archive_after_minutes: int = Field(60, ge=0)
    """Accepted, and without effect yet: minutes until an ended sub-agent is archived."""
    model: Model | None = None
    """Accepted, and without effect yet: the model of sub-agents."""
    thinking: Thinking | None = None
    """Accepted, and without effect yet: their thinking level."""


class SandboxSettings(Section):
    """Isolation of the commands that an agent runs."""

    mode: Literal["off", "non-main", "all"] = "off"
    """off, all, or non-main: all but an owner in the agent's main session."""
    backend: str | None = None
    """bubblewrap, docker, or another installed one."""
    tools: ToolLists | None = None
    """Read as tools.sandbox.tools."""


class Identity(Section):
    """Name and owners of the agent."""

    name: str | None = None
    """Its name in the prompt; IDENTITY.md goes before it."""
    emoji: str | None = None
    """Accepted, and without effect yet: the emoji of the agent."""
    owner_numbers: People = ()
    """Owners; read beside the top-level owners."""
    owner_display_secret: Secret | None = None
    """Key of the hashes of owners in prompts."""


def _check_workspace(value: str) -> str:
    if not value.strip():
        raise validation_error("is empty", "Write a folder, or remove the key")
    if value.strip().rstrip("/\\") in ("", "~", "$HOME", "/.") or value.strip().startswith("/.."):
        problem = "a disk root or home folder ({value}) cannot be a workspace"
        raise validation_error(problem, "Name a folder below the root", value=value)
    return value


class AgentSettings(Section):
    """Settings of one agent, or the defaults of all agents (``agents.defaults``)."""

    model: Model | None = None
    """The model that answers, and its fallbacks, in order."""
    workspace: Annotated[str, AfterValidator(_check_workspace)] | None = Field(
        None, validation_alias=AliasChoices("workspace", "workspaceDir", "workspace_dir")
    )
    """Folder where tools work; absent = workspace-ID in the home."""
    system_prompt: str | None = None
    """Your instructions, at the head of the prompt."""
    tools: ToolsSettings | None = None
    """Which tools the agent may use, and how."""
    thinking_default: Thinking = "off"
    """Amount of thinking before an answer; adaptive: the model decides itself."""
    tool_choice: str = "auto"
    """auto, none, required, or a tool, for a turn's first model call."""
    context_tokens: int | None = Field(None, ge=1000)
    """Window; absent = the model's."""
    max_tokens: int | None = Field(None, ge=1)
    """Longest answer."""
    max_turns: int | None = Field(200, ge=1)
    """Model calls per message; null = no limit."""
    temperature: float | None = Field(None, ge=0, le=2)
    """Accepted, and without effect yet: the service's own value is used."""
    timeout_seconds: float | None = Field(None, gt=0)
    """Accepted, and without effect yet: seconds of a turn."""
    history_limit: int | None = Field(None, ge=0)
    """Earlier turns kept in a request; 0 = all."""
    bootstrap_max_chars: int = Field(20_000, ge=0)
    """Of one context file in the prompt."""
    bootstrap_total_max_chars: int = Field(60_000, ge=0)
    """Of all context files in the prompt."""
    rule_files: Literal["ask", "allow", "deny"] = "ask"
    """The agent changing SOUL.md, AGENTS.md …: an owner is asked, it may, or it may not."""
    subagents: Subagents = section_default()
    sandbox: SandboxSettings = section_default()
    identity: Identity = section_default()
    user_timezone: Zone | None = None
    """Time zone of times and dates that the agent is shown; absent = this machine's."""
    plugins: dict[str, dict[str, Any]] = Field({})
    """By plugin id: what it reads for this agent."""


class AgentEntry(AgentSettings):
    """One entry of ``agents.list``. Each section it has replaces the section of the defaults."""

    id: str = Field(min_length=1)
    """Name in keys, folders and sessions."""
    name: str | None = None
    """The name that people use."""
    default: bool = False
    """Take this one when nobody names an agent."""

    @field_validator("id")
    @classmethod
    def _no_path(cls, value: str) -> str:
        if "/" in value or "\\" in value:
            name = normalise_agent_id(value)
            raise validation_error("{id} is a path", "Write a name such as {name}", id=value, name=name)
        if not any(map(str.isalnum, value)):
            raise validation_error("{id} is no name", "Write letters and digits", id=value)
        if len(value) > AGENT_ID_CHARS:
            problem = "{id} is too long: a name has at most {most} characters"
            raise validation_error(problem, "Write a shorter name", id=f"{value[:12]}…", most=AGENT_ID_CHARS)
        return value


class Agents(Section):
    """``agents``: the defaults, and each agent."""

    defaults: AgentSettings = section_default()
    list: tuple[AgentEntry, ...] = ()
    """Also read: entries, a map of id to agent."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent with its effective settings: each section of its own replaces the section of the defaults.

    :param dir: its folder in the home (sessions, keys, its own files).
    :param workspace: the folder where its tools work.
    :param has_configured_workspace: the config names that folder.
    :param key: its key in the file: ``agents.list[0]``, or ``agents.defaults`` when it is not listed.
    :param overridden: the sections that it overrides.
    :param short_keys: section of the defaults → its short form, for those written at the top level of the file.
    :param read: returns the value of a plugin's key, as a model.
    """

    id: str
    name: str
    dir: Path
    workspace: Path
    has_configured_workspace: bool
    settings: AgentSettings
    key: str
    overridden: frozenset[str] = frozenset()
    short_keys: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[str, type[Any]], Any] = field(
        default=lambda key, model: model(), repr=False, compare=False
    )

    def section(self, key: str, model: type[M]) -> M:
        """Return the effective value of a key that a plugin owns as ``agents.KEY``; all defaults when it is not set.

        A section of the agent replaces the same section of the defaults.

        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        found: M = self.read(key, model)
        return found

    def key_of(self, section: str) -> str:
        """Return the key of the effective ``section``: ``agents.list[0].tools``, ``agents.defaults.tools``.

        A section of the defaults that is written at the top level of the file is named as it is written there.
        """
        name = camel_case(section)
        of_defaults = self.short_keys.get(name, f"agents.defaults.{name}")
        return f"{self.key}.{name}" if name in self.overridden else of_defaults
