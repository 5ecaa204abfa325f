"""Conformance tests of a channel against the service behind it: your own fake, or
``claw.testing.FakeChannel``.
"""

from pytest_claw.channel_trial import RecordingInbox, ServiceSide
from pytest_claw.inbound import InboundChecks
from pytest_claw.lifecycle import LifecycleChecks
from pytest_claw.outbound import OutboundChecks
from pytest_claw.streaming import StreamingChecks

__all__ = ["ChannelSuite", "RecordingInbox", "ServiceSide"]


class ChannelSuite(InboundChecks, OutboundChecks, StreamingChecks, LifecycleChecks):
    """The promises of a channel. ``place`` is yours; the rest has defaults.

    :cvar limit_seconds: time limit for a message to come through, also after a lost connection.
    :cvar abort_seconds: time limit for a cancelled ``send`` to end.
    :cvar stop_seconds: time limit for a cancelled ``run`` to end.
    :cvar without: features that the service lacks, whose tests are skipped, or ask for less: words of ``WITHOUT``. A
        service like IRC lacks ``ids``, ``redelivery`` and ``answers``. Missing methods of the channel need no entry:
        without ``stream``, ``edit``, ``delete``, ``state`` their tests are skipped.
    """
