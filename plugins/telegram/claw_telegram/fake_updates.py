"""Pending updates of a bot, and their two deliveries: long polling and webhook calls."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from claw_telegram.fake_http import post

_RETRY_SECONDS = 0.05
_TERMINATED = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
_WEBHOOK = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
ASKED_FOR_BY_NAME = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Kinds delivered only to a bot whose ``allowed_updates`` names them: https://core.telegram.org/bots/api#getupdates."""

Json = dict[str, Any]


class FakeRefusal(Exception):
    """An error answer of the API.

    :param is_page: the description is the body, as a proxy sends a page in place of the API's JSON.
    """

    def __init__(self, status: int, description: str, *, is_page: bool = False, **parameters: Any) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters
        self.is_page = is_page


class Updates:
    """Unconfirmed updates, in order.

    :ivar webhook: ``url`` and ``secret`` of the current webhook, and ``last_error_message`` after a failed call.
    """

    def __init__(self) -> None:
        self.waiting: list[Json] = []
        self.webhook: Json = {"url": ""}
        self._ids = itertools.count(870001)
        self._allowed: frozenset[str] | None = None
        self._news = asyncio.Event()
        self._poller = 0

    def add(self, kind: Mapping[str, Any]) -> Json:
        """Add an update and return it; the bot gets it if ``allowed_updates`` includes its kind."""
        update = {"update_id": next(self._ids), **kind}
        if self._is_wanted(kind):
            self.waiting.append(update)
            self._news.set()
        return update

    def _is_wanted(self, kinds: Iterable[str]) -> bool:
        if self._allowed is None:
            return not ASKED_FOR_BY_NAME.intersection(kinds)
        return not self._allowed.isdisjoint(kinds)

    def _allow(self, params: Mapping[str, Any]) -> None:
        """Set the delivered kinds; a call without ``allowed_updates`` changes nothing."""
        if "allowed_updates" in params:
            self._allowed = frozenset(params["allowed_updates"]) or None

    async def poll(self, params: Mapping[str, Any], reader: asyncio.StreamReader) -> list[Json]:
        """Hold the call until there are updates; the newest poller wins.

        :raises FakeRefusal: another poller took over, or a webhook is set.
        """
        self._poller += 1
        poller, offset = self._poller, params.get("offset")
        self._allow(params)
        ends = asyncio.get_running_loop().time() + float(params.get("timeout", 0))
        self._news.set()  # wakes the previous poller
        if offset is not None:
            self.waiting = [one for one in self.waiting if one["update_id"] >= offset]
        while True:
            if self.webhook["url"]:
                raise FakeRefusal(409, _WEBHOOK)
            if poller != self._poller:
                raise FakeRefusal(409, _TERMINATED)
            left = ends - asyncio.get_running_loop().time()
            if self.waiting or left <= 0 or reader.at_eof():
                return self.waiting[: params.get("limit", 100)]
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), min(left, 0.05))

    def set_webhook(self, params: Mapping[str, Any]) -> bool:
        """Set the webhook address; an empty one removes it."""
        if params.get("drop_pending_updates"):
            self.waiting.clear()
        self._allow(params)
        self.webhook = {"url": params.get("url", ""), "secret": params.get("secret_token", "")}
        self._news.set()
        return True

    async def call_webhook(self) -> None:
        """Post pending updates to the webhook in order, each until it gets 2xx; the parts of an album at once."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            if not self.webhook["url"] or not self.waiting:
                continue
            first = _album(self.waiting[0])
            batch = [one for one in self.waiting if first and _album(one) == first] or self.waiting[:1]
            headers = (
                {"X-Telegram-Bot-Api-Secret-Token": self.webhook["secret"]} if self.webhook["secret"] else {}
            )
            posts = (post(self.webhook["url"], update, headers) for update in batch)
            for update, status in zip(
                batch, await asyncio.gather(*posts, return_exceptions=True), strict=True
            ):
                if isinstance(status, int) and 200 <= status < 300:
                    self.waiting.remove(update)
                else:
                    self.webhook["last_error_message"] = f"Wrong response from the webhook: {status}"


def _album(update: Json) -> tuple[int, str] | None:
    message = update.get("message", {})
    return (message["chat"]["id"], message["media_group_id"]) if "media_group_id" in message else None
