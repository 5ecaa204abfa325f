"""Telegram channel for claw: long polling or webhook in, messages edited in place while an answer streams."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from claw import hookimpl
from claw_http_sdk import pooled

if TYPE_CHECKING:
    from claw import Channel, Diagnostic, PluginConfig
    from claw_channel_sdk import WebRoute


@hookimpl
def register_channels(config: "PluginConfig") -> "Iterator[Channel]":
    """Yield a channel for each configured account."""
    from claw_telegram.channel import TelegramChannel
    from claw_telegram.settings import accounts
    from claw_telegram.webhook import receiver_of

    ready, failed = accounts(config)
    for account in ready:
        receiver = receiver_of(account, config) if account.uses_webhook else None
        yield TelegramChannel(account, pooled(config.http), receiver=receiver, chat_menu=config.chat_menu)
    yield from failed


@hookimpl(optionalhook=True)
def register_routes(config: "PluginConfig") -> "Iterator[WebRoute]":
    """Yield the webhook route of each account in webhook mode, for the gateway's HTTP listener."""
    from claw_telegram.settings import accounts
    from claw_telegram.webhook import receiver_of

    for account in accounts(config)[0]:
        if account.uses_webhook:
            yield receiver_of(account, config).route


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "list[Diagnostic]":
    """Contribute the check of the tokens in the config file."""
    from claw_telegram.diagnosis import TokenDiagnostic

    return [TokenDiagnostic(config)]
