"""What every channel keeps to, tried against the service behind it: a fake of yours, or ``claw.testing.FakeChannel``."""

from pytest_claw.growing import Growing
from pytest_claw.hearing import Hearing
from pytest_claw.living import Living
from pytest_claw.place import Door, Place
from pytest_claw.saying import Saying

__all__ = ["ChannelSuite", "Door", "Place"]


class ChannelSuite(Hearing, Saying, Growing, Living):
    """The promises of a channel. ``place`` is yours; the rest has defaults.

    :cvar patience_seconds: within which a message must come through, also after a lost connection.
    :cvar abort_seconds: within which a cancelled ``send`` must end.
    :cvar stop_seconds: within which ``run`` must end when it is cancelled.
    :cvar without: what the service does not know, so that its promise is left out: ``groups``, ``bots``,
        ``acknowledgement``, ``credentials``. What a channel cannot do needs no word: without ``stream``, ``edit``,
        ``delete``, ``state`` their promises are left out.
    """
