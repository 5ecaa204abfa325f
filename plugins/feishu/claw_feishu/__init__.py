"""Feishu and Lark for claw: a long connection or a webhook in; text, posts and streaming cards out.

No vendor's SDK: see ``tenant.py`` (requests), ``longconn.py`` (socket), ``crypto.py`` (webhook).
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, Tool, WebRoute

    from claw_feishu.channel import FeishuChannel

_open: "WeakValueDictionary[tuple[str, str], FeishuChannel]" = WeakValueDictionary()
"""Channels by (our folder, account): what makes them and what serves their webhooks is asked apart."""
_CREDENTIALS = ("appId", "appSecret")


@hookimpl
def register_channels(config: "PluginConfig") -> "Iterator[FeishuChannel]":
    """One channel for each account."""
    from claw_feishu.channel import FeishuChannel
    from claw_feishu.settings import FeishuSettings, check

    for account, settings in config.accounts("feishu", FeishuSettings, *_CREDENTIALS).items():
        check(settings, "channels.feishu" if account == "default" else f"channels.feishu.accounts.{account}")
        channel = FeishuChannel(settings, partial(config.http, settings.base_url), account)
        _open[str(config.state_dir), account] = channel
        yield channel


@hookimpl(optionalhook=True)
def register_routes(config: "PluginConfig") -> "Iterator[WebRoute]":
    """The webhook of each account that has one."""
    from claw_feishu.settings import FeishuSettings

    for account in config.accounts("feishu", FeishuSettings, *_CREDENTIALS):
        channel = _open.get((str(config.state_dir), account))
        if channel is not None and channel.settings.mode == "webhook":
            yield channel.webhook()


@hookimpl
def register_tools(config: "PluginConfig") -> "tuple[Tool, ...]":
    """Documents, sheets, tables, wikis, calendars; for owners, and optional."""
    from claw_feishu.settings import FeishuSettings
    from claw_feishu.tools import office_tools

    def accounts() -> "dict[str, FeishuChannel]":
        named = config.accounts("feishu", FeishuSettings, *_CREDENTIALS)
        found = {account: _open.get((str(config.state_dir), account)) for account in named}
        return {account: channel for account, channel in found.items() if channel is not None}

    return office_tools(accounts)
