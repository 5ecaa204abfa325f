"""Approval requests at the terminal: the person answers each with one key."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from claw import t
from claw.runtime import LOCAL_SENDER, TERMINAL

from claw_approvals.question import headline

if TYPE_CHECKING:
    from claw_channel_sdk import PendingApproval

    from claw_approvals.approvals import Approvals

_KEYS = {"y": "once", "a": "always", "n": "deny"}
# Ctrl-D; Ctrl-C only where the terminal sends no signal for it.
_CANCEL_KEYS = {"\x04": "deny", "\x03": "deny"}


class TerminalApprover:
    """The approver of this terminal: it shows approval requests, one after the other.

    :param tell: writes lines for the person.
    """

    def __init__(self, approvals: "Approvals", tell: Callable[[str], None]) -> None:
        self._approvals, self._tell = approvals, tell
        self._one_at_a_time = asyncio.Lock()

    @staticmethod
    def available() -> bool:
        """Return true if a person is at both ends: keys can be read, and the request can be seen."""
        try:
            return sys.stdin.isatty() and sys.stderr.isatty()
        except ValueError:  # a plugin's ``exit()`` closed stdin
            return False

    async def show_request(self, question: "PendingApproval") -> bool:
        """Show an approval request, wait for a key, and pass the answer on."""
        async with self._one_at_a_time:
            verdicts = {key: verdict for key, verdict in _KEYS.items() if verdict in question.verdicts}
            verdict = await read_key(
                sys.stdin.fileno(), verdicts | _CANCEL_KEYS, lambda: self._tell(_text(question))
            )
            outcome = self._approvals.decide(
                question.id, verdict, channel=TERMINAL, sender=LOCAL_SENDER, owner=True
            )
            self._tell(outcome.text)
        return True


def _text(question: "PendingApproval") -> str:
    """Format the request; each line of what is shown is marked, so that it cannot imitate a line of ours."""
    shown = "\n".join(f"  │ {line}" for line in question.request.shown.split("\n"))
    offered = {"once": t("[y]es, once"), "always": t("[a]lways, exactly this"), "deny": t("[n]o")}
    keys = "  ".join(offered[verdict] for verdict in question.verdicts)
    return f"{headline(question.request)}\n{shown}\n{keys}"


async def read_key(fd: int, meanings: Mapping[str, str], show: Callable[[], None]) -> str:
    """Return the meaning of the first key that has one. Input typed before is discarded; the terminal's mode
    is restored.

    :param fd: the terminal.
    :param show: prints the request, once keys are read.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        typed = os.read(fd, 64).decode("utf-8", "replace").lower() or "\x04"
        meant = next((meanings[char] for char in typed if char in meanings), "")
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
