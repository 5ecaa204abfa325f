"""Diagnosis of a bot account: the form of its token; by asking Telegram, token, privacy mode and webhook."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from claw import ConfigError, DeliveryError, DiagnosticContext, Finding, PluginConfig, t

from claw_telegram.api import TelegramError
from claw_telegram.inbound import bot_of

if TYPE_CHECKING:
    from claw_telegram.api import BotApi
    from claw_telegram.settings import Account

_NO_SUCH_TOKEN = (401, 404)


class TokenDiagnostic:
    """The diagnostic of this plugin: it judges the file alone."""

    name = "telegram"

    def __init__(self, config: PluginConfig) -> None:
        self._config = config

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Return nothing: :func:`diagnose` asks the service."""
        return ()

    def check_config(self, setup: Any) -> Iterator[Finding]:
        """Find tokens without the colon of a token; see https://core.telegram.org/bots/api#authorizing-your-bot."""
        from claw_telegram.settings import accounts

        try:
            ready, _ = accounts(self._config)
        except ConfigError:  # the channel fails, with this error
            return
        for one in ready:
            if ":" not in one.token:
                why = t("this is no token of a bot: one is digits, a colon and 35 characters")
                fix = t("copy the token that @BotFather shows")
                yield Finding(f"{one.key}.botToken", "credentials", why, fix)


async def diagnose(account: "Account", api: "BotApi") -> list[Finding]:
    """Check the bot by ``getMe`` and ``getWebhookInfo``; change nothing."""
    try:
        bot = bot_of(await api.call("getMe"), account.name)
        webhook = await api.call("getWebhookInfo")
    except TelegramError as why:
        if why.status in _NO_SUCH_TOKEN and not why.is_page:
            problem, fix = (
                t("Telegram knows no bot with this token"),
                t("copy the token that @BotFather shows"),
            )
            return [Finding(f"{account.key}.botToken", "credentials", problem, fix)]
        return [Finding("", "refused", why.problem)]
    except DeliveryError as why:
        return [Finding("", "unreachable", why.problem, t("check the network and channels.telegram.apiBase"))]
    found = []
    open_groups = [id for id, group in account.settings.groups.items() if not group.require_mention]
    if open_groups and not bot.hears_all:
        problem = t(
            "privacy mode is on: in the groups {ids} the bot receives only commands, mentions and replies",
            ids=[*open_groups],
        )
        fix = t("turn it off with @BotFather (/setprivacy), then add the bot to the group again")
        found.append(Finding("", "privacy", problem, fix))
    return found + _check_webhook(
        account, str(webhook.get("url") or ""), str(webhook.get("last_error_message") or "")
    )


def _check_webhook(account: "Account", url: str, error: str) -> list[Finding]:
    wanted = account.settings.webhook_url or ""
    if account.settings.mode == "polling":
        problem = t("a webhook is set ({url}); polling removes it", url=url)
        return [Finding("", "webhook", problem, grave=False)] if url else []
    if error:
        fix = t("check that {url} reaches the gateway at {path}", url=url, path=account.path)
        return [Finding("", "webhook", t("Telegram could not deliver: {error}", error=error), fix)]
    if not url and not wanted:
        fix = t("write the public address into {key}, or set it yourself", key=f"{account.key}.webhookUrl")
        return [Finding("", "webhook", t("no webhook is set, so no message arrives"), fix)]
    if wanted and url != wanted:
        problem = t("another webhook is set ({url}); the next start replaces it", url=url or "-")
        return [Finding("", "webhook", problem, grave=False)]
    return []
