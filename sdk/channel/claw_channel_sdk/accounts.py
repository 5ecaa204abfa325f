"""The accounts of one channel: the settings of each that can start, and a placeholder for each that cannot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from claw import (
    ChannelLimits,
    ChannelState,
    ConfigError,
    DeliveryError,
    Finding,
    Inbox,
    Outbound,
    PluginConfig,
    Receipt,
)
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

M = TypeVar("M", bound=BaseModel)


class UnavailableChannel:
    """A channel for an account that cannot start, when other accounts of the plugin can."""

    capabilities: frozenset[str] = frozenset()
    limits = ChannelLimits()

    def __init__(self, name: str, account: str, why: ConfigError) -> None:
        self.name, self.account, self.error = name, account, why
        self.state = ChannelState("failed", str(why), last_error=str(why))

    async def run(self, inbox: Inbox) -> None:
        """Raise the reason."""
        raise self.error

    async def send(self, outbound: Outbound) -> Receipt:
        """Fail with the reason, as nothing is sent before a person fixes it."""
        raise DeliveryError("{why}", why=self.error)

    async def diagnose(self) -> Sequence[Finding]:
        """Return the reason as a finding."""
        return [Finding(self.error.where, "config", self.error.problem, self.error.fix)]


@dataclass(frozen=True)
class Accounts(Generic[M]):
    """The accounts of one channel.

    :param ready: account → its settings, of each that can start.
    :param failed: a channel in the place of each that cannot; the plugin registers it, so that people see the reason.
    """

    ready: Mapping[str, M]
    failed: tuple[UnavailableChannel, ...] = ()


def read_accounts(
    config: PluginConfig,
    name: str,
    model: type[M],
    *credentials: str,
    ready: Callable[[str, M], object] | None = None,
) -> Accounts[M]:
    """Read ``channels.NAME`` once per account: the keys of ``accounts.ACC`` override the section's own.

    The section itself is the account ``default`` when it has one of the keys ``credentials``, or names no accounts.
    An account with ``enabled: false`` is left out. One with a wrong key fails, as long as another account can start.

    :param credentials: keys, in camelCase, of which a separate account has at least one.
    :param ready: called with each account and its settings; raises ConfigError when something is missing.
    :raises ConfigError: a key of the section is wrong, or no account can start.
    """
    if record := getattr(config, "record_accounts", None):  # ``claw plugins build`` reads no file
        return Accounts(record(name, model, *credentials, ready=ready))
    section = config.tree("channels", name)
    if config.channel(name, model) is None or not isinstance(section, Mapping):
        return Accounts({})
    settings: dict[str, M] = {}
    failed: list[UnavailableChannel] = []
    for account, (path, tree) in _sections(name, section, credentials).items():
        if tree.get("enabled") is False:
            continue
        try:
            own = config.read(path, model, tree)
            if ready:
                ready(account, own)
            settings[account] = own
        except ConfigError as why:
            failed.append(UnavailableChannel(name, account, why))
    if failed and not settings:
        raise failed[0].error
    return Accounts(settings, tuple(failed))


def _sections(
    name: str, section: Mapping[str, Any], credentials: Sequence[str]
) -> dict[str, tuple[tuple[str, ...], dict[str, Any]]]:
    """Return account → path and keys of its section, with those of the channel."""
    shared = {to_camel(key): value for key, value in section.items() if key != "accounts"}
    entries = section.get("accounts") or {}
    found: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {}
    if not entries or shared.keys() & set(credentials):
        found["default"] = ("channels", name), shared
    for account, entry in entries.items():
        own = {to_camel(key): value for key, value in entry.items()}
        found[str(account)] = ("channels", name, "accounts", str(account)), shared | own
    return found
