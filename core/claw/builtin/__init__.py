"""Core's own plugins, registered through the same hooks as everybody else's: with core alone, claw answers.

They bring the terminal, the sections of the system prompt, and the ``offline`` provider that needs no key.
"""

from collections.abc import Iterable

from claw import Channel, PluginConfig, PromptSection, Provider, hookimpl
from claw.builtin.offline import Offline
from claw.builtin.sections import sections
from claw.builtin.terminal import Terminal


@hookimpl
def register_channels(config: PluginConfig) -> Iterable[Channel]:
    """The terminal."""
    return [Terminal()]


@hookimpl
def register_providers(config: PluginConfig) -> Iterable[Provider]:
    """The stand-in that needs no key."""
    return [Offline()]


@hookimpl
def register_prompt_sections(config: PluginConfig) -> Iterable[PromptSection]:
    """Everything that claw itself says to a model."""
    return sections()
