"""Typing signs that a killed process left at messages, where a service keeps them until they are removed."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from claw import Address, Channel, DeliveryError, Inbound, t
from claw.runtime import Timeouts, channel_key, describe_exception, location_of, within

_ENDED_SECONDS = 60.0
"""A turn removes its sign within seconds of its end; a gateway that is killed at once again needs more."""
_TRIES, _FIRST_PAUSE, _LONGEST_PAUSE = 8, 1.0, 60.0


def remove_left_typing(
    journal: Any,
    channel_of: Callable[[Address], Channel | None],
    log: Callable[[str], None],
    timeouts: Timeouts,
) -> Coroutine[Any, Any, None]:
    """Remove the signs at the messages that were being answered when the process before was killed.

    These are looked up now, before anything new is recorded.

    :param journal: the turn log; one of another plugin may not know these messages.
    :param channel_of: return the channel of an address.
    """
    find = getattr(journal, "answered_at_last", None)
    return _remove_all(find(_ENDED_SECONDS) if find else (), channel_of, log, timeouts)


async def _remove_all(
    messages: Sequence[Inbound],
    channel_of: Callable[[Address], Channel | None],
    log: Callable[[str], None],
    timeouts: Timeouts,
) -> None:
    failed = set[str]()
    for inbound in messages:
        channel: Any = channel_of(inbound.address)
        key = channel_key(inbound.address.channel, inbound.address.account)
        if key in failed or not hasattr(channel, "remove_left_typing"):
            continue
        try:
            await _remove(channel, inbound.address, inbound.message_id, timeouts)
        except Exception as why:  # noqa: BLE001 - plugin code
            failed.add(key)
            text, place = describe_exception(why), location_of(why, "claw_gateway")
            template = "channel {name}: typing signs that a killed process left cannot be removed: {why}"
            log(t(template, name=key, why=f"{text} ({place})" if place else text))


async def _remove(channel: Any, address: Address, message_id: str, timeouts: Timeouts) -> None:
    pause = _FIRST_PAUSE
    for left in reversed(range(_TRIES)):
        try:
            call = channel.remove_left_typing(address, message_id)
            await within(timeouts.send_seconds, call, timeouts.grace_seconds)
        except (TimeoutError, DeliveryError) as why:
            if not left or getattr(why, "permanent", False):
                raise
            pause = max(pause, getattr(why, "retry_after_seconds", None) or 0.0)
        else:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
