"""The public names of claw and their modules, one name a line: for type checkers, and for ``__init__.py``."""

from collections.abc import Callable
from typing import Any

from claw.config.channels import (
    ChannelConfig as ChannelConfig,
)
from claw.config.models import (
    ModelConfig as ModelConfig,
    ProviderConfig as ProviderConfig,
)
from claw.config.plugin_view import (
    PluginConfig as PluginConfig,
)
from claw.config.values import (
    Secret as Secret,
    Section as Section,
    is_loopback as is_loopback,
)
from claw.contracts.channel import (
    Channel as Channel,
    ChannelLimits as ChannelLimits,
    ChannelState as ChannelState,
    ChatCommand as ChatCommand,
    Inbox as Inbox,
)
from claw.contracts.diagnostics import (
    Diagnostic as Diagnostic,
    DiagnosticContext as DiagnosticContext,
    Finding as Finding,
)
from claw.contracts.errors import (
    BudgetError as BudgetError,
    ClawError as ClawError,
    ConfigError as ConfigError,
    DeliveryError as DeliveryError,
    FenceError as FenceError,
    PluginError as PluginError,
    ProviderError as ProviderError,
    ToolError as ToolError,
    UsageError as UsageError,
    nearest as nearest,
)
from claw.contracts.events import (
    AttemptFailed as AttemptFailed,
    Event as Event,
    MessageRecorded as MessageRecorded,
    Notice as Notice,
    Retrying as Retrying,
    RunEnded as RunEnded,
    StepEnded as StepEnded,
    StepStarted as StepStarted,
    TextStreamed as TextStreamed,
    ThinkingStreamed as ThinkingStreamed,
    ToolBegan as ToolBegan,
    ToolEnded as ToolEnded,
    ToolProgress as ToolProgress,
    TurnEnded as TurnEnded,
    TurnStarted as TurnStarted,
)
from claw.contracts.extensions import (
    Approver as Approver,
    CallContext as CallContext,
    ContextEngine as ContextEngine,
    Describer as Describer,
    MessageFilter as MessageFilter,
    ModelOptions as ModelOptions,
    ModelSelector as ModelSelector,
    Observer as Observer,
    ProviderMiddleware as ProviderMiddleware,
    Review as Review,
    Reviewer as Reviewer,
    Service as Service,
    SessionStore as SessionStore,
    SideTurn as SideTurn,
    ToolTraits as ToolTraits,
    TurnLog as TurnLog,
    TurnView as TurnView,
)
from claw.contracts.messages import (
    AcceptedEvent as AcceptedEvent,
    Address as Address,
    ApprovalRequest as ApprovalRequest,
    Attachment as Attachment,
    Button as Button,
    Decision as Decision,
    Inbound as Inbound,
    MessageContext as MessageContext,
    Outbound as Outbound,
    QuotedMessage as QuotedMessage,
    Receipt as Receipt,
    Sender as Sender,
)
from claw.contracts.prompt import (
    ContextFile as ContextFile,
    PromptFacts as PromptFacts,
    PromptSection as PromptSection,
)
from claw.contracts.provider import (
    CallAccount as CallAccount,
    Credential as Credential,
    Finished as Finished,
    ModelCall as ModelCall,
    ModelEvent as ModelEvent,
    ModelRef as ModelRef,
    Provider as Provider,
    Request as Request,
    SystemPrompt as SystemPrompt,
    TextDelta as TextDelta,
    ThinkingDelta as ThinkingDelta,
    ToolSpec as ToolSpec,
    bill_to as bill_to,
    current_account as current_account,
    tool_mode_of as tool_mode_of,
)
from claw.contracts.text import (
    result_limit as result_limit,
)
from claw.contracts.tool import (
    Sandbox as Sandbox,
    Tool as Tool,
    ToolContext as ToolContext,
    ToolResult as ToolResult,
    tool as tool,
)
from claw.contracts.tool_schema import (
    check_arguments as check_arguments,
)
from claw.contracts.transcript import (
    UNREADABLE_CALL as UNREADABLE_CALL,
    Assistant as Assistant,
    Image as Image,
    Message as Message,
    Text as Text,
    Thinking as Thinking,
    ToolCall as ToolCall,
    ToolResultMessage as ToolResultMessage,
    Usage as Usage,
    User as User,
)
from claw.host.hookspecs import (
    hookimpl as hookimpl,
    hookspec as hookspec,
)
from claw.i18n import (
    add_translations as add_translations,
    t as t,
)
from claw.security.child_env import (
    child_environment as child_environment,
)
from claw.security.http_client import (
    HttpClients as HttpClients,
)
from claw.security.untrusted_text import (
    inbound_context as inbound_context,
    neutralise as neutralise,
)

__version__: str

def lazy_names(spec: Any) -> tuple[Callable[[str], Any], Callable[[], list[str]]]: ...

__all__: list[str]
