"""The person at this terminal answers a question of an agent with one key."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Mapping

from claw.approval import Approvals
from claw.question import Question, headline
from claw.route import LOCAL, TERMINAL
from claw.words import say

_KEYS = {"o": "once", "a": "always", "d": "deny"}
_GONE = {
    "\x04": "deny",
    "\x03": "deny",
}  # Ctrl-D; Ctrl-C only where the terminal does not make a signal of it


class Answers:
    """Puts questions on this terminal, one after the other.

    :param tell: writes lines for the person.
    """

    def __init__(self, approvals: Approvals, tell: Callable[[str], None]) -> None:
        self._approvals, self._tell = approvals, tell
        self._one_at_a_time = asyncio.Lock()

    @staticmethod
    def possible() -> bool:
        """Whether somebody sits at both ends: keys come in, and what is asked can be read."""
        try:
            return sys.stdin.isatty() and sys.stderr.isatty()
        except ValueError:  # a stranger's ``exit()`` closed stdin on its way
            return False

    async def present(self, question: Question) -> bool:
        """Show a question, wait for a key, hand the answer on."""
        async with self._one_at_a_time:
            verdicts = {key: verdict for key, verdict in _KEYS.items() if verdict in question.verdicts}
            verdict = await key_pressed(
                sys.stdin.fileno(), verdicts | _GONE, lambda: self._tell(_text(question))
            )
            outcome = self._approvals.decide(question.id, verdict, channel=TERMINAL, sender=LOCAL, owner=True)
            self._tell(outcome.text)
        return True


def _text(question: Question) -> str:
    """The whole of it, each line of what is shown set off, so that it cannot pass for a line of ours."""
    shown = "\n".join(f"  │ {line}" for line in question.request.shown.split("\n"))
    offered = {"once": say("[o]nce"), "always": say("[a]lways"), "deny": say("[d]eny")}
    keys = "  ".join(offered[verdict] for verdict in question.verdicts)
    return f"{headline(question.request)}\n{shown}\n{keys}"


async def key_pressed(fd: int, meanings: Mapping[str, str], show: Callable[[], None]) -> str:
    """The meaning of the first key that has one. What was typed before does not count; the terminal is left as it was.

    :param fd: of a terminal.
    :param show: prints what is asked, once keys count.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        typed = os.read(fd, 64).decode("utf-8", "replace").lower() or "\x04"
        meant = next((meanings[letter] for letter in typed if letter in meanings), "")
        if meant and not answer.done():
            answer.set_result(meant)

    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)  # keeps Ctrl-C; throws away what was typed ahead
    loop.add_reader(fd, read)
    try:
        show()
        return await answer
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
