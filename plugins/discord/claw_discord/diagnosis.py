"""Diagnosis of a bot account by Discord's REST API: the token, and the granted intents.

Flags from https://discord.com/developers/docs/resources/application#application-object-application-flags.
"""

from typing import TYPE_CHECKING, Any

from claw import DeliveryError, Finding, t

if TYPE_CHECKING:
    import httpx2

    from claw_discord.settings import DiscordSettings

CONTENT_FLAGS = 1 << 18 | 1 << 19
"""Flags for access to message texts, granted to a large bot after review, or to a small one by a switch."""


async def diagnose(
    settings: "DiscordSettings", key: str, token: str, http: "httpx2.AsyncClient"
) -> list[Finding]:
    """Check ``users/@me`` and ``applications/@me``; no gateway connection is made.

    :param key: config key of the token.
    """
    import httpx2

    base, known = settings.api_base.rstrip("/"), {"Authorization": f"Bot {token}"}
    try:
        me = await http.get(f"{base}/users/@me", headers=known)
        application = await http.get(f"{base}/applications/@me", headers=known)
    except httpx2.HTTPError as why:
        problem = t("Discord cannot be reached ({why})", why=type(why).__name__)
        return [Finding("", "unreachable", problem, t("try again in a while"))]
    if me.status_code == 401:
        fix = t("copy the token from the developer portal, page Bot")
        return [Finding(key, "credentials", t("Discord does not know a bot with this token"), fix)]
    if me.is_error or application.is_error:
        status = max(me.status_code, application.status_code)
        return [Finding("", "refused", t("Discord answered with HTTP {status}", status=status))]
    return _of_flags(settings, application.json())


async def bot_name(settings: "DiscordSettings", token: str, http: "httpx2.AsyncClient") -> str:
    """Return the bot's name.

    :raises DeliveryError: Discord does not answer with it.
    """
    known = {"Authorization": f"Bot {token}"}
    me = await http.get(f"{settings.api_base.rstrip('/')}/users/@me", headers=known)
    if me.is_error:
        raise DeliveryError("Discord answered with HTTP {status}", status=me.status_code)
    return str(me.json().get("username", ""))


def _of_flags(settings: "DiscordSettings", application: Any) -> list[Finding]:
    flags = int(application.get("flags") or 0)
    if not settings.message_content or flags & CONTENT_FLAGS:
        return []
    problem = t("the text of messages that do not mention the bot will not come: the intent is not granted")
    page = f"https://discord.com/developers/applications/{application.get('id')}/bot"
    fix = t("enable Message Content Intent at {page}, or set messageContent: false", page=page)
    return [Finding("", "intent", problem, fix)]
