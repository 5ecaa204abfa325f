"""Search for messages of ours that were sent while their ids were not learned."""

from dataclasses import dataclass

from claw import Address


@dataclass(frozen=True, slots=True)
class SentSearch:
    """A search in one chat, after a crash or a lost response between a send and its id.

    :param address: the chat.
    :param before: id of a message of ours in this chat that was sent later than those that are searched.
    :param after: chat and id of messages of this account that existed before the send, the newest of them.
    :param known: chat and id of messages of this account that are recorded since then; none of them is searched.
    :param may_wait: no message waits for the result, so the search may take minutes and leave calls to messages.
    """

    address: Address
    before: str
    after: tuple[tuple[str, str], ...] = ()
    known: frozenset[tuple[str, str]] = frozenset()
    may_wait: bool = False
