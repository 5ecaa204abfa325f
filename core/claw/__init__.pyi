"""For type checkers: the public names of claw, as ``__init__`` finds them (held to it by tests/core/test_public.py)."""

from claw.app import look_round as look_round
from claw.arguments import nearest as nearest
from claw.auth import Credential as Credential, configured_keys as configured_keys
from claw.builtin.chat_commands import chat_menu as chat_menu
from claw.channel import (
    Channel as Channel,
    ChannelState as ChannelState,
    Door as Door,
    Limits as Limits,
    Talents as Talents,
    Writer as Writer,
)
from claw.chunking import split_text as split_text
from claw.config.budgets import ModelConfig as ModelConfig
from claw.config.channels import ChannelConfig as ChannelConfig
from claw.config.settings import ProviderConfig as ProviderConfig
from claw.config.values import Secret as Secret, Section as Section
from claw.config.view import PluginConfig as PluginConfig
from claw.dialect import (
    gemini as gemini_schema,
    openai_strict as openai_strict_schema,
    why_not_strict as why_not_strict,
)
from claw.editing import EditWriter as EditWriter
from claw.errors import (
    ClawError as ClawError,
    ConfigError as ConfigError,
    DeliveryError as DeliveryError,
    FenceError as FenceError,
    PluginError as PluginError,
    ProviderError as ProviderError,
    ToolError as ToolError,
    UsageError as UsageError,
)
from claw.failure import failed as failed, said as failure_said
from claw.finding import Finding as Finding
from claw.growing import Growing as Growing
from claw.guard.command import Step as Step, split_plain as split_plain, split_steps as split_steps
from claw.guard.environment import child_environment as child_environment
from claw.guard.fetch import Network as Network, is_loopback as is_loopback
from claw.guests import Review as Review
from claw.hookspecs import hookimpl as hookimpl, hookspec as hookspec
from claw.lifecycle.environment import pip_command as pip_command
from claw.lifecycle.integrity import changed_files as changed_files
from claw.manifest import (
    Manifest as Manifest,
    ProviderLine as ProviderLine,
    ToolLine as ToolLine,
    parse as parse_manifest,
    scan as installed_plugins,
)
from claw.message import (
    Address as Address,
    Around as Around,
    Attachment as Attachment,
    Button as Button,
    Heard as Heard,
    Inbound as Inbound,
    Outbound as Outbound,
    Receipt as Receipt,
    Sender as Sender,
)
from claw.origin import (
    is_foreign as is_foreign,
    is_mark as is_origin_mark,
    origins as origins,
    quoted_foreign as quoted_foreign,
)
from claw.patience import Patience as Patience
from claw.prompt import (
    ContextFile as ContextFile,
    PromptFacts as PromptFacts,
    PromptSection as PromptSection,
    bootstrap as bootstrap,
    inbound_context as inbound_context,
)
from claw.provider import (
    Finished as Finished,
    ModelEvent as ModelEvent,
    Provider as Provider,
    Request as Request,
    SystemPrompt as SystemPrompt,
    TextDelta as TextDelta,
    ThinkingDelta as ThinkingDelta,
    ToolSpec as ToolSpec,
    VendorClients as VendorClients,
)
from claw.rates import ModelFigures as ModelFigures, figures_of as model_figures
from claw.sandbox import Sandbox as Sandbox
from claw.store import make_folder as make_folder, replace as replace_file
from claw.talk import Talk as Talk
from claw.tool import Result as ToolResult, Tool as Tool, ToolContext as ToolContext, tool as tool
from claw.transcript import (
    Assistant as Assistant,
    Image as Image,
    Message as Message,
    Text as Text,
    Thinking as Thinking,
    ToolCall as ToolCall,
    Usage as Usage,
    User as User,
)
from claw.truncation import result_limit as result_limit
from claw.usage import Price as Price, normalise as usage_of
from claw.web import WebAnswer as WebAnswer, WebRequest as WebRequest, WebRoute as WebRoute
from claw.wire import (
    DONE as STREAM_DONE,
    CallIds as CallIds,
    JsonRows as JsonRows,
    base_url as base_url,
    converse as converse,
    mint_call_id as mint_call_id,
    tool_arguments as tool_arguments,
)
from claw.words import say as say

__version__: str
__all__: list[str]
