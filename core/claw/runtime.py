"""Names for authors of services, middleware, model selectors, context engines and commands.

The second public tier beside ``claw``: what a plugin needs that works on a running claw and its state. Nothing is
imported before it is asked for.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = {
    "claw.agent.chat_commands": "ChatConversation ChatCommands parse_choice run_chat_command",  # chats: their commands
    "claw.agent.credentials": "missing_key_error unknown_key_error",  # selectors: the errors about keys
    "claw.agent.models": "candidates checked_answer missing_provider_error",  # selectors: order and check of answers
    "claw.agent.routing": (  # commands that judge a run before it happens
        "PolicyContext Scenario judge_scenario model_of sender_of"
    ),
    "claw.app": "App Setup",  # commands: a claw with its plugins, and the file before plugins are loaded
    "claw.cli.config": "file_of",  # commands that change the config file
    "claw.cli.output": "document on_terminal table",  # commands: one JSON document, a table, a person who looks
    "claw.cli.plugin_commands": "AsJson",  # commands: the option --json
    "claw.config.editor": "set_value",  # commands that change the config file
    "claw.config.paths": "nearest",  # commands: "did you mean"
    "claw.contracts.channel": "Conversation FunctionCommand",  # chat commands
    "claw.contracts.errors": "BusyError",  # who takes a lock
    "claw.contracts.prompt": "size_of",  # chat commands: tokens of a text, estimated
    "claw.contracts.provider": "AnswerBroken KnownModels",  # selectors: an answer that starts anew; chat commands: models
    "claw.contracts.transcript": "sendable",  # selectors: a history that services accept
    "claw.host.calls": "describe_cost",  # chat commands: the cost of a conversation, from middleware
    "claw.host.discovery": "home_of open_state",  # commands: the home, state.db for reading
    "claw.host.isolation": "ReusableTimeout within",  # limits of time for the code of others
    "claw.host.manifest": "providers_of variables_of",  # commands: what manifests declare
    "claw.storage.clock": "Clock DailyTask local_time parse_duration",  # the time, which a test replaces
    "claw.storage.database": "Database",  # tables in state.db
    "claw.storage.files": "Lock archive_results cannot_write delete_older delete_results results_folder safe_file_name",
}
"""Each module, its public names, and who needs them."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> "Any":
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'claw.runtime' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
