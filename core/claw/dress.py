"""What a person's words wear in the requests of their own turn, and the past does not keep: facts, and pictures."""

from collections.abc import Sequence
from typing import NamedTuple

from claw.config import Config
from claw.envelope import before, trusted
from claw.media import pictures_of
from claw.message import Inbound
from claw.prompt import inbound_context
from claw.stage import Stage
from claw.transcript import Image, Text, User


class Dress(NamedTuple):
    """What is put on: ``head`` before the words, ``pictures`` behind them."""

    head: str
    pictures: tuple[Image, ...]

    def on(self, message: User) -> User:
        """The message as it is sent."""
        first, *rest = message.content
        head = Text(self.head + first.text) if isinstance(first, Text) else first
        return User((head, *rest, *self.pictures), message.kind, message.source)


def dress(taken: Sequence[Inbound], stage: Stage, config: Config) -> Dress:
    """For messages that are one in the request, oldest first: the newest one's head, and the pictures of all."""
    pictures = (picture for one in taken for picture in pictures_of(one, stage.fenced))
    return Dress(_head(taken[-1], config), tuple(pictures))


def _head(inbound: Inbound, config: Config) -> str:
    """What stands before the person's words; history keeps the plain words."""
    if config.settings.prompt.inbound_meta != "user":
        return before(inbound)
    return inbound_context(trusted(inbound)) + "\n\n" + before(inbound)
