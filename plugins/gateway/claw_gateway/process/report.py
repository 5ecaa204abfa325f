"""The health report of a serving process, as one frozen value: its channels, and how much is in progress."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from claw import nearest, t
from claw.runtime import DISABLED, LOADED, PluginState, install_hint

if TYPE_CHECKING:  # ``claw gateway status`` needs neither the messages nor the names of secrets
    from claw import Address, ChannelState

LOG_CONTEXT: ContextVar[Mapping[str, str]] = ContextVar("log_context", default={})  # noqa: B039 - never changed
"""Context of log lines from this task: ``channel``, ``account``, ``session``."""


def log_context_of(address: "Address", session: str = "") -> dict[str, str]:
    """Return a chat as a value of ``LOG_CONTEXT``; the default account is left empty."""
    account = "" if address.account == "default" else address.account
    return {"channel": address.channel, "account": account, "session": session}


class ChannelReport(NamedTuple):
    """One account of one channel, its plugin, and its state."""

    name: str
    account: str
    plugin: str
    state: "ChannelState"


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The answer of ``ChannelServer.report()``.

    :param channels: every channel that should listen, also a quarantined one.
    :param running: turns that run now.
    :param waiting: accepted messages whose turn has not begun.
    :param pending: replies that are not delivered yet.
    """

    channels: tuple[ChannelReport, ...] = ()
    running: int = 0
    waiting: int = 0
    pending: int = 0


def configured_accounts(settings: Any, plugin_states: Sequence[PluginState]) -> Iterator[dict[str, Any]]:
    """Yield each account of each channel in the file, as plain data, with the state of its plugin.

    :param settings: ``claw.config.Settings``.
    """
    owners = {
        name: one
        for one in reversed(plugin_states)
        if one.found.manifest
        for name in one.found.manifest.channels
    }
    for name, section in settings.channels.items():
        if name == "terminal":
            continue
        owner = owners.get(name)
        if owner:
            state, why, fix = owner.state, owner.why, owner.fix
        else:
            state, (why, fix) = "absent", _why_absent(name, owners, plugin_states)
        if not section.enabled:
            state, why, fix = DISABLED, t("channels.{name}.enabled is false", name=name), ""
        for account in accounts_of(section):
            own = section.accounts.get(account)
            off = own is not None and not own.enabled and state not in (DISABLED, "absent")
            key = t("channels.{name}.enabled is false", name=f"{name}.accounts.{account}") if off else why
            yield {
                "channel": name, "account": account, "plugin": owner.id if owner else None,
                "state": DISABLED if off else state, "why": key, "fix": "" if off else fix,
            }  # fmt: skip


def _why_absent(name: str, known: Iterable[str], plugin_states: Sequence[PluginState]) -> tuple[str, str]:
    """Return why no plugin is known to provide a channel, and the fix. One that has no manifest and is not loaded may
    provide it.
    """
    if near := nearest(name, known):
        return t("no installed plugin provides it"), t("Did you mean {near}?", near=near)
    unlisted = [one for one in plugin_states if one.found.manifest is None and one.state != LOADED]
    if not unlisted:
        return t("no installed plugin provides it"), install_hint(name)
    ids = [one.id for one in unlisted]
    whys = "; ".join(
        t("{problem}. {fix}", problem=one.why, fix=one.fix) if one.fix else one.why for one in unlisted
    )
    return t("no plugin that loads provides it; not loaded: {ids}", ids=ids), whys


def accounts_of(section: Any) -> list[str]:
    """Return the accounts of a section: those it names, and ``default`` when it has a key of its own, or
    names none.
    """
    from claw.runtime import is_secret_name

    own = section.model_extra or {}
    has_key = any(value and is_secret_name(key) for key, value in own.items())
    return [*(["default"] if has_key or not section.accounts else []), *section.accounts]


def unserved_accounts(settings: Any, plugin_states: Sequence[PluginState]) -> Iterator[ChannelReport]:
    """Yield the accounts of the file as failed, with the reason, for when none is served. Disabled ones are
    left out.
    """
    from claw import ChannelState

    for row in configured_accounts(settings, plugin_states):
        why = t("its plugin has no such account") if row["state"] == LOADED else row["why"]
        detail = t("{problem}. {fix}", problem=why, fix=row["fix"]) if row["fix"] else why
        if row["state"] != DISABLED:
            state = ChannelState("failed", detail, last_error=detail)
            yield ChannelReport(row["channel"], row["account"], row["plugin"] or "", state)
