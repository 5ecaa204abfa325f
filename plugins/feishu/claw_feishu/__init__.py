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
    from claw_feishu.settings import FeishuSettings

_open: "WeakValueDictionary[tuple[str, str], FeishuChannel]" = WeakValueDictionary()
"""Channels by (our folder, account): what makes them and what serves their webhooks is asked apart."""
_CREDENTIALS = ("appId", "appSecret")


@hookimpl
def register_channels(config: "PluginConfig") -> "Iterator[FeishuChannel]":
    """One channel for each account."""
    from claw_feishu.channel import FeishuChannel

    for account, settings in _accounts(config).items():
        channel = FeishuChannel(settings, partial(config.http, settings.base_url), account)
        _open[str(config.state_dir), account] = channel
        yield channel


@hookimpl(optionalhook=True)
def register_routes(config: "PluginConfig") -> "Iterator[WebRoute]":
    """The webhook of each account that has one."""
    for account in _accounts(config):
        channel = _open.get((str(config.state_dir), account))
        if channel is not None and channel.settings.mode == "webhook":
            yield channel.webhook()


@hookimpl
def register_tools(config: "PluginConfig") -> "tuple[Tool, ...]":
    """Documents, sheets, tables, wikis, calendars; for owners, and optional."""
    from claw_feishu.tools import office_tools

    def accounts() -> "dict[str, FeishuChannel]":
        found = {account: _open.get((str(config.state_dir), account)) for account in _accounts(config)}
        return {account: channel for account, channel in found.items() if channel is not None}

    return office_tools(accounts)


def _accounts(config: "PluginConfig") -> "dict[str, FeishuSettings]":
    """The accounts that may start."""
    from claw_feishu.settings import FeishuSettings, check, check_apart

    apps: dict[tuple[str, str], str] = {}

    def ready(account: str, settings: FeishuSettings) -> None:
        check(account, settings)
        check_apart(account, settings, apps)

    return config.accounts("feishu", FeishuSettings, *_CREDENTIALS, ready=ready)
