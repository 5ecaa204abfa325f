"""Telegram for claw: a bot that hears by long polling or webhook, and answers by messages that grow."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    from claw import Channel, PluginConfig, WebRoute


@hookimpl
def register_channels(config: "PluginConfig") -> "Iterator[Channel]":
    """A channel for each account that the file names."""
    from claw_telegram.channel import TelegramChannel
    from claw_telegram.settings import accounts
    from claw_telegram.webhook import receiver_of

    for account in accounts(config):
        receiver = receiver_of(account, config) if account.hears else None
        yield TelegramChannel(account, config.http, receiver=receiver)


@hookimpl(optionalhook=True)
def register_routes(config: "PluginConfig") -> "Iterator[WebRoute]":
    """For the gateway's listener: where Telegram calls the accounts in webhook mode."""
    from claw_telegram.settings import accounts
    from claw_telegram.webhook import receiver_of

    for account in accounts(config):
        if account.hears:
            yield receiver_of(account, config).route
