"""Buttons and commands: handed in beside the line of messages, for Discord gives each three seconds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from claw import DeliveryError, Door, Inbound, say

from claw_discord.commands import registration
from claw_discord.inbound import COMMAND

_log = logging.getLogger(__name__)

_DEFERRED_UPDATE = {"type": 6}
"""Answer to a pressed button: heard, nothing changes (developer docs, "Interaction Callback Type")."""
_THINKING = {"type": 5, "data": {"flags": 64}}
"""Answer to a command: shown as being thought about, to that person alone, until it is taken back."""
_THOUGHT_SECONDS = 14 * 60.0  # an interaction can be answered for 15 minutes

Call = Callable[..., Awaitable[Any]]
Frame = Mapping[str, Any]


class Presses:
    """What people press and choose, each confirmed once the house has it.

    :param who: the account, as lines of the log name it.
    :param call: :meth:`Connection.call`.
    :param read: a dispatch as the house understands it; None when it is nothing for it.
    :param submit: hands one in; True = it is on disk.
    """

    def __init__(
        self,
        who: str,
        call: Call,
        *,
        read: Callable[[Frame], Awaitable[Inbound | None]],
        submit: Callable[[Door, Inbound], Awaitable[bool]],
        lists_commands: bool,
    ) -> None:
        self._who, self._call, self._read, self._submit = who, call, read, submit
        self._waiting: asyncio.Queue[Frame] = asyncio.Queue()
        self._settled: dict[str, asyncio.Event] = {}
        self._to_list = lists_commands

    def hear(self, frame: Frame) -> None:
        """Take in a ``READY`` or an ``INTERACTION_CREATE``; returns at once."""
        self._waiting.put_nowait(frame)

    def idle(self) -> bool:
        """Whether all that came is being dealt with."""
        return self._waiting.empty()

    async def run(self, door: Door) -> None:
        """Deal with each beside the others, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                frame = await self._waiting.get()
                ready = frame.get("t") == "READY"
                tasks.create_task(self._list_commands(frame["d"]) if ready else self._press(door, frame))

    def settled(self, id: str) -> None:
        """What a command asked for is said, or never will be."""
        if id in self._settled:
            self._settled[id].set()

    async def _press(self, door: Door, frame: Frame) -> None:
        data = frame["d"]
        inbound = await self._read(frame)
        if inbound is None or inbound.message_id in self._settled:  # a resume repeats what we have
            return
        if data.get("type") != COMMAND:
            if await self._submit(door, inbound):
                await self._confirm(data, _DEFERRED_UPDATE)
            return
        settled = self._settled[inbound.message_id] = asyncio.Event()
        try:
            if await self._submit(door, inbound) and await self._confirm(data, _THINKING):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_THOUGHT_SECONDS):
                        await settled.wait()
                await self._take_back(data)
        finally:
            del self._settled[inbound.message_id]

    async def _confirm(self, data: Frame, answer: Mapping[str, Any]) -> bool:
        """Tell Discord that it was heard; without that it tells the person of a failure."""
        try:
            await self._call(
                "POST",
                "/interactions/{webhook_id}/{webhook_token}/callback",
                json=answer,
                webhook_id=str(data["id"]),
                webhook_token=str(data.get("token")),
            )
        except DeliveryError as why:
            told = say("what somebody pressed or chose could not be confirmed: {why}", why=why)
            _log.warning("%s: %s", self._who, told)
            return False
        return True

    async def _take_back(self, data: Frame) -> None:
        """What shows that a command is thought about; it would go by itself after a quarter of an hour."""
        with suppress(DeliveryError):
            await self._call(
                "DELETE",
                "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
                webhook_id=str(data.get("application_id")),
                webhook_token=str(data.get("token")),
            )

    async def _list_commands(self, ready: Frame) -> None:
        """Register our commands once in a process, and only when they are not."""
        if not self._to_list:
            return
        path = "/applications/{application_id}/commands"
        try:
            application = str(ready["application"]["id"])
            query = {"with_localizations": "true"}
            wanted = registration(await self._call("GET", path, query=query, application_id=application))
            if wanted is not None:
                await self._call("PUT", path, json=wanted, application_id=application)
            self._to_list = False
        except (DeliveryError, KeyError, TypeError, ValueError, AttributeError) as why:
            told = say("the commands could not be listed with Discord: {why}", why=why)
            _log.warning("%s: %s", self._who, told)
