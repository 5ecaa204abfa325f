"""What the plugins brought, frozen. Every object carries the id of the plugin it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from claw.channel import Channel
from claw.prompt import PromptSection
from claw.provider import Provider
from claw.sandbox import Sandbox
from claw.tool import Tool

T = TypeVar("T")

BUILTIN = "builtin"
"""The plugin id of what core itself brings."""


@dataclass(frozen=True, slots=True)
class Brought(Generic[T]):
    """An object and the plugin that answers for it."""

    plugin: str
    thing: T


def channel_key(name: str, account: str = "default") -> str:
    """Which channel serves an account: its name, and behind a slash the account when it is not the default one."""
    return name if account == "default" else f"{name}/{account}"


def account_of(channel: Channel) -> str:
    """Which of our accounts a channel serves."""
    return str(getattr(channel, "account", "") or "default")


@dataclass(frozen=True)
class Kit:
    """All that stands ready for a turn.

    :param channels: by :func:`channel_key`.
    :param tools: in order of registration, core tools first; a name may appear twice, ``policy`` says whose
        stands.
    :param diagnostics: one line for each thing that was refused, both owners named.
    """

    channels: Mapping[str, Brought[Channel]] = field(default_factory=dict)
    providers: Mapping[str, Brought[Provider]] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    sections: tuple[PromptSection, ...] = ()
    sandboxes: Mapping[str, Sandbox] = field(default_factory=dict)
    reviewers: tuple[Brought[Any], ...] = ()
    filters: tuple[Brought[Any], ...] = ()
    observers: tuple[Brought[Any], ...] = ()
    diagnostics: tuple[str, ...] = ()

    def channel(self, name: str, account: str = "default") -> Channel | None:
        """The channel of this name that serves this account; None when there is none."""
        brought = self.channels.get(channel_key(name, account))
        return brought.thing if brought else None
