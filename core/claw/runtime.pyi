"""For type checkers: the public names of claw.runtime, as ``runtime`` finds them (tests/core/test_public.py)."""

from claw.agent.chat_commands import (
    ChatCommands as ChatCommands,
    ChatConversation as ChatConversation,
    parse_choice as parse_choice,
    run_chat_command as run_chat_command,
)
from claw.agent.credentials import (
    missing_key_error as missing_key_error,
    unknown_key_error as unknown_key_error,
)
from claw.agent.models import (
    candidates as candidates,
    checked_answer as checked_answer,
    missing_provider_error as missing_provider_error,
)
from claw.agent.routing import (
    PolicyContext as PolicyContext,
    Scenario as Scenario,
    judge_scenario as judge_scenario,
    model_of as model_of,
    sender_of as sender_of,
)
from claw.app import App as App, Setup as Setup
from claw.cli.config import file_of as file_of
from claw.cli.output import document as document, on_terminal as on_terminal, table as table
from claw.cli.plugin_commands import AsJson as AsJson
from claw.config.editor import set_value as set_value
from claw.config.paths import nearest as nearest
from claw.contracts.channel import Conversation as Conversation, FunctionCommand as FunctionCommand
from claw.contracts.errors import BusyError as BusyError
from claw.contracts.prompt import size_of as size_of
from claw.contracts.provider import AnswerBroken as AnswerBroken, KnownModels as KnownModels
from claw.contracts.transcript import sendable as sendable
from claw.host.calls import describe_cost as describe_cost
from claw.host.discovery import home_of as home_of, open_state as open_state
from claw.host.isolation import ReusableTimeout as ReusableTimeout, within as within
from claw.host.manifest import providers_of as providers_of, variables_of as variables_of
from claw.storage.clock import (
    Clock as Clock,
    DailyTask as DailyTask,
    local_time as local_time,
    parse_duration as parse_duration,
)
from claw.storage.database import Database as Database
from claw.storage.files import (
    Lock as Lock,
    archive_results as archive_results,
    cannot_write as cannot_write,
    delete_older as delete_older,
    delete_results as delete_results,
    results_folder as results_folder,
    safe_file_name as safe_file_name,
)
