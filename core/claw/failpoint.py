"""Places where a test makes the process die: ``CLAW_FAILPOINT=NAME:NTH`` kills it when NAME is passed the NTH time.

Each stands between two writes that a restart has to put together again (``tests/rigs``). Unset, one costs a comparison.
"""

import os
import signal

NAMES = (
    "inbox-written",  # not yet synced, so the platform may not be told
    "inbox-synced",  # the platform was not told yet
    "turn-began",
    "user-recorded",
    "effect-marked",  # the call has not begun
    "effect-done",  # its result is not recorded
    "answer-recorded",  # the turn has no end yet
    "turn-ended",  # what it owes was not sent
    "stream-posted",  # in a message whose id is not noted
    "sending-noted",  # the service was not called
    "service-took",  # not noted as paid
)


class _Point:
    """The one that is armed.

    :ivar left: how often it is passed until it kills.
    """

    name, left = "", 0


def arm(wanted: str) -> None:
    """Arm ``NAME:NTH`` in place of what was armed; an empty text arms none."""
    name, _, nth = wanted.partition(":")
    _Point.name, _Point.left = name, int(nth or 1)


def reach(name: str) -> None:
    """This place is passed."""
    if name == _Point.name:
        _Point.left -= 1
        if _Point.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("CLAW_FAILPOINT", ""))
