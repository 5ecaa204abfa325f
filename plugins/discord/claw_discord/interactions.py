"""Button presses and application commands: handled outside the message queue, since Discord allows three
seconds each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from claw import DeliveryError, Inbound, Inbox, t

from claw_discord.commands import menu_of, registration
from claw_discord.inbound import COMMAND

_log = logging.getLogger(__name__)

_DEFERRED_UPDATE = {"type": 6}
"""Response to a pressed button: acknowledged, no change (developer docs, "Interaction Callback Type")."""
_THINKING = {"type": 5, "data": {"flags": 64}}
"""Response to a command: "thinking", visible to that person alone, until it is deleted."""
_THINKING_SECONDS = 14 * 60.0  # an interaction can be answered for 15 minutes

Call = Callable[..., Awaitable[Any]]
Frame = Mapping[str, Any]


class Interactions:
    """Handler of button presses and commands; each is confirmed once it is on disk.

    :param who: name of the account in log lines.
    :param call: :meth:`Connection.call`.
    :param read: converts a dispatch to an inbound message; None when it is irrelevant.
    :param submit: submits one; True = it is on disk.
    :param menu: returns the chat commands to list with Discord; None = list nothing.
    """

    def __init__(
        self,
        who: str,
        call: Call,
        *,
        read: Callable[[Frame], Awaitable[Inbound | None]],
        submit: Callable[[Inbox, Inbound], Awaitable[bool]],
        menu: Callable[[], Awaitable[Sequence[tuple[str, str, str]] | None]],
    ) -> None:
        self._log_name, self._call, self._read, self._submit = who, call, read, submit
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()
        self._settled: dict[str, asyncio.Event] = {}
        self._menu, self._must_register = menu, True

    def receive(self, frame: Frame) -> None:
        """Queue a ``READY`` or an ``INTERACTION_CREATE``; return at once."""
        self._frames.put_nowait(frame)

    def idle(self) -> bool:
        """Return true if the queue is empty."""
        return self._frames.empty()

    async def run(self, inbox: Inbox) -> None:
        """Handle each one concurrently, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                frame = await self._frames.get()
                ready = frame.get("t") == "READY"
                tasks.create_task(self._register_commands(frame["d"]) if ready else self._press(inbox, frame))

    def settled(self, id: str) -> None:
        """Note that a command was answered, or never will be."""
        if id in self._settled:
            self._settled[id].set()

    async def _press(self, inbox: Inbox, frame: Frame) -> None:
        data = frame["d"]
        inbound = await self._read(frame)
        if inbound is None or inbound.message_id in self._settled:  # a resume repeats known dispatches
            return
        if data.get("type") != COMMAND:
            if await self._submit(inbox, inbound):
                await self._confirm(data, _DEFERRED_UPDATE)
            return
        settled = self._settled[inbound.message_id] = asyncio.Event()
        try:
            if await self._submit(inbox, inbound) and await self._confirm(data, _THINKING):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_THINKING_SECONDS):
                        await settled.wait()
                await self._delete_thinking(data)
        finally:
            del self._settled[inbound.message_id]

    async def _confirm(self, data: Frame, answer: Mapping[str, Any]) -> bool:
        """Acknowledge to Discord; otherwise it shows the person a failure."""
        try:
            await self._call(
                "POST",
                "/interactions/{webhook_id}/{webhook_token}/callback",
                json=answer,
                webhook_id=str(data["id"]),
                webhook_token=str(data.get("token")),
            )
        except DeliveryError as why:
            text = t("a button press or choice could not be confirmed: {why}", why=why)
            _log.warning("%s: %s", self._log_name, text)
            return False
        return True

    async def _delete_thinking(self, data: Frame) -> None:
        """Delete the "thinking" message of a command; by itself it would go after a quarter of an hour."""
        with suppress(DeliveryError):
            await self._call(
                "DELETE",
                "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
                webhook_id=str(data.get("application_id")),
                webhook_token=str(data.get("token")),
            )

    async def _register_commands(self, ready: Frame) -> None:
        """Register claw's commands once per process, and only when they are missing."""
        if not self._must_register or (commands := await self._menu()) is None:
            return
        path = "/applications/{application_id}/commands"
        try:
            application = str(ready["application"]["id"])
            query = {"with_localizations": "true"}
            there = await self._call("GET", path, query=query, application_id=application)
            wanted = registration(there, menu_of(commands))
            if wanted is not None:
                await self._call("PUT", path, json=wanted, application_id=application)
            self._must_register = False
        except (DeliveryError, KeyError, TypeError, ValueError, AttributeError) as why:
            text = t("the commands could not be listed with Discord: {why}", why=why)
            _log.warning("%s: %s", self._log_name, text)
