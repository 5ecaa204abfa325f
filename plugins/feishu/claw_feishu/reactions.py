"""Reactions: the bot's on messages, and the one that serves as typing indicator."""

from collections import OrderedDict

from claw import DeliveryError

from claw_feishu.tenant import FeishuError, Tenant

KEPT = 2000
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
    """

    def __init__(self, tenant: Tenant, app_id: str) -> None:
        self._tenant, self._app_id = tenant, app_id
        self._ids: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._typing: dict[str, str] = {}
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

    async def begin(self, message_id: str, kind: str) -> None:
        """Add the typing reaction, once. After a refusal the service is not asked again."""
        if message_id in self._typing or self._refused:
            return
        self._typing[message_id] = kind
        try:
            await self.put(message_id, kind)
        except DeliveryError as why:
            self._typing.pop(message_id, None)
            self._refused = isinstance(why, FeishuError) and bool(why.scopes)

    async def end(self, message_id: str) -> None:
        """Remove the typing reaction."""
        kind = self._typing.pop(message_id, None)
        if kind is not None:
            try:
                await self.take_off(message_id, kind)
            except DeliveryError as why:
                if why.permanent:  # the message is gone, and its reaction with it
                    return
                raise

    async def _find(self, message_id: str, kind: str) -> str:
        listed = await self._tenant.call("GET", _path(message_id), query={"reaction_type": kind})
        for item in listed["data"].get("items") or ():
            if item.get("operator", {}).get("operator_id") == self._app_id:
                return str(item["reaction_id"])
        return ""


def _path(message_id: str) -> str:
    return f"/open-apis/im/v1/messages/{message_id}/reactions"
