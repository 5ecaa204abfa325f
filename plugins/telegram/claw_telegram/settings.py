"""``channels.telegram`` in the config file, and the accounts of it that are ready to start."""

from dataclasses import dataclass
from typing import Literal

from claw import ChannelConfig, ConfigError, PluginConfig, Secret
from claw_channel_sdk import UnavailableChannel, read_accounts
from pydantic import Field

API_BASE = "https://api.telegram.org"
_WEBHOOK_SECRET_FIX = "Write 1 to 256 letters, digits, _ and -, long and random, or choose mode: polling"


class TelegramSettings(ChannelConfig):
    """``channels.telegram``."""

    bot_token: Secret | None = Field(None, description="From @BotFather; better as ${TELEGRAM_BOT_TOKEN}.")
    api_base: str = Field(API_BASE, description="Another Bot API server, such as one of your own.")
    mode: Literal["polling", "webhook"] = Field(
        "polling", description="polling asks Telegram; with webhook Telegram calls the gateway."
    )
    webhook_url: str | None = Field(
        None,
        description="Public https address that Telegram shall call; absent = you set the webhook yourself.",
    )
    webhook_secret: Secret | None = Field(
        None, description="What Telegram sends along to prove itself; webhook mode needs it."
    )
    webhook_path: str | None = Field(
        None,
        pattern=r"^/\S*$",
        examples=["/webhook/telegram/support"],
        description="Where the gateway listens; absent = /webhook/telegram/ACCOUNT.",
    )
    poll_seconds: int = Field(
        25, ge=0, le=50, description="How long Telegram may hold one question for news."
    )
    commands: bool = Field(True, description="Show the chat commands in Telegram's menu.")
    drafts: bool = Field(
        False, description="In a direct chat, show an answer that grows as a draft instead of by edits."
    )
    link_preview: bool = Field(True, description="Let Telegram show a preview of the first link.")


@dataclass(frozen=True, slots=True)
class Account:
    """One bot account that is ready to start.

    :param key: config key of its settings, for errors.
    :param secret: of the webhook; empty in polling mode.
    """

    name: str
    key: str
    settings: TelegramSettings
    token: str
    secret: str = ""

    @property
    def uses_webhook(self) -> bool:
        """True in webhook mode, false in polling mode."""
        return self.settings.mode == "webhook"

    @property
    def path(self) -> str:
        """Path of the gateway's webhook route."""
        return self.settings.webhook_path or f"/webhook/telegram/{self.name}"


def accounts(config: PluginConfig) -> tuple[list[Account], tuple[UnavailableChannel, ...]]:
    """Return every account that is ready to start, and a channel for each that is not; none when the channel is absent.

    :raises ConfigError: a key is wrong, or every account lacks a token or, in webhook mode, no secret.
    """
    count = len(read_accounts(config, "telegram", TelegramSettings, "botToken").ready)
    found: list[Account] = []

    def ready(name: str, section: TelegramSettings) -> None:
        account = _account(name, section, config, count)
        bot = section.api_base, account.token
        if same := next((other for other in found if (other.settings.api_base, other.token) == bot), None):
            problem = "is also the token of {other}; a bot can serve only one account"
            fix = "Create another bot with @BotFather, or remove one of the two"
            raise ConfigError(f"{account.key}.botToken", problem, fix, other=f"{same.key}.botToken")
        if account.uses_webhook and (
            same_path := next((one for one in found if one.uses_webhook and one.path == account.path), None)
        ):
            problem = "{path} is also the path of {other}; each bot needs its own"
            fix = "Write another one, or remove it: the default is made from the account's name"
            raise ConfigError(
                f"{account.key}.webhookPath", problem, fix, path=account.path, other=same_path.key
            )
        found.append(account)

    return found, read_accounts(config, "telegram", TelegramSettings, "botToken", ready=ready).failed


def _account(name: str, section: TelegramSettings, config: PluginConfig, count: int) -> Account:
    key = "channels.telegram" if name == "default" else f"channels.telegram.accounts.{name}"
    token = _secret_text(section.bot_token, f"{key}.botToken")
    if not token and section.bot_token is None and count == 1:
        token = config.environ.get("TELEGRAM_BOT_TOKEN", "").strip()
    if not token:
        fix = "Create a bot with @BotFather (/newbot), then: claw config set {name}.botToken TOKEN"
        raise ConfigError(f"{key}.botToken", "the bot has no token, so it does not start", fix, name=key)
    secret = ""
    if section.mode == "webhook":
        secret = _secret_text(section.webhook_secret, f"{key}.webhookSecret")
        if not secret:
            problem = "webhook mode needs a secret, otherwise anyone could post: the channel does not start"
            raise ConfigError(f"{key}.webhookSecret", problem, _WEBHOOK_SECRET_FIX)
        if len(secret) > 256 or not all(
            char.isascii() and (char.isalnum() or char in "_-") for char in secret
        ):
            problem = "Telegram does not accept this webhook secret"
            raise ConfigError(f"{key}.webhookSecret", problem, _WEBHOOK_SECRET_FIX)
    return Account(name, key, section, token, secret)


def _secret_text(secret: Secret | None, key: str) -> str:
    """Return the text of a secret; empty when it is not set.

    :raises ConfigError: its file cannot be read or its variable is not set.
    """
    if secret is None or secret.empty:
        return ""
    try:
        return secret.reveal().strip()
    except ConfigError as why:
        raise why.under(key) from None
