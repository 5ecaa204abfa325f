"""Models of the whole config file, and the base classes for sections of providers."""

import re
from itertools import pairwise
from time import process_time
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    model_validator,
)

from claw.config.agents import Agents, People, ToolsSettings
from claw.config.channels import AnyChannel, QueueSettings
from claw.config.values import Secret, Section, section_default, validation_error

ToolMode = Literal["native", "prompt", "none"]


class LongPrice(Section):
    """Token prices for long requests."""

    tokens: PositiveInt
    """Requests that are longer cost this."""
    input: NonNegativeFloat | None = None
    """Read, not from a cache."""
    output: NonNegativeFloat | None = None
    """Written, thoughts too."""
    cache_read: NonNegativeFloat | None = None
    """Absent = as input."""
    cache_write: NonNegativeFloat | None = None
    """Absent = as input."""


class ModelPrice(Section):
    """Prices in dollars per million tokens."""

    input: NonNegativeFloat | None = None
    """Read, not from a cache."""
    output: NonNegativeFloat | None = None
    """Written, thoughts too."""
    cache_read: NonNegativeFloat | None = None
    """Absent = as input."""
    cache_write: NonNegativeFloat | None = None
    """Absent = as input."""
    over: LongPrice | None = None
    """Prices of long requests."""


class ModelConfig(Section):
    """Properties of one model. A provider's plugin may inherit from this class and add its keys."""

    context_tokens: PositiveInt | None = None
    """Most that it can read."""
    max_tokens: PositiveInt | None = None
    """Longest answer."""
    price: ModelPrice | None = None
    """In place of what the plugin knows."""
    tools: ToolMode | None = None
    """native, prompt (in words), or none."""


class AnyModel(ModelConfig):
    """A model's section as core reads it."""

    model_config = ConfigDict(extra="allow")


class SessionSettings(Section):
    """``session``."""

    dm_scope: Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"] = "per-channel-peer"
    """Which direct chats share a conversation."""
    main_key: str = "main"
    """Last part of the key of an agent's main conversation."""
    identity_links: dict[str, tuple[str, ...]] = Field({})
    """Name → one person's channel:id."""


class AuthProfile(Section):
    """A named key."""

    id: str = Field(min_length=1)
    """Name of the key, for authOrder and provider/model@NAME."""
    api_key: Secret | None = None
    """The key; prefer ${VARIABLE}."""
    type: Literal["api_key", "token", "oauth"] = "api_key"
    """api_key: it does not expire; token: it does; oauth: it is renewed."""


class ProviderConfig(Section):
    """Settings of every provider that core reads. A provider's own model inherits from it and adds its keys."""

    enabled: bool = True
    """false: its models are not used."""
    base_url: str | None = None
    """Address of the service; absent = the vendor's own."""
    api_key: Secret | None = None
    """One key; several: authProfiles."""
    auth_profiles: tuple[AuthProfile, ...] = ()
    """Named keys."""
    auth_order: tuple[str, ...] = ()
    """Names of authProfiles, in the order to try them."""
    connect_timeout_seconds: float = Field(10, gt=0)
    """Longest wait for a connection."""
    begin_timeout_seconds: float = Field(600, gt=0)
    """Longest wait for an answer's first word."""
    idle_timeout_seconds: float = Field(120, gt=0)
    """Longest silence in the middle of an answer; keep-alives are silence."""
    timeout_seconds: float = Field(3600, gt=0)
    """Longest call, from the question to its end."""
    headers: dict[str, Secret] = Field({})
    """Sent with each request."""
    tools: ToolMode | None = None
    """The way its models get tools, where models says nothing: native, prompt (in words), or none."""
    models: dict[str, dict[str, Any]] = Field({})
    """By model: contextTokens, maxTokens …"""

    @model_validator(mode="after")
    def _check_profiles(self) -> "ProviderConfig":
        ids = [profile.id for profile in self.auth_profiles]
        for index, id in enumerate(ids):
            if id in ids[:index]:
                at, fix = ("authProfiles", index, "id"), "Give each profile its own id"
                raise validation_error("duplicate profile id {id}", fix, at=at, id=id)
        for index, id in enumerate(self.auth_order):
            if id not in ids:
                fix = "Use ids of authProfiles"
                raise validation_error("there is no profile {id}", fix, at=("authOrder", index), id=id)
        return self


class AnyProvider(ProviderConfig):
    """A provider's section as core reads it."""

    model_config = ConfigDict(extra="allow")

    models: dict[str, AnyModel] = Field({})  # type: ignore[assignment]
    """By model: contextTokens, maxTokens, price …"""


class PluginEntry(Section):
    """One plugin: its switches, and its own settings."""

    enabled: bool = True
    """false: the plugin is not loaded."""
    required: bool = False
    """Do not start without it."""
    config: dict[str, Any] = Field({})
    """The plugin's own keys."""


