"""The whole file as models, and the bases that channels and providers build on."""

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, model_validator

from claw.config.agents import Agents, People
from claw.config.budgets import AnyModel, Budget, ToolMode
from claw.config.channels import AnyChannel, QueueSettings, with_what_a_token_gives
from claw.config.sessions import SessionSettings
from claw.config.tools import ToolsSettings
from claw.config.values import Duration, Names, Secret, Section, Size, part, wrong

_PLACEHOLDERS = re.compile(
    r"(change.?me|example|placeholder|secret|password|token|test|todo|your.*|x+|<.*>|1234.*|admin|default)",
    re.I,
)
MIN_TOKEN_CHARS = 16


class AuthProfile(Section):
    """A named key."""

    id: str = Field(min_length=1)
    api_key: Secret | None = None
    type: Literal["api_key", "token", "oauth"] = "api_key"


class ProviderConfig(Section):
    """What core reads of every provider. A provider's own model inherits it and adds its keys."""

    enabled: bool = True
    base_url: str | None = Field(None, description="Where the service is; absent = the vendor's own.")
    api_key: Secret | None = Field(None, description="One key; several: authProfiles.")
    auth_profiles: tuple[AuthProfile, ...] = Field((), description="Named keys.")
    auth_order: tuple[str, ...] = Field((), description="Names of authProfiles, in the order to try them.")
    connect_timeout_seconds: float = Field(10, gt=0, description="Longest wait for a connection.")
    begin_timeout_seconds: float = Field(600, gt=0, description="Longest wait for an answer's first word.")
    idle_timeout_seconds: float = Field(
        120, gt=0, description="Longest silence in the middle of an answer; keep-alives are silence."
    )
    timeout_seconds: float = Field(3600, gt=0, description="Longest call, from the question to its end.")
    headers: dict[str, Secret] = Field({}, description="Sent with each request.")
    tools: ToolMode | None = Field(
        None,
        description="How its models are told of tools, where models says nothing: native, prompt (in words), or none.",
    )
    models: dict[str, dict[str, Any]] = Field({}, description="By model: contextTokens, maxTokens …")

    @model_validator(mode="after")
    def _profiles_are_known_once(self) -> "ProviderConfig":
        ids = [profile.id for profile in self.auth_profiles]
        for index, id in enumerate(ids):
            if id in ids[:index]:
                at = ("authProfiles", index, "id")
                raise wrong("duplicate profile id {id}", "Give each profile its own id", at=at, id=id)
        for index, id in enumerate(self.auth_order):
            if id not in ids:
                raise wrong(
                    "no profile is called {id}", "Use ids of authProfiles", at=("authOrder", index), id=id
                )
        return self


class AnyProvider(ProviderConfig):
    """A provider's section as core reads it."""

    model_config = ConfigDict(extra="allow")

    models: dict[str, AnyModel] = Field({}, description="By model: contextTokens, maxTokens, price …")  # type: ignore[assignment]


class PluginEntry(Section):
    """One plugin: whether it may run, and its own settings."""

    enabled: bool = True
    required: bool = Field(False, description="Do not start without it.")
    config: dict[str, Any] = Field({}, description="The plugin's own keys.")


class Plugins(Section):
    """``plugins``."""

    allow: tuple[str, ...] | None = Field(None, description="Only these plugins may run.")
    deny: tuple[str, ...] = Field((), description="These plugins may not run.")
    entries: dict[str, PluginEntry] = part()


class GatewayAuth(Section):
    """How callers of the gateway prove themselves."""

    mode: Literal["token", "none"] = "token"
    token: Secret | None = None


def _is_loopback(bind: str) -> bool:
    if bind in ("loopback", "localhost"):
        return True
    try:
        return ipaddress.ip_address(bind.strip("[]")).is_loopback
    except ValueError:
        return False


class Gateway(Section):
    """``gateway``: the process that listens."""

    bind: str = Field("127.0.0.1", description="Address to listen on; open ones need a token.")
    port: int = Field(18789, ge=0, le=65535, description="Port to listen on; 0 = any free one.")
    auth: GatewayAuth = part()
    allow_origins: tuple[str, ...] = Field((), description="Web pages that may call.")

    @model_validator(mode="after")
    def _nobody_walks_in(self) -> "Gateway":
        token = self.auth.token
        if not _is_loopback(self.bind):
            if self.auth.mode == "none" or token is None:
                fix = "Set gateway.auth.token, or bind to loopback (127.0.0.1)"
                open_to_all = "{bind} is open to the network and no token guards it"
                raise wrong(open_to_all, fix, at=("auth",), bind=self.bind)
            _judge_token(token)
        if "*" in self.allow_origins and (self.auth.mode == "none" or not token):
            problem = "any web origin (*) while no token is set: every web page could drive the gateway"
            raise wrong(problem, "Name the origins, or set gateway.auth.token", at=("allowOrigins",))
        return self


def _judge_token(token: Secret) -> None:
    at = ("auth", "token")
    if token.empty:
        raise wrong("the token is empty", "Write a long random token, or a reference to one", at=at)
    text = "" if token.missing else token.reveal()
    if not token.missing and (_PLACEHOLDERS.fullmatch(text) or len(text) < MIN_TOKEN_CHARS):
        fix = "Take at least {count} random characters"
        raise wrong("the token is weak: a placeholder, or too short", fix, at=at, count=MIN_TOKEN_CHARS)


