"""How a house that serves is doing, as one frozen value: its channels, and how much is under way."""

from dataclasses import dataclass
from typing import NamedTuple

from claw.channel import ChannelState


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
