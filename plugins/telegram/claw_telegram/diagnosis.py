"""What is wrong with a bot, by asking Telegram: its token, its privacy mode, its webhook."""

from typing import TYPE_CHECKING

from claw import DeliveryError, Finding, say

from claw_telegram.api import Refused
from claw_telegram.inbound import bot_of

if TYPE_CHECKING:
    from claw_telegram.api import Api
    from claw_telegram.settings import Account

_NO_SUCH_TOKEN = (401, 404)


async def diagnose(account: "Account", api: "Api") -> list[Finding]:
    """``getMe`` and ``getWebhookInfo``; nothing is changed."""
    try:
        bot = bot_of(await api.call("getMe"), account.name)
        webhook = await api.call("getWebhookInfo")
    except Refused as why:
        if why.status in _NO_SUCH_TOKEN:
            problem, mend = (
                say("Telegram knows no bot with this token"),
                say("take the token that @BotFather shows"),
            )
            return [Finding(f"{account.key}.botToken", "credentials", problem, mend)]
        return [Finding("", "refused", why.problem)]
    except DeliveryError as why:
        return [Finding("", "unreachable", why.problem, say("try again in a while"))]
    found = []
    listens = [id for id, group in account.settings.groups.items() if not group.require_mention]
    if listens and not bot.hears_all:
        problem = say("privacy mode is on: of the groups {ids} it hears commands, mentions and replies only",
                      ids=", ".join(listens))  # fmt: skip
        mend = say("switch it off at @BotFather (/setprivacy), then add the bot to the group again")
        found.append(Finding("", "privacy", problem, mend))
    return found + _of_webhook(
        account, str(webhook.get("url") or ""), str(webhook.get("last_error_message") or "")
    )


def _of_webhook(account: "Account", url: str, error: str) -> list[Finding]:
    wanted = account.settings.webhook_url or ""
    if account.settings.mode == "polling":
        problem = say("a webhook is set ({url}); whoever polls takes it away", url=url)
        return [Finding("", "webhook", problem, grave=False)] if url else []
    if error:
        mend = say("look whether {url} reaches the gateway at {path}", url=url, path=account.path)
        return [Finding("", "webhook", say("Telegram could not deliver: {error}", error=error), mend)]
    if not url and not wanted:
        mend = say("write the public address into {key}, or set it yourself", key=f"{account.key}.webhookUrl")
        return [Finding("", "webhook", say("no webhook is set, so nothing comes in"), mend)]
    if wanted and url != wanted:
        problem = say(
            "the webhook that is set is another one ({url}); the next start sets it", url=url or "-"
        )
        return [Finding("", "webhook", problem, grave=False)]
    return []
