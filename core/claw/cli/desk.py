"""The desk of ``claw chat``: chat commands of the person at this terminal."""

from dataclasses import replace
from typing import Any

from claw.app import App
from claw.desk import Desk
from claw.errors import UsageError
from claw.message import Inbound
from claw.route import admit
from claw.stage import Wish
from claw.words import say


class TerminalDesk(Desk):
    """One line that may be a command.

    :param further: what is to be said after the command.
    """

    def __init__(self, app: App, inbound: Inbound, wish: Wish) -> None:
        route = admit(inbound, app.config, wish.agent, wish.session)
        if route is None:
            raise UsageError("nobody would answer {sender} there", sender=inbound.sender.id)
        super().__init__(app, inbound, route, wish)
        self.further: list[str] = []

    async def stop(self) -> str:
        """A line is only read while nothing runs."""
        return say("nothing runs now; Ctrl-C stops a turn while it runs")

    async def hear(self, text: str) -> None:
        """Said next."""
        self.further.append(text)

    def choose(self, **fields: Any) -> None:
        """What is chosen now comes before what ``--model`` said."""
        super().choose(**fields)
        if "model" in fields:
            self.wish = replace(self.wish, model="")
