"""Chat commands of the person at this terminal, for ``claw chat``."""

from dataclasses import replace
from typing import Any

from claw_sessions.conversation import SessionConversation

from claw.agent.routing import admit
from claw.agent.turn_context import TurnOptions
from claw.app import App
from claw.contracts.errors import UsageError
from claw.contracts.messages import Inbound
from claw.i18n import t


class TerminalConversation(SessionConversation):
    """The context of one line at the terminal that may be a command.

    :ivar further: messages to send after the command.
    """

    def __init__(self, app: App, inbound: Inbound, options: TurnOptions) -> None:
        route = admit(inbound, app.config, options.agent, options.session)
        if route is None:
            raise UsageError("nobody would answer {sender} there", sender=inbound.sender.id)
        super().__init__(app, inbound, route, options)
        self.queued_messages: list[str] = []

    async def stop(self) -> str:
        """Say that nothing runs: a line is only read between turns."""
        return t("nothing runs now; Ctrl-C stops a turn while it runs")

    async def submit(self, text: str) -> None:
        """Queue a message to be sent after the command."""
        self.queued_messages.append(text)

    def set_overrides(self, **fields: Any) -> None:
        """Choose fields; a model that is chosen now comes before ``--model``."""
        super().set_overrides(**fields)
        if "model" in fields:
            self.wish = replace(self.wish, model="")