class Hooks(Section):
    """``hooks``: messages that other programs post."""

    enabled: bool = False
    path: str = "/hooks"
    token: Secret | None = None
    allow_request_session_key: bool = False

    @model_validator(mode="after")
    def _callers_are_known(self) -> "Hooks":
        if (self.enabled or self.allow_request_session_key) and (self.token is None or self.token.empty):
            problem = "the token is empty, so anybody could post"
            raise wrong(problem, "Write a long random token", at=("token",))
        return self


class CronJob(Section):
    """One job of the clock."""

    id: str = Field(min_length=1)
    enabled: bool = True
    schedule: str | None = Field(None, description="Five cron fields: minute hour day month weekday.")
    prompt: str = ""

    @property
    def schedule_is_sound(self) -> bool:
        """Whether the schedule has its five fields; a job without a schedule has another clock."""
        return self.schedule is None or len(self.schedule.split()) == 5


class Cron(Section):
    """``cron``."""

    enabled: bool = True
    jobs: tuple[CronJob, ...] = ()


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for index, pattern in enumerate(value):
        try:
            re.compile(pattern)
        except re.error as cause:
            problem = "is not a regular expression ({cause})"
            raise wrong(problem, "Mend the pattern", at=(index,), cause=cause.msg) from cause
    return value


class Logging(Section):
    """``logging``: what the gateway writes down in ``logs/claw.jsonl``."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="This and graver; of libraries warnings and graver ones alone."
    )
    max_size: Size = Field(10 << 20, ge=10_000, description="A file that grows beyond it is put aside.")
    keep: int = Field(5, ge=0, le=100, description="How many files that were put aside stay.")
    redact_patterns: Annotated[tuple[str, ...], AfterValidator(_patterns)] = Field(
        (), description="More that must never be printed, as regular expressions."
    )


class Lanes(Section):
    """How many turns run at once. Turns mostly wait for models: what a machine bears is more than its cores."""

    main: int = Field(256, ge=1, description="Of all conversations with people.")
    subagents: int = Field(8, ge=1, description="Of sub-agents.")
    clock: int = Field(4, ge=1, description="Of scheduled tasks.")


class Messages(Section):
    """``messages``."""

    silent_token: str = Field("NO_REPLY", min_length=1, description="An answer of only this is not sent.")
    queue: QueueSettings = part()
    lanes: Lanes = part()


class ApprovalSettings(Section):
    """``approvals``: calls that a person must allow."""

    tools: Names = Field(
        (), description="Tools (names, groups, patterns) of which every call is asked about."
    )
    approvers: People = Field((), description="Who may allow, channel:id; empty = the owners.")
    timeout: Duration = Field(600.0, gt=0, description="After it nobody has allowed: the call is refused.")


class PromptSettings(Section):
    """``prompt``."""

    inbound_meta: Literal["system", "user"] = Field(
        "system", description="Where facts about a message stand."
    )
    positions: dict[str, int] = Field({}, description="Section name → position, to reorder sections.")
    disabled: tuple[str, ...] = Field((), description="Sections to leave out.")
    docs_path: str | None = Field(
        None, description="Folder or address of documentation that the prompt names."
    )


class Peer(Section):
    """One chat."""

    kind: Literal["direct", "dm", "group", "channel"]
    id: str


class Match(Section):
    """Which messages; an absent key matches all."""

    channel: str | None = None
    account: str | None = Field(None, validation_alias=AliasChoices("account", "accountId", "account_id"))
    group: str | None = Field(None, description="Id of a group or channel.")
    peer: Peer | None = None
    thread: str | None = Field(None, description="Id of a thread or topic.")


class Binding(Section):
    """Which agent answers which messages."""

    agent: str = Field(validation_alias=AliasChoices("agent", "agentId", "agent_id"))
    match: Match = part()


class Cooldowns(Section):
    """How long a key rests after a failure."""

    table: tuple[Duration, ...] = Field(
        (60.0, 300.0, 1500.0, 3600.0), description="After the first failure in a row, the second …"
    )
    slow_down: Duration = Field(300.0, description="The most of it after a rate limit without Retry-After.")
    disabled: Duration = Field(
        18_000.0, description="Without credit, or refused for good; doubled each time."
    )
    disabled_most: Duration = Field(86_400.0, description="The most of that.")
    window: Duration = Field(86_400.0, description="So long without a failure, and the counters start again.")
    probe: Duration = Field(20.0, gt=0, description="Between two tries while all keys of a provider rest.")


class ModelsSettings(Section):
    """``models``."""

    aliases: dict[str, str] = Field({}, description="Short name → provider/model.")
    wait: Duration = Field(
        120.0,
        description="The longest that a call waits for a model to be had again; off = nothing is tried twice.",
    )
    cooldowns: Cooldowns = part()
    least_context: int = Field(16_000, ge=0, description="A model that reads less is not asked to use tools.")
    small_context: int = Field(32_000, ge=0, description="Of one that reads less, the log warns.")


class Settings(Section):
    """The whole file."""

    locale: Literal["en", "zh"] = Field("en", description="Language of claw's own messages.")
    agents: Agents = part()
    tools: ToolsSettings = part()
    channels: Annotated[dict[str, AnyChannel], BeforeValidator(with_what_a_token_gives)] = part()
    providers: dict[str, AnyProvider] = part()
    plugins: Plugins = part()
    owners: People = Field((), description="People who may do everything: channel:id.")
    prompt: PromptSettings = part()
    session: SessionSettings = part()
    gateway: Gateway = part()
    hooks: Hooks = part()
    cron: Cron = part()
    logging: Logging = part()
    messages: Messages = part()
    approvals: ApprovalSettings = part()
    bindings: tuple[Binding, ...] = ()
    models: ModelsSettings = part()
    budgets: dict[str, Budget] = Field(
        {}, description="Caps on what model calls may cost, by names of yours."
    )
