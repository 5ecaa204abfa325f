"""Search for a message of the bot whose id was lost with a response or in a crash.

The Bot API lists no messages. But ids grow: private chats and basic groups of one account share a sequence, a supergroup
or channel has its own (https://core.telegram.org/api/updates#message-related-event-sequences). So the lost message has
an id between a message before it and a later one. ``editMessageReplyMarkup`` without a keyboard changes nothing in a
message without one, and its refusal says whose message it is: "message is not modified" for one of the bot's, "message
can't be edited" for one of somebody else.
"""

import asyncio

from claw import DeliveryError
from claw_channel_sdk import SentSearch

from claw_telegram.api import BotApi, TelegramError
from claw_telegram.call_budget import is_group
from claw_telegram.pacer import Pacer

MOST_IDS, MOST_IDS_OF_A_GROUP = 20, 5
"""Limits of ids that are tried while messages wait for the search: a group takes 20 calls a minute."""
MOST_IDS_IN_TIME, MOST_IDS_OF_A_GROUP_IN_TIME = 200, 60
"""Limits where no message waits. Basic groups share a sequence of ids with all private chats."""
_LONGEST_WAIT_SECONDS = 5.0
_SUPERGROUP = "-100"


async def find_sent(
    api: BotApi, token: str, chat: int | str, search: SentSearch, pacer: Pacer
) -> tuple[str, ...]:
    """Return the ids of the bot's own messages in the range of a search, oldest first.

    :param token: of the bot; it begins with the bot's user id.
    :param chat: the chat as the Bot API wants it.
    :param pacer: of the calls; a search that may wait leaves a part of each limit to messages.
    :raises DeliveryError: permanent if the range is unknown or has more ids than are tried.
    """
    found = []
    for id in _candidates(search):
        if search.may_wait:
            await pacer.wait_for_room(str(chat), "edit")
        if await _is_own(api, token, chat, id):
            found.append(str(id))
    return tuple(found)


def _candidates(search: SentSearch) -> list[int]:
    """Return the ids that a message of a search may have."""
    chat, end = search.address.chat, int(search.before)
    earlier = [int(id) for other, id in search.after if id.isdigit() and _share_ids(chat, other)]
    known = {int(id) for other, id in search.known if id.isdigit() and _share_ids(chat, other)}
    start = max((id for id in earlier if id < end), default=None)
    if start is None:
        raise DeliveryError("no message before the lost one is known", permanent=True)
    wanted = [id for id in range(start + 1, min(end, start + 1000 * MOST_IDS)) if id not in known]
    if search.may_wait:
        most = MOST_IDS_OF_A_GROUP_IN_TIME if is_group(chat) else MOST_IDS_IN_TIME
    else:
        most = MOST_IDS_OF_A_GROUP if is_group(chat) else MOST_IDS
    if len(wanted) > most:
        raise DeliveryError(
            "the lost message has one of {count} ids, and at most {most} are tried",
            permanent=True,
            count=len(wanted),
            most=most,
        )
    return wanted


def _share_ids(chat: str, other: str) -> bool:
    """Return true if the ids of two chats are of one sequence."""
    return chat == other or not any(one.startswith((_SUPERGROUP, "@")) for one in (chat, other))


async def _is_own(api: BotApi, token: str, chat: int | str, id: int) -> bool:
    """Return true if a message exists and is the bot's.

    :raises DeliveryError: Telegram cannot say so now.
    """
    while True:
        try:
            edited = await api.call("editMessageReplyMarkup", {"chat_id": chat, "message_id": id})
            return isinstance(edited, dict) and token.startswith(f"{edited.get('from', {}).get('id')}:")
        except DeliveryError as why:
            if isinstance(why, TelegramError) and why.status == 400:
                return why.says("message is not modified")
            pause = why.retry_after_seconds
            if pause is None or pause > _LONGEST_WAIT_SECONDS:
                raise
        await asyncio.sleep(pause)  # here, as a new search would begin with the first id
