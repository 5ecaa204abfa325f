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


@dataclass(frozen=True)
class Kit:
    """All that stands ready for a turn.

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
