"""Failpoints: ``CLAW_FAILPOINT=NAME:NTH`` makes a test kill the process when NAME is reached for the NTH
time.

Each one is between two writes that a restart must reconcile (``tests/rigs``). An unset one costs a
comparison.
"""

import os
import signal

NAMES = (
    "inbox-written",  # not yet synced: the event must not be acknowledged
    "inbox-synced",  # the event is not acknowledged yet
    "turn-began",
    "user-recorded",
    "effect-marked",  # the call has not started
    "effect-done",  # the result is not recorded
    "answer-recorded",  # the end of the turn is not recorded
    "turn-ended",  # the replies are not sent
    "stream-posted",  # the id of the message is not recorded
    "sending-noted",  # the service is not called yet
    "service-took",  # the delivery is not recorded
)


class _Armed:
    """The armed failpoint.

    :ivar left: passes until it kills the process.
    """

    name, left = "", 0


def arm(wanted: str) -> None:
    """Arm ``NAME:NTH`` in place of the present failpoint; an empty text disarms it."""
    name, _, nth = wanted.partition(":")
    _Armed.name, _Armed.left = name, int(nth or 1)


def failpoint(name: str) -> None:
    """Kill the process if this failpoint is armed and its count has run out."""
    if name == _Armed.name:
        _Armed.left -= 1
        if _Armed.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("CLAW_FAILPOINT", ""))
