"""Channel settings that core reads: the people and groups that may write, and the handling of their messages."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from claw.config.agents import ToolLists
from claw.config.summary import DeclaredChannel
from claw.config.values import Duration, Section, validation_error


class QueueSettings(Section):
    """Handling of messages that arrive while a turn of their conversation runs."""

    mode: Annotated[
        Literal["steer", "collect", "followup", "interrupt"],
        BeforeValidator(lambda mode: "steer" if mode == "queue" else mode),
    ] = "steer"
    """steer: into the running turn; collect: one turn for all; followup: one turn each; interrupt: stop and answer
    the newest."""
    debounce: Duration = Field(0.5, ge=0)
    """Quiet time before waiting messages become a turn."""
    cap: int = Field(20, ge=1)
    """Messages of one conversation that may wait."""
    drop: Literal["old", "new", "summarize"] = "summarize"
    """Messages that are given up when more come."""


class GroupSettings(Section):
    """One group of a channel."""

    model_config = ConfigDict(extra="allow")

    enabled: bool = True
    """false: messages of this group are ignored."""
    tools: ToolLists | None = None
    """Tools in this group, within those of the agent."""
    tools_by_sender: dict[str, ToolLists] = Field({}, validate_default=True)
    """In place of tools, by the id of the sender; '*' = all others."""
    require_mention: bool = True
    """Answer only messages that mention the bot or reply to it."""
    allow_from: tuple[str, ...] | None = None
    """Members of this group who may talk to us; absent = as groupAllowFrom says."""
    system_prompt: str | None = None
    """Your instructions for this group, in its prompt."""


class DirectSettings(Section):
    """A direct chat with one person."""

    history_limit: int | None = Field(None, ge=0)
    """In place of the channel's, in the direct chat with this person."""


class GroupEntry(GroupSettings):
    """One group, where groups are written as a list."""

    chat_id: str | int
    """Id of the group."""


_GROUP_FORMS = "a list ([{chatId: ID, tools: {…}}]) or a map ({ID: {tools: {…}}})"


def _by_id(value: Any) -> Any:
    """Convert both written forms into a map of id → group."""
    if isinstance(value, list):
        joined: dict[str, Any] = {}
        for index, entry in enumerate(value):
            group = dict(entry) if isinstance(entry, dict) else {}
            id = next((group.pop(name) for name in ("chatId", "chat_id", "id") if name in group), None)
            if not isinstance(id, str | int):
                problem, fix = "has no chatId", "Write groups as {forms}"
                raise validation_error(problem, fix, at=(index,), forms=_GROUP_FORMS)
            joined[str(id)] = group
        return joined
    if not isinstance(value, dict) or not all(isinstance(group, dict) for group in value.values()):
        raise validation_error("must be {forms}", "Write it in one of these forms", forms=_GROUP_FORMS)
    return value


class ChannelConfig(Section):
    """Settings of every channel that core reads. A channel's own model inherits from it and adds its keys.

    Nobody may write until ``allowFrom`` names people, or a person was paired.
    """

    enabled: bool = True
    """false: the channel is not started."""
    accounts: dict[str, dict[str, Any]] = Field({})
    """More accounts of the same service, by name."""
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = "pairing"
    """People who may write in a direct chat; open needs allowFrom: ['*']."""
    allow_from: tuple[str, ...] = ()
    """Stable ids of people who may write; empty = nobody."""
    group_policy: Literal["allowlist", "open", "disabled"] = "allowlist"
    """Groups that may talk to us: those of groups, all, or none."""
    group_allow_from: tuple[str, ...] | None = None
    """Members of a listed group who may talk to us; absent = all of them, empty = nobody."""
    groups: Annotated[
        dict[str, GroupSettings],
        BeforeValidator(_by_id, json_schema_input_type=dict[str, GroupSettings] | tuple[GroupEntry, ...]),
    ] = Field({})
    """Groups that may talk to us, by id; '*' = all others."""
    dms: dict[str, DirectSettings] = Field({})
    """Direct chats, by the id of the person."""
    history_limit: int | None = Field(None, ge=0)
    """Earlier turns kept in a request; absent = as the agent says, 0 = all."""
    group_history: int = Field(20, ge=0)
    """Unanswered group messages shown with the next question."""
    streaming: bool = True
    """Show an answer while it grows."""
    block_streaming: bool = False
    """Send an answer in blocks as they are ready, each a message."""
    queue: QueueSettings | None = None
    """In place of messages.queue."""
    allow_bots: bool = False
    """Let other bots start turns."""

    @model_validator(mode="after")
    def _open_needs_a_star(self) -> Self:
        is_of_plugin = not isinstance(self, AnyAccount | AnyChannel)
        if is_of_plugin and self.dm_policy == "open" and "*" not in self.allow_from:
            problem = "dmPolicy is open, but allowFrom does not contain '*': the channel does not start"
            fix = "Write allowFrom: ['*'] to admit everyone, or use dmPolicy: pairing"
            raise validation_error(problem, fix, at=("allowFrom",))
        return self


class AnyAccount(ChannelConfig):
    """One of several accounts: its keys override the channel's."""

    model_config = ConfigDict(extra="allow")


class AnyChannel(ChannelConfig):
    """A channel's section as core reads it; the plugin's own model validates the other keys."""

    model_config = ConfigDict(extra="allow")

    accounts: dict[str, AnyAccount] = Field({})  # type: ignore[assignment]
    """More accounts of the same service, by name."""


def with_token_user(channel: AnyChannel, declared: Sequence[DeclaredChannel]) -> AnyChannel:
    """Return the settings of a channel, with other defaults if all of its senders have a token: they are admitted, and
    there is nobody to pair.

    :param declared: the channel in the manifest of each plugin that has one of this name; all must say so.
    """
    users = {one.token_user for one in declared}
    if len(users) != 1 or "" in users:
        return channel
    defaults = {"dm_policy": "allowlist", "allow_from": tuple(users)}
    unset = defaults.keys() - channel.model_fields_set
    return channel.model_copy(update={key: defaults[key] for key in unset})
