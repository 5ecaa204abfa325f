"""claw: a plugin host for chat agents.

The floors; a room imports only from floors below it (``tests/core/test_walls.py``):

    10  cli  testing                  commands; the fakes we ship
    9   app  builtin                  build once, run, stop; core's own plugins
    8   turn                          the path of one message
    7   gate                          every tool call: checked, reviewed, run
    6   stage  host           what a message meets; the plugins; strangers asked within limits
    5   loop  fallback  kit  hookspecs  guests  explain  scenario  wire
    4   session  journal  prompt  provider  survey  mend
    3   policy  route  compaction  auth  tool  event  channel  standing  record  usage  past
    2   config  manifest  catalog  transcript  truncation  lane  sandbox  guard  failure  arguments  growing
    1   store  clock  message  errors  words  wall  yard

Names below are public and versioned; everything else may move. Nothing is imported until it is asked for.
"""

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is a dozen modules that ``claw --version`` does without
    from typing import Any

__version__ = "0.1.0"

_ROOMS = {
    "ChannelConfig": "config.settings",
    "ProviderConfig": "config.settings",
    "Section": "config.settings",
    "ClawError": "errors",
    "ConfigError": "errors",
    "FenceError": "errors",
    "PluginError": "errors",
    "ProviderError": "errors",
    "ToolError": "errors",
    "UsageError": "errors",
    "Address": "message",
    "Attachment": "message",
    "Inbound": "message",
    "Outbound": "message",
    "Receipt": "message",
    "Sender": "message",
    "Channel": "channel",
    "Door": "channel",
    "Limits": "channel",
    "Assistant": "transcript",
    "Image": "transcript",
    "Message": "transcript",
    "Text": "transcript",
    "Thinking": "transcript",
    "ToolCall": "transcript",
    "Usage": "transcript",
    "usage_of": "usage",
    "User": "transcript",
    "Credential": "auth",
    "Finished": "provider",
    "ModelEvent": "provider",
    "Provider": "provider",
    "Request": "provider",
    "SystemPrompt": "provider",
    "TextDelta": "provider",
    "ThinkingDelta": "provider",
    "ToolSpec": "provider",
    "configured_keys": "auth",
    "failed": "failure",
    "failure_said": "failure",
    "CallIds": "wire",
    "Growing": "growing",
    "Patience": "wire",
    "STREAM_DONE": "wire",
    "base_url": "wire",
    "is_loopback": "guard.fetch",
    "converse": "wire",
    "mint_call_id": "wire",
    "tool_arguments": "wire",
    "Tool": "tool",
    "ToolContext": "tool",
    "tool": "tool",
    "ToolResult": "tool",
    "ContextFile": "prompt",
    "PromptFacts": "prompt",
    "PromptSection": "prompt",
    "bootstrap": "prompt",
    "inbound_context": "prompt",
    "PluginConfig": "config.view",
    "Secret": "config.settings",
    "Sandbox": "sandbox",
    "split_plain": "guard.command",
    "nearest": "arguments",
    "Review": "guests",
    "result_limit": "truncation",
    "look_round": "app",
    "hookimpl": "hookspecs",
    "hookspec": "hookspecs",
    "say": "words",
}
_RENAMED = {"usage_of": "normalise", "ToolResult": "Result", "failure_said": "said", "STREAM_DONE": "DONE"}

__all__ = sorted(_ROOMS)  # noqa: PLE0605


def __getattr__(name: str) -> "Any":
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module 'claw' has no attribute {name!r}")
    value = getattr(import_module(f"claw.{room}"), _RENAMED.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """``claw.tool`` is the decorator, also after the room of the same name was imported (which binds it here)."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "tool" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
