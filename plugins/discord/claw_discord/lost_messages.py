"""Search for messages of the bot whose ids were lost with a response or in a crash.

For a few minutes a repeated nonce finds them; later the messages of the channel are listed:
https://discord.com/developers/docs/resources/message#get-channel-messages.
"""

from typing import Any

from claw import DeliveryError
from claw_channel_sdk import SentSearch

from claw_discord.client import Connection

_PAGE, _MOST_PAGES = 100, 5
_TEXT_OR_REPLY = (0, 19)


async def find_sent(client: Connection, channel: str, search: SentSearch) -> tuple[str, ...]:
    """Return the ids of the bot's own messages in the range of a search, oldest first.

    Ids grow with time, over all channels.

    :param channel: id of the channel or thread.
    :raises DeliveryError: permanent if the range is unknown or has more than 500 messages.
    """
    end = int(search.before)
    after = max((int(id) for _, id in search.after if id.isdigit() and int(id) < end), default=None)
    if after is None:
        raise DeliveryError("no message before the lost one is known", permanent=True)
    bot = str((await client.call("GET", "/users/@me"))["id"])
    known, found = {id for _, id in search.known}, list[str]()
    for _ in range(_MOST_PAGES):
        page: list[dict[str, Any]] = await client.call(
            "GET",
            "/channels/{channel_id}/messages",
            query={"after": str(after), "limit": _PAGE},
            channel_id=channel,
        )
        listed = sorted(page, key=lambda one: int(one["id"]))
        ours = (one for one in listed if str(one.get("author", {}).get("id")) == bot and _is_plain(one))
        found += [id for one in ours if int(id := str(one["id"])) < end and id not in known]
        if len(listed) < _PAGE or int(listed[-1]["id"]) >= end:
            return tuple(found)
        after = int(listed[-1]["id"])
    raise DeliveryError("too many messages were written since the lost one", permanent=True)


def _is_plain(message: dict[str, Any]) -> bool:
    """Return true if a message is neither a notice of Discord nor a response to an application command."""
    return message.get("type", 0) in _TEXT_OR_REPLY and not message.get("interaction_metadata")
