"""The public names of claw_channel_sdk and their modules, one name a line: for type checkers and ``__init__.py``."""

from claw_channel_sdk.account_facts import (
    account_fact as account_fact,
)
from claw_channel_sdk.accounts import (
    Accounts as Accounts,
    UnavailableChannel as UnavailableChannel,
    read_accounts as read_accounts,
)
from claw_channel_sdk.chat_approver import (
    ChatApprover as ChatApprover,
    PendingApproval as PendingApproval,
    withdraw_requests as withdraw_requests,
)
from claw_channel_sdk.chat_commands import (
    Conversation as Conversation,
    is_long_command as is_long_command,
    run_chat_command as run_chat_command,
)
from claw_channel_sdk.edit_stream import (
    EditStream as EditStream,
    delete_surplus as delete_surplus,
)
from claw_channel_sdk.fates import (
    FateInbox as FateInbox,
    MessageFate as MessageFate,
)
from claw_channel_sdk.optional_methods import (
    OptionalChannelMethods as OptionalChannelMethods,
)
from claw_channel_sdk.routes import (
    WebAnswer as WebAnswer,
    WebRequest as WebRequest,
    WebRoute as WebRoute,
)
from claw_channel_sdk.sent_messages import (
    SentSearch as SentSearch,
)
from claw_channel_sdk.splitting import (
    BlockSplitter as BlockSplitter,
    split_text as split_text,
    text_width as text_width,
)
from claw_channel_sdk.streaming_reply import (
    StreamingReply as StreamingReply,
)

__all__: list[str]
