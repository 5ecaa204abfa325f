"""Discord channel for claw: gateway in, REST out, both through discord.py, which is imported at channel start."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from claw import hookimpl
from claw_http_sdk import unpooled

if TYPE_CHECKING:
    from claw import Channel, PluginConfig, Secret


@hookimpl
def register_channels(config: "PluginConfig") -> "Iterator[Channel]":
    """Yield one channel for each account under ``channels.discord``."""
    from claw_channel_sdk import read_accounts

    from claw_discord.channel import DiscordChannel
    from claw_discord.settings import DiscordSettings, refuse_no_address, refuse_two_places, token_of

    tokens: dict[str, Secret] = {}

    def ready(name: str, settings: DiscordSettings) -> None:
        refuse_no_address(settings)
        tokens[name] = token_of(name, settings, config.environ, tokens)

    accounts = read_accounts(config, "discord", DiscordSettings, "token", ready=ready)
    refuse_two_places(accounts.ready.values())
    for name, settings in accounts.ready.items():
        notes = config.state_dir / f"seen-{quote(name, safe='')}.json"
        yield DiscordChannel(
            name, settings, tokens[name], http=unpooled(config.http), notes=notes, chat_menu=config.chat_menu
        )
    yield from accounts.failed
