"""Approval requests in chats: sent with buttons, and edited once they are over."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from claw import Address, Channel, t
from claw.runtime import App, describe_exception, in_loop
from claw_channel_sdk import ChatApprover, PendingApproval

from claw_gateway.channel_states import state_from
from claw_gateway.delivery import OutboxDelivery
from claw_gateway.journal import Journal
from claw_gateway.replies import split_reply

EDIT_SECONDS = 20.0
_START_LOOK_SECONDS = 0.2


class ApprovalMessages:
    """The messages of the approvers of this process.

    :param app: the app in force; its channels send and edit.
    """

    def __init__(self, app: Callable[[], App], delivery: OutboxDelivery, journal: Journal) -> None:
        self._app, self._delivery, self._journal = app, delivery, journal
        self._closing: set[asyncio.Task[None]] = set()

    def connect(self, approver: ChatApprover) -> None:
        """Send and edit the requests of this approver, in the running loop."""
        loop = asyncio.get_running_loop()
        approver.show_request = in_loop(loop, self._send, approver)
        if hasattr(approver, "show_outcome"):  # optional
            cast("Any", approver).show_outcome = in_loop(loop, self._show_outcome, approver)
            self.close(approver)

    def close(self, approver: ChatApprover) -> None:
        """Remove, in the background, the buttons of requests that are over."""
        if close := getattr(approver, "close_messages", None):
            closing = asyncio.ensure_future(close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _send(self, approver: ChatApprover, question: PendingApproval) -> bool:
        """Send a request to the chat that its turn came from, with buttons where supported."""
        whole = approver.as_message(question)
        if (channel := self._channel_of(whole.address)) is None:
            return False
        for one in split_reply(whole, channel):
            await self._delivery.send_and_wait(question.request.turn, one)
        return True

    async def _show_outcome(self, approver: ChatApprover, question: PendingApproval, text: str) -> None:
        """Replace the message with the buttons by ``text``, where the service can edit; a failure is logged."""
        whole = approver.as_message(question)
        channel = self._channel_of(whole.address)
        edit = getattr(channel, "edit", None)
        if channel is None or edit is None:
            return
        ids = self._journal.message_ids_of(split_reply(whole, channel)[-1].key)
        last = split_reply(replace(whole, text=text, buttons=()), channel)[-1].text
        runtime = self._app().runtime
        try:
            async with asyncio.timeout(EDIT_SECONDS):
                while state_from(channel).state == "starting":  # noqa: ASYNC110 - channels announce no change
                    await asyncio.sleep(_START_LOOK_SECONDS)
                for id in ids[-1:]:
                    await edit(whole.address, id, runtime.redact(last))
        except Exception as why:  # noqa: BLE001 - a channel is third-party code
            runtime.log(
                t("the buttons of a decided request could not be removed: {why}", why=describe_exception(why))
            )

    def _channel_of(self, address: Address) -> Channel | None:
        return self._app().registry.channel(address.channel, address.account)
