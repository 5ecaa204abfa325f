"""Reactions: the bot's on messages, and the one that serves as typing indicator."""

import asyncio
from collections import OrderedDict
from math import inf

from claw import DeliveryError

from claw_feishu.tenant import FeishuError, Tenant

KEPT = 2000
_PAUSES_SECONDS, _LONGEST_PAUSE_SECONDS = (0.2, 0.5, 1.0), 3.0
_TYPES = {
    "👍": "THUMBSUP", "👎": "ThumbsDown", "❤️": "HEART", "❤": "HEART", "👌": "OK", "✅": "DONE", "🙏": "THANKS",
    "👏": "APPLAUSE", "🎉": "PARTY", "😊": "SMILE", "😂": "LOL", "👀": "GLANCE", "🔥": "Fire", "💪": "MUSCLE",
    "❌": "CrossMark", "💯": "Hundred", "🤔": "THINKING", "😢": "CRY",
}  # fmt: skip
"""Emoji to Feishu's own names; other names are passed unchanged."""


def emoji_type(emoji: str) -> str:
    """Return Feishu's name of an emoji."""
    return _TYPES.get(emoji, emoji.strip(":"))


class Reactions:
    """The bot's reactions: removing one needs its id.

    :param app_id: operator id of the bot's reactions in the service's lists.
    :param typing_kind: the emoji that serves as typing indicator; empty = none.
    """

    def __init__(self, tenant: Tenant, app_id: str, typing_kind: str) -> None:
        self._tenant, self._app_id, self._typing_kind = tenant, app_id, typing_kind
        self._ids: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._typing: set[str] = set()
        self._refused = False

    async def put(self, message_id: str, emoji: str) -> None:
        """Add a reaction.

        :raises FeishuError: as for every call.
        """
        kind = emoji_type(emoji)
        body = {"reaction_type": {"emoji_type": kind}}
        answer = await self._tenant.call("POST", _path(message_id), body)
        self._ids[message_id, kind] = str(answer["data"]["reaction_id"])
        if len(self._ids) > KEPT:
            self._ids.popitem(last=False)

    async def take_off(self, message_id: str, emoji: str) -> None:
        """Remove the bot's reaction; do nothing when there is none."""
        kind = emoji_type(emoji)
        id = self._ids.pop((message_id, kind), "") or await self._find(message_id, kind)
        if id:
            await self._tenant.call("DELETE", f"{_path(message_id)}/{id}")

    async def begin(self, message_id: str) -> None:
        """Add the typing reaction, once. After a refusal the service is not asked again."""
        if not (message_id and self._typing_kind) or message_id in self._typing or self._refused:
            return
        self._typing.add(message_id)
        try:
            await self.put(message_id, self._typing_kind)
        except DeliveryError as why:
            if not why.outcome_unknown:  # else it may be there, and is removed
                self._typing.discard(message_id)
            self._refused = isinstance(why, FeishuError) and bool(why.scopes)

    async def end(self, message_id: str) -> None:
        """Remove the typing reaction; try again when the service fails for a moment.

        :raises FeishuError: it could not be removed, and may be there.
        """
        if message_id not in self._typing:
            return
        self._typing.remove(message_id)
        for least in (*_PAUSES_SECONDS, inf):
            try:
                await self.take_off(message_id, self._typing_kind)
            except DeliveryError as why:
                if why.permanent:  # the message is gone, and its reaction with it
                    return
                pause = max(least, why.retry_after_seconds or 0.0)
                if pause > _LONGEST_PAUSE_SECONDS:
                    raise
                await asyncio.sleep(pause)
            else:
                return

    async def remove_left(self, message_id: str) -> None:
        """Remove the typing reactions that an earlier process left at a message.

        :raises FeishuError: as for every call, unless the message or the reaction is gone.
        """
        kind = emoji_type(self._typing_kind)
        try:
            for id in await self._find_all(message_id, kind) if kind else ():
                if id != self._ids.get((message_id, kind)):
                    await self._tenant.call("DELETE", f"{_path(message_id)}/{id}")
        except FeishuError as why:
            if not why.permanent or why.scopes or why.is_credentials:
                raise

    async def _find(self, message_id: str, kind: str) -> str:
        return next(iter(await self._find_all(message_id, kind)), "")

    async def _find_all(self, message_id: str, kind: str) -> list[str]:
        listed = await self._tenant.call("GET", _path(message_id), query={"reaction_type": kind})
        return [
            str(item["reaction_id"])
            for item in listed["data"].get("items") or ()
            if item.get("operator", {}).get("operator_id") == self._app_id
        ]


def _path(message_id: str) -> str:
    return f"/open-apis/im/v1/messages/{message_id}/reactions"
