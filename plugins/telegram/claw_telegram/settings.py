"""``channels.telegram`` in the config file, and which accounts of it may start."""

from dataclasses import dataclass
from typing import Literal

from claw import ChannelConfig, ConfigError, PluginConfig, Secret
from pydantic import Field

API_BASE = "https://api.telegram.org"
_CALLERS_PROVE_THEMSELVES = (
    "Write 1 to 256 letters, digits, _ and -, long and random, or choose mode: polling"
)


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
        None, pattern=r"^/\S*$", description="Where the gateway listens; absent = /webhook/telegram/ACCOUNT."
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
    """One bot that may start.

    :param key: where its settings stand, for errors.
    :param secret: of the webhook; empty in polling mode.
    """

    name: str
    key: str
    settings: TelegramSettings
    token: str
    secret: str = ""

    @property
    def hears(self) -> bool:
        """Whether it is called, by webhook; else it asks."""
        return self.settings.mode == "webhook"

    @property
    def path(self) -> str:
        """Where the gateway hears Telegram's calls."""
        return self.settings.webhook_path or f"/webhook/telegram/{self.name}"


def accounts(config: PluginConfig) -> list[Account]:
    """Every account that may start; none when the channel is absent or switched off.

    :raises ConfigError: a key is wrong, or each has no token or, in webhook mode, no secret.
    """
    count = len(config.accounts("telegram", TelegramSettings, "botToken"))
    found: list[Account] = []

    def ready(name: str, section: TelegramSettings) -> None:
        account = _account(name, section, config, count)
        bot = section.api_base, account.token
        if same := next((other for other in found if (other.settings.api_base, other.token) == bot), None):
            problem = "is the token of {other} too, and one bot answers to one account only"
            fix = "Ask @BotFather for a bot of its own, or take one of the two out"
            raise ConfigError(f"{account.key}.botToken", problem, fix, other=f"{same.key}.botToken")
        if account.hears and (
            beside := next((one for one in found if one.hears and one.path == account.path), None)
        ):
            problem = "{path} is the path of {other} too, and each bot is called at one of its own"
            fix = "Write another one, or none: the account's name makes one"
            raise ConfigError(f"{account.key}.webhookPath", problem, fix, path=account.path, other=beside.key)
        found.append(account)

    config.accounts("telegram", TelegramSettings, "botToken", ready=ready)
    return found


def _account(name: str, section: TelegramSettings, config: PluginConfig, count: int) -> Account:
    key = "channels.telegram" if name == "default" else f"channels.telegram.accounts.{name}"
    token = _text(section.bot_token, f"{key}.botToken")
    if not token and section.bot_token is None and count == 1:
        token = config.environ.get("TELEGRAM_BOT_TOKEN", "").strip()
    if not token:
        fix = "Ask @BotFather for a bot (/newbot), then: claw config set {name}.botToken TOKEN"
        raise ConfigError(f"{key}.botToken", "the bot has no token, so it does not start", fix, name=key)
    secret = ""
    if section.mode == "webhook":
        secret = _text(section.webhook_secret, f"{key}.webhookSecret")
        if not secret:
            problem = "in webhook mode without a secret anybody could post, so the channel does not start"
            raise ConfigError(f"{key}.webhookSecret", problem, _CALLERS_PROVE_THEMSELVES)
        if len(secret) > 256 or not all(
            letter.isascii() and (letter.isalnum() or letter in "_-") for letter in secret
        ):
            problem = "Telegram takes no such webhook secret"
            raise ConfigError(f"{key}.webhookSecret", problem, _CALLERS_PROVE_THEMSELVES)
    return Account(name, key, section, token, secret)


def _text(secret: Secret | None, key: str) -> str:
    """What stands behind a secret; empty when nothing does.

    :raises ConfigError: its file cannot be read or its variable is not set.
    """
    if secret is None or secret.empty:
        return ""
    try:
        return secret.reveal().strip()
    except ConfigError as why:
        raise why.under(key) from None
