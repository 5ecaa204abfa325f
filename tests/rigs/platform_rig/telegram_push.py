"""Webhooks of the Bot API (core.telegram.org/bots/api#setwebhook): updates are posted until the answer is a 2xx.

The address of a webhook is public; the rig knows the port on which its path is served.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from rigs.platform_rig.faults import Fault, Faults

_AGAIN_SECONDS, _MOST_SECONDS = 0.4, 30.0
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class Source(Protocol):
    """The service that has the updates.

    :ivar updates: by id, those that are not confirmed.
    """

    updates: dict[int, dict[str, Any]]
    illformed: list[str]
    faults: Faults

    def confirm(self, id: int) -> None:
        """Note that an update will not be delivered again."""


class Push:
    """The webhook of one bot.

    :ivar url: address of the webhook; empty = none is set.
    :ivar port: of this machine, where the address is served.
    :ivar posts: posts that were answered with a 2xx.
    """

    def __init__(self, source: Source) -> None:
        self._source, self.url, self.port, self.posts = source, "", 0, 0
        self._secret = ""
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def set(self, fields: Mapping[str, Any]) -> None:
        """Set the webhook, or remove it if there is no ``url``."""
        self.url, self._secret = str(fields.get("url") or ""), str(fields.get("secret_token") or "")
        if self.url and not self.url.startswith("https://"):
            self._source.illformed.append(f"setWebhook: {self.url} is not https")
        if self._secret and not _SECRET.fullmatch(self._secret):
            self._source.illformed.append("setWebhook: secret_token has other characters")
        self.update()

    def update(self) -> None:
        """Post what is new. The updates of a chat follow each other, those of several chats run side by side."""
        for update in self._source.updates.values() if self.url else ():
            (body,) = (value for name, value in update.items() if name != "update_id")
            chat = int(body["chat"]["id"])
            if chat not in self._tasks or self._tasks[chat].done():
                task = self._tasks[chat] = asyncio.create_task(self._post_chat(chat))
                task.add_done_callback(lambda _: self.update())  # what came while the task was ending

    async def end(self) -> None:
        """Post no more."""
        self.url = ""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _post_chat(self, chat: int) -> None:
        async with httpx.AsyncClient(verify=False, timeout=_MOST_SECONDS) as client:
            while self.url and (update := self._next(chat)) is not None:
                if not await self._post(client, update):
                    await asyncio.sleep(_AGAIN_SECONDS)

    def _next(self, chat: int) -> dict[str, Any] | None:
        for update in self._source.updates.values():
            if any(isinstance(one, dict) and one["chat"]["id"] == chat for one in update.values()):
                return update
        return None

    async def _post(self, client: httpx.AsyncClient, update: Mapping[str, Any]) -> bool:
        """Post an update; return true if it was taken, and the service has heard that."""
        fault = self._source.faults.next("webhook", is_news=True)
        if fault is Fault.CUT_BEFORE:
            return False
        address = f"http://127.0.0.1:{self.port}{urlsplit(self.url).path}"
        headers = {"X-Telegram-Bot-Api-Secret-Token": self._secret} if self._secret else {}
        try:
            answered = await client.post(address, json=update, headers=headers)
        except httpx.HTTPError:
            return False
        if not answered.is_success or fault is not Fault.NONE:
            return False
        self.posts += 1
        self._source.confirm(int(update["update_id"]))
        return True
