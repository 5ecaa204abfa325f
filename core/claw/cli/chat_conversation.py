"""Chat commands of the person at this terminal, for ``claw chat``."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from claw.agent.chat_commands import Conversation
from claw.agent.routing import admit
from claw.agent.turn_context import TurnOptions
from claw.app import App
from claw.contracts.errors import UsageError
from claw.contracts.messages import Inbound
from claw.i18n import t


class TerminalConversation(Conversation):
    """The context of one line at the terminal that may be a command.

    :param show: prints a text that precedes the answer of the command.
    :ivar queued_messages: messages to send after the command.
    """

    def __init__(
        self,
        app: App,
        inbound: Inbound,
        options: TurnOptions,
        show: Callable[[str], None] = lambda text: None,
    ) -> None:
        route = admit(inbound, app.config, options.agent, options.session)
        if route is None:
            raise UsageError("a message from {sender} there would not be answered", sender=inbound.sender.id)
        super().__init__(app.runtime, app.chat_commands, inbound, route, options)
        self.queued_messages: list[str] = []
        self._show = show

    async def stop(self) -> str:
        """Say that nothing runs: a line is only read between turns."""
        return t("nothing is running; Ctrl-C stops a running turn")

    async def submit(self, text: str) -> None:
        """Queue a message to be sent after the command."""
        self.queued_messages.append(text)

    async def reply(self, text: str) -> None:
        """Print a text at once."""
        self._show(text)

    def set_overrides(self, **fields: Any) -> None:
        """Choose fields; a model that is chosen now comes before ``--model``."""
        super().set_overrides(**fields)
        if "model" in fields:
            self.options = replace(self.options, model="")
