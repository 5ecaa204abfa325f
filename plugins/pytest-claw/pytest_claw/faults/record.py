"""The list of faults, and how one is put on it."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from claw.testing.services import Line, Reply

KEY = "sk-of-pytest-claw-0123456789abcdef"
TEXT = "看一下 👀 it is open."
CALLS = (("ls", {"path": "项目"}), ("ls", {"path": "."}))
ANSWER = "answer"
"""Among the ends of a fault: the answer is understood all the same, and is that of ``Fault.reply``."""

Play = Callable[[Line], Awaitable[None]]
Data = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """One way in which a call goes wrong.

    :param reply: what the service says; its ``text`` and ``calls`` are what it means.
    :param ends: how the call may end: reasons of ``ProviderError``, or ``ANSWER``.
    :param wait: between which seconds the service is understood to ask for a pause.
    :param where: instead of the service's address, one at which this fault is.
    """

    name: str
    reply: Reply
    ends: frozenset[str]
    wait: tuple[float, float] | None = None
    where: str = ""


FAULTS: dict[str, Fault] = {}


def add(name: str, ends: str, reply: Reply, **more: Any) -> None:
    """Put one on the list."""
    assert name not in FAULTS, name
    FAULTS[name] = Fault(name, reply, frozenset(ends.split()), **more)


def fault(
    ends: str, *, text: str = TEXT, calls: Iterable[tuple[str, Data]] = CALLS, thinking: str = "", **more: Any
) -> Callable[[Play], Play]:
    """The function that plays it gives the fault its name."""

    def played(play: Play) -> Play:
        name = play.__name__.replace("_", " ")
        add(name, ends, Reply(text=text, calls=tuple(calls), thinking=thinking, play=play), **more)
        return play

    return played
