"""How a house that serves is doing, as one frozen value: its channels, and how much is under way."""

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from claw.channel import ChannelState
from claw.guard.shapes import is_secret_name
from claw.message import Address
from claw.standing import DISABLED, LOADED, Standing
from claw.words import say

PLACE: ContextVar[Mapping[str, str]] = ContextVar("place", default={})  # noqa: B039 - nobody changes it
"""What the work of this task is about: ``channel``, ``account``, ``session``. Every line of the log from it says so."""


def place_of(address: Address, session: str = "") -> dict[str, str]:
    """A chat as :data:`PLACE` has it; the usual account goes without saying."""
    account = "" if address.account == "default" else address.account
    return {"channel": address.channel, "account": account, "session": session}


class Listening(NamedTuple):
    """One account of one channel, the plugin that answers for it, and how it is doing."""

    name: str
    account: str
    plugin: str
    state: ChannelState


@dataclass(frozen=True, slots=True)
class Report:
    """What ``Serving.report()`` answers.

    :param channels: every channel that should listen, also one that was set aside.
    :param running: turns that run now.
    :param waiting: messages that were taken in and whose turn has not begun.
    :param owed: replies that were decided and are not delivered yet.
    """

    channels: tuple[Listening, ...] = ()
    running: int = 0
    waiting: int = 0
    owed: int = 0


def configured(settings: Any, standings: Sequence[Standing]) -> Iterator[dict[str, Any]]:
    """Each account of each channel in the file, as plain data, and how the plugin behind it stands.

    :param settings: ``claw.config.Settings``.
    """
    owners = {
        name: one for one in reversed(standings) if one.found.manifest for name in one.found.manifest.channels
    }
    for name, section in settings.channels.items():
        if name == "terminal":
            continue
        standing = owners.get(name)
        state, why, fix = (
            "absent",
            say("no installed plugin brings it"),
            say("claw plugins install claw-{name}", name=name),
        )
        if standing:
            state, why, fix = standing.state, standing.why, standing.mend
        if not section.enabled:
            state, why, fix = DISABLED, say("channels.{name}.enabled is false", name=name), ""
        for account in accounts_of(section):
            own = section.accounts.get(account)
            off = own is not None and not own.enabled and state not in (DISABLED, "absent")
            key = say("channels.{name}.enabled is false", name=f"{name}.accounts.{account}") if off else why
            yield {
                "channel": name, "account": account, "plugin": standing.id if standing else None,
                "state": DISABLED if off else state, "why": key, "fix": "" if off else fix,
            }  # fmt: skip


def accounts_of(section: Any) -> list[str]:
    """The accounts of a section: those it names, and ``default`` when it has a key of its own, or names none."""
    own = section.model_extra or {}
    has_key = any(value and is_secret_name(key) for key, value in own.items())
    return [*(["default"] if has_key or not section.accounts else []), *section.accounts]


def unserved(settings: Any, standings: Sequence[Standing]) -> Iterator[Listening]:
    """The accounts of the file as they are when nobody serves them: failed, and why. Not those that are switched off."""
    for row in configured(settings, standings):
        why = say("its plugin brings no such account") if row["state"] == LOADED else row["why"]
        told = say("{problem}. {fix}", problem=why, fix=row["fix"]) if row["fix"] else why
        if row["state"] != DISABLED:
            state = ChannelState("failed", told, last_error=told)
            yield Listening(row["channel"], row["account"], row["plugin"] or "", state)