class Slots(Section):
    """``plugins.slots``: which plugin is in force where only one can be; empty = claw's own, else the first in order."""

    models: str = ""
    """Choice of model and key: a plugin id, or the name of its selector."""
    context: str = ""
    """The context engine: a plugin id, or its name."""
    approvals: str = ""
    """The plugin that asks people to approve calls: its id, or the name of its approver."""
    turn_log: str = ""
    """The durable log of turns: a plugin id, or its name."""
    sessions: str = ""
    """The store of transcripts: a plugin id, or its name."""

    def chosen(self) -> dict[str, str]:
        """Return slot → name, of the slots for which one is named."""
        return {slot: name for slot, name in self.model_dump(by_alias=True).items() if name}


class PluginsSettings(Section):
    """``plugins``."""

    allow: tuple[str, ...] | None = None
    """Only these plugins may run."""
    deny: tuple[str, ...] = ()
    """These plugins may not run."""
    entries: dict[str, PluginEntry] = Field({}, validate_default=True)
    """By plugin id."""
    slots: Slots = section_default()


def _check_patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for index, written in enumerate(value):
        try:
            pattern = re.compile(written)
        except re.error as cause:
            problem = "is not a regular expression ({cause})"
            raise validation_error(problem, "Correct the pattern", at=(index,), cause=cause.msg) from cause
        if pattern.search("") and not written.strip("^$"):
            problem = "matches no character, so nothing is masked"
            raise validation_error(problem, "Write a pattern, or remove it", at=(index,))
        if length := _slow_length(pattern):
            problem = "takes exponential time on some texts: a repetition contains another one"
            if length > _SHORT:
                problem = "takes very long on some texts: its repetitions overlap"
            raise validation_error(problem, "Write it without nested repetitions such as (a+)+", at=(index,))
    return value


_SHORT = 26
_LENGTHS = (14, 16, 18, 20, 22, 24, _SHORT, 32, 40, 50, 62, 78, 97, 121, 151, 189, 236, 300)


def _slow_length(pattern: re.Pattern[str]) -> int:
    """Return the length of a text that nearly matches and whose search takes long; 0 if there is none.

    The texts repeat one or two characters of the pattern. They grow in steps: an exponential pattern is slow at
    :data:`_SHORT` characters or a few more, one of third degree at 300.
    """
    written = pattern.pattern
    samples = {*written, *map("".join, pairwise(written)), "a", "0", " ", "-"}
    for sample in samples:
        for length in _LENGTHS:
            began = process_time()
            pattern.search((sample * length)[:length] + "\0")
            if process_time() - began > 0.02:
                return length
    return 0


class Logging(Section):
    """``logging``: what is masked in all output. The plugin that keeps a log has keys beside it."""

    redact_patterns: Annotated[tuple[str, ...], AfterValidator(_check_patterns)] = ()
    """More that must never be printed, as regular expressions."""


class Messages(Section):
    """``messages``."""

    silent_token: str = Field("NO_REPLY", min_length=1)
    """An answer of only this is not sent."""
    queue: QueueSettings = section_default()


class PromptSettings(Section):
    """``prompt``."""

    inbound_meta: Literal["system", "user"] = "system"
    """Place of the facts about a message."""
    positions: dict[str, int] = Field({})
    """Section name → position, to reorder sections."""
    disabled: tuple[str, ...] = ()
    """Sections to leave out."""
    docs_path: str | None = None
    """Folder or address of documentation that the prompt names."""


class Peer(Section):
    """One chat."""

    kind: Literal["direct", "dm", "group", "channel"]
    """direct (or dm): one person; group or channel: several."""
    id: str
    """Id of the person or the group."""


class Match(Section):
    """Conditions on a message; an absent key matches all."""

    channel: str | None = None
    """Name of the channel, such as telegram."""
    account: str | None = Field(None, validation_alias=AliasChoices("account", "accountId", "account_id"))
    """Name of one of the channel's accounts."""
    group: str | None = None
    """Id of a group or channel."""
    peer: Peer | None = None
    thread: str | None = None
    """Id of a thread or topic."""


class Binding(Section):
    """Routing of matching messages to an agent."""

    agent: str = Field(validation_alias=AliasChoices("agent", "agentId", "agent_id"))
    """Id of the agent that answers."""
    match: Match = section_default()


class ModelsSettings(Section):
    """``models``."""

    aliases: dict[str, str] = Field({})
    """Short name → provider/model."""
    least_context: int = Field(16_000, ge=0)
    """A model that reads less is not asked to use tools."""
    small_context: int = Field(32_000, ge=0)
    """Of one that reads less, the log warns."""


class Settings(Section):
    """The whole file."""

    locale: Literal["en", "zh"] = "en"
    """Language of claw's own messages."""
    agents: Agents = section_default()
    tools: ToolsSettings = section_default()
    channels: dict[str, AnyChannel] = Field({}, validate_default=True)
    """Chat services, by name."""
    providers: dict[str, AnyProvider] = Field({}, validate_default=True)
    """Model services, by name."""
    plugins: PluginsSettings = section_default()
    owners: People = ()
    """People who may do everything: channel:id."""
    prompt: PromptSettings = section_default()
    session: SessionSettings = section_default()
    logging: Logging = section_default()
    messages: Messages = section_default()
    bindings: tuple[Binding, ...] = ()
    """Which agent answers which messages."""
    models: ModelsSettings = section_default()
