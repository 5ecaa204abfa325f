"""claw: a plugin host for chat agents.

The floors; a room imports only from floors below it (``tests/core/test_walls.py``):

    10  cli  testing  serve  gateway  desk  reception                commands; the fakes we ship
    9   app  builtin  letter  backlog                  build once, run, stop; core's own plugins
    8   turn                          the path of one message
    7   gate  asking  amending  abridging  view  flushing  dress    every tool call: reviewed, run; a short past
    6   stage  host  delivery  live  media  talk  outcome  rebuilding    what a message meets; plugins; strangers
    5   loop  fallback  kit  hookspecs  bounds  guests  explain  scenario  wire  conversations  meter  spoken
    4   session  journal  prompt  provider  survey  mend  deaths  approval  overrides  report  pairing
    4   keys  logins  spending
    3   policy  route  compaction  auth  tool  event  channel  standing  record  usage  past  lifecycle  index  envelope
    3   question  chunking  pruning  shelf  cooldown  loops  caps  rates
    2   config  manifest  catalog  transcript  truncation  lane  sandbox  guard  failure  arguments  growing  dialect
    2   directives  freshness  abort  web  control  editing  patience
    1   store  clock  message  errors  words  wall  yard  seal  failpoint  finding  origin  syncing
    1   unicode

Names below are public and versioned; everything else may move. Nothing is imported until it is asked for.
"""

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is a dozen modules that ``claw --version`` does without
    from typing import Any

__version__ = "0.1.0"

_NAMES = {
    "app": "look_round",
    "arguments": "nearest",
    "auth": "Credential configured_keys",
    "builtin.chat_commands": "chat_menu",
    "channel": "Channel ChannelState Door Limits Talents Writer",
    "chunking": "split_text",
    "config.budgets": "ModelConfig",
    "config.channels": "ChannelConfig",
    "config.settings": "ProviderConfig",
    "config.values": "Secret Section",
    "config.view": "PluginConfig",
    "dialect": "gemini_schema openai_strict_schema why_not_strict",
    "editing": "EditWriter",
    "errors": "ClawError ConfigError DeliveryError FenceError PluginError ProviderError ToolError UsageError",
    "failure": "failed failure_said",
    "finding": "Finding",
    "growing": "Growing",
    "guard.command": "Step split_plain split_steps",
    "guard.environment": "child_environment",
    "guard.fetch": "Network is_loopback",
    "guests": "Review",
    "hookspecs": "hookimpl hookspec",
    "lifecycle.environment": "pip_command",
    "lifecycle.integrity": "changed_files",
    "manifest": "Manifest ProviderLine ToolLine installed_plugins parse_manifest",
    "message": "Address Around Attachment Button Heard Inbound Outbound Receipt Sender",
    "origin": "is_foreign is_origin_mark origins quoted_foreign",
    "patience": "Patience",
    "prompt": "ContextFile PromptFacts PromptSection bootstrap inbound_context",
    "provider": "Finished ModelEvent Provider Request SystemPrompt TextDelta ThinkingDelta ToolSpec VendorClients",
    "rates": "ModelFigures model_figures",
    "sandbox": "Sandbox",
    "store": "make_folder replace_file",
    "talk": "Talk",
    "tool": "Tool ToolContext ToolResult tool",
    "transcript": "Assistant Image Message Text Thinking ToolCall Usage User",
    "truncation": "result_limit",
    "usage": "Price usage_of",
    "web": "WebAnswer WebRequest WebRoute",
    "wire": "CallIds JsonRows STREAM_DONE base_url converse mint_call_id tool_arguments",
    "words": "say",
}
_ROOMS = {name: room for room, names in _NAMES.items() for name in names.split()}
_RENAMED = {
    "usage_of": "normalise", "ToolResult": "Result", "failure_said": "said", "STREAM_DONE": "DONE",
    "is_origin_mark": "is_mark", "parse_manifest": "parse", "gemini_schema": "gemini",
    "openai_strict_schema": "openai_strict", "model_figures": "figures_of",
    "installed_plugins": "scan", "replace_file": "replace",
}  # fmt: skip

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
