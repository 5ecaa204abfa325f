"""The list of faults, and its registration functions."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from claw_testing import ServiceConnection, ServiceReply

KEY = "sk-of-pytest-claw-0123456789abcdef"
TEXT = "看一下 👀 it is open."
CALLS = (("ls", {"path": "项目"}), ("ls", {"path": "."}))
ANSWER = "answer"
"""Among the ends of a fault: the call succeeds, with the answer of ``Fault.reply``."""

UNREADABLE = "unreadable"
"""Among the ends of a fault: the call succeeds, with ``UNREADABLE_CALL`` in place of each call that cannot be read."""

Play = Callable[[ServiceConnection], Awaitable[None]]
Data = dict[str, Any]


@dataclass(frozen=True)
class WireFault:
    """One way in which a call goes wrong.

    :param reply: the reply of the service; its ``text`` and ``calls`` are the expected answer.
    :param ends: the allowed ends of the call: reasons of ``ProviderError``, ``ANSWER`` or ``UNREADABLE``.
    :param wait: range in seconds of the pause that the service requests.
    :param where: the address of this fault, instead of the service's.
    """

    name: str
    reply: ServiceReply
    ends: frozenset[str]
    wait: tuple[float, float] | None = None
    where: str = ""


FAULTS: dict[str, WireFault] = {}


def add(name: str, ends: str, reply: ServiceReply, **more: Any) -> None:
    """Add a fault to the list."""
    assert name not in FAULTS, name
    FAULTS[name] = WireFault(name, reply, frozenset(ends.split()), **more)


def fault(
    ends: str, *, text: str = TEXT, calls: Iterable[tuple[str, Data]] = CALLS, thinking: str = "", **more: Any
) -> Callable[[Play], Play]:
    """Register the decorated function as a fault under its name."""

    def played(play: Play) -> Play:
        name = play.__name__.replace("_", " ")
        add(name, ends, ServiceReply(text=text, calls=tuple(calls), thinking=thinking, play=play), **more)
        return play

    return played
