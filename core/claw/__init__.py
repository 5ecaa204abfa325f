"""claw: a plugin host for chat agents.

The layers; a module imports only from its own layer and the layers above it in this list
(``tests/core/test_import_rules.py``):

    i18n         texts for people, in English and Chinese
    contracts    types that plugins and core exchange: messages, transcript, tools, providers, events, errors
    storage      durable files, SQLite, session transcripts, the clock
    config       the config file: read, checked, shown to each plugin
    security     admission, workspace files, redaction, child processes, untrusted text, the HTTP client
    policy       nine layers that decide which tool may be used, and why
    host         plugins: found, loaded, isolated, verified; the hook specifications
    agent        the turn: its context, loop, tool gate, session queue, routing
    app          the composition root; core's own plugin (terminal) and the fakes for tests (testing)
    cli          the command line

Names below are public and versioned; everything else may move. Nothing is imported before it is asked for.
"""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is a dozen modules that ``claw --version`` does without
    from collections.abc import Callable
    from typing import Any

__version__ = "0.1.0"

_NAMES = {
    "claw.config.channels": "ChannelConfig",
    "claw.config.models": "ModelConfig ProviderConfig",
    "claw.config.plugin_view": "PluginConfig",
    "claw.config.values": "Secret Section is_loopback",
    "claw.contracts.channel": ("Channel ChannelLimits ChannelState ChatApi ChatCommand Inbox StreamingReply"),
    "claw.contracts.diagnostics": "Diagnostic DiagnosticContext Finding",
    "claw.contracts.errors": (
        "BudgetError ClawError ConfigError DeliveryError FenceError PluginError ProviderError "
        "ToolError UsageError nearest"
    ),
    "claw.contracts.events": (
        "AttemptFailed Event MessageRecorded Notice Retrying RunEnded StepEnded StepStarted "
        "TextStreamed ThinkingStreamed ToolBegan ToolEnded ToolProgress TurnEnded TurnStarted"
    ),
    "claw.contracts.extensions": (
        "Approver CallContext ChatApprover ContextEngine MessageFilter ModelOptions ModelSelector "
        "Observer ProviderMiddleware Review Reviewer Service SessionStore SideTurn ToolTraits "
        "TurnLog TurnView"
    ),
    "claw.contracts.messages": (
        "AcceptedEvent Address ApprovalRequest Attachment Button Decision Inbound MessageContext "
        "Outbound PendingApproval QuotedMessage Receipt Sender"
    ),
    "claw.contracts.prompt": "ContextFile PromptFacts PromptSection",
    "claw.contracts.provider": (
        "CallAccount Credential Finished ModelCall ModelEvent ModelRef Provider Request SystemPrompt "
        "TextDelta ThinkingDelta ToolSpec bill_to current_account tool_mode_of with_purpose"
    ),
    "claw.contracts.text": "result_limit",
    "claw.contracts.tool": "Sandbox Tool ToolContext ToolResult tool",
    "claw.contracts.tool_schema": "check_arguments",
    "claw.contracts.transcript": (
        "UNREADABLE_CALL Assistant Image Message Text Thinking ToolCall ToolResultMessage Usage User"
    ),
    "claw.host.hookspecs": "hookimpl hookspec",
    "claw.i18n": "add_translations t",
    "claw.security.child_env": "child_environment",
    "claw.security.http_client": "HttpClients",
    "claw.security.untrusted_text": "inbound_context neutralise",
}


def lazy_names(
    package: str, names: dict[str, str]
) -> "tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]":
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package whose names are imported on their first use.

    :param names: module → its public names, separated by blanks.
    """
    modules = {name: module for module, words in names.items() for name in words.split()}

    def get(name: str) -> "Any":
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        vars(sys.modules[package])[name] = value
        return value

    return sorted(modules), get, lambda: [*vars(sys.modules[package]), *modules]


__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
