"""Feishu and Lark channel for claw: long connection or webhook in; text, posts and streaming cards out.

The channel uses no vendor SDK: see ``tenant.py`` (requests), ``longconn.py`` (socket), ``crypto.py`` (webhook).
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from claw import hookimpl
from claw_http_sdk import pooled

if TYPE_CHECKING:
    from claw import Channel, PluginConfig, Tool
    from claw_channel_sdk import Accounts, WebRoute

    from claw_feishu.settings import FeishuSettings

_CREDENTIALS = ("appId", "appSecret")


@hookimpl
def register_channels(config: "PluginConfig") -> "Iterator[Channel]":
    """Yield one channel for each account."""
    from claw_feishu.channel import FeishuChannel

    accounts = _accounts(config)
    for account, settings in accounts.ready.items():
        channel = FeishuChannel(settings, partial(pooled(config.http), settings.base_url), account)
        config.shared[account] = channel
        yield channel
    yield from accounts.failed


@hookimpl(optionalhook=True)
def register_routes(config: "PluginConfig") -> "Iterator[WebRoute]":
    """Yield the webhook route of each account in webhook mode."""
    for channel in config.shared.values():
        if channel.settings.mode == "webhook":
            yield channel.webhook()


@hookimpl
def register_tools(config: "PluginConfig") -> "tuple[Tool, ...]":
    """Return the tools for documents, sheets, tables, wikis and calendars; owner-only and optional."""
    from claw_feishu.tools import office_tools

    return office_tools(lambda: config.shared)


def _accounts(config: "PluginConfig") -> "Accounts[FeishuSettings]":
    """Return the accounts, those ready to start and the others."""
    from claw_channel_sdk import read_accounts

    from claw_feishu.settings import FeishuSettings, check, check_apart

    apps: dict[tuple[str, str], str] = {}

    def ready(account: str, settings: FeishuSettings) -> None:
        check(account, settings)
        check_apart(account, settings, apps)

    return read_accounts(config, "feishu", FeishuSettings, *_CREDENTIALS, ready=ready)
