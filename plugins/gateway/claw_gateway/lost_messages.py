"""Facts of the journal about messages whose ids were lost with a response or in a crash."""

from collections.abc import Sequence

import msgspec
from claw import Address, Outbound
from claw.runtime import Database
from claw_channel_sdk import SentSearch

_NEWEST = 50


class LostMessages:
    """The part of the journal that helps to find lost messages."""

    _database: Database

    def search_of(
        self, address: Address, since_ms: int, before: str, *, may_wait: bool = False
    ) -> SentSearch:
        """Return the search for messages in a chat that were sent after a time and before a message.

        :param since_ms: milliseconds since 1970.
        :param may_wait: no message waits for the result.
        """
        account = (address.channel, address.account)
        earlier = self._database.read(
            """SELECT chat, message_id FROM inbox WHERE channel = ? AND account = ? AND message_id != ''
            AND accepted_at_ms <= ? ORDER BY number DESC LIMIT ?""",
            *(*account, since_ms, _NEWEST),
        )
        sent = self._database.read(
            """SELECT chat, message_ids FROM owed WHERE channel = ? AND account = ? AND message_ids IS NOT NULL
            AND sent_at_ms < ? ORDER BY sent_at_ms DESC LIMIT ?""",
            *(*account, since_ms, _NEWEST),
        )
        return SentSearch(
            address,
            before,
            (*((str(chat), str(id)) for chat, id in earlier), *_pairs(sent)),
            self.known_since(address, since_ms),
            may_wait,
        )

    def known_since(self, address: Address, since_ms: int) -> frozenset[tuple[str, str]]:
        """Return chat and id of the messages of an account that are recorded since a time, received and sent."""
        account = (address.channel, address.account)
        received = self._database.read(
            """SELECT chat, message_id FROM inbox WHERE channel = ? AND account = ? AND message_id != ''
            AND accepted_at_ms > ?""",
            *(*account, since_ms),
        )
        sent = self._database.read(
            """SELECT chat, message_ids FROM owed WHERE channel = ? AND account = ? AND sent_at_ms >= ?
            UNION ALL SELECT inbox.chat, shown FROM watched JOIN inbox ON inbox.turn = watched.turn
            JOIN turns ON turns.turn = watched.turn WHERE channel = ? AND account = ?
            AND coalesce(ended_at_ms, ?) >= ?""",
            *(*account, since_ms, *account, since_ms, since_ms),
        )
        return frozenset({*((str(chat), str(id)) for chat, id in received), *_pairs(sent)})

    def lost_beside(self, turn: str, address: Address) -> tuple[int, bool]:
        """Return how many messages of other turns in a chat have unknown ids, and true if one of them is not settled.

        Such turns run side by side in the threads of a chat.
        """
        chat = (address.channel, address.account, address.chat)
        streams = self._database.read(
            """SELECT watched.turn, streamed - json_array_length(CAST(shown AS TEXT)) AS lost, ended_at_ms
            FROM watched JOIN turns USING (turn) WHERE lost > 0 AND turn != ?
            AND turn IN (SELECT turn FROM inbox WHERE channel = ? AND account = ? AND chat = ?)""",
            *(turn, *chat),
        )
        sending = self._database.read(
            """SELECT count(*) FROM owed WHERE state = 'sending' AND turn != ?
            AND channel = ? AND account = ? AND chat = ?""",
            *(turn, *chat),
        )[0][0]
        is_open = any(ended is None or self.has_pending_replies(other) for other, _, ended in streams)
        return int(sending) + sum(int(lost) for _, lost, _ in streams), bool(is_open or sending)

    def unknown_in_turn(self, turn: str, key: str, notices: Sequence[str]) -> bool:
        """Return true if a reply of a turn other than this one may be in its chat without a known id.

        :param notices: keys of the notices about this reply; one that was sent twice may be there twice.
        """
        rows = self._database.read(
            "SELECT key, state, repeated FROM owed WHERE turn = ? AND (state = 'sending' OR repeated > 0)",
            turn,
        )
        return any(
            repeated > 0 if other in notices else state == "sending" and other != key
            for other, state, repeated in rows
        )

    def repeated_since(self, address: Address, since_ms: int) -> list[tuple[Outbound, int]]:
        """Return the replies delivered to a chat since a time of which more messages may be there, and how many.

        The first mark of a reply may stand for a lost message of a stream, which is counted with its turn.
        """
        rows = self._database.read(
            """SELECT body, repeated - (coalesce(streamed > json_array_length(CAST(shown AS TEXT)), 0)) FROM owed
            LEFT JOIN watched USING (turn) WHERE repeated > 0 AND state = 'paid' AND sent_at_ms >= ?
            AND channel = ? AND account = ? AND chat = ?""",
            *(since_ms, address.channel, address.account, address.chat),
        )
        return [(msgspec.json.decode(body, type=Outbound), int(count)) for body, count in rows]

    def handed_over(self, key: str) -> tuple[bool, int]:
        """Return true if a reply is with its channel and its arrival is unknown, and how often it was sent although it
        may have arrived."""
        rows = self._database.read("SELECT state = 'sending', repeated FROM owed WHERE key = ?", key)
        return (bool(rows[0][0]), int(rows[0][1])) if rows else (False, 0)

    def reply_time_ms(self, key: str) -> int:
        """Return the time at which a reply was recorded; 0 for an unknown key."""
        rows = self._database.read("SELECT owed_at_ms FROM owed WHERE key = ?", key)
        return int(rows[0][0]) if rows else 0

    def began_at_ms(self, turn: str) -> int:
        """Return the time at which a turn began first; 0 for an unknown turn."""
        rows = self._database.read("SELECT began_at_ms FROM turns WHERE turn = ?", turn)
        return int(rows[0][0]) if rows else 0

    def delivered_ids(self, turn: str) -> tuple[str, ...]:
        """Return the ids of the messages that the replies of a turn became, in the order of the replies, each once: a
        reply may have taken the place of the notice about it."""
        rows = self._database.read(
            "SELECT message_ids FROM owed WHERE turn = ? AND message_ids IS NOT NULL ORDER BY number", turn
        )
        return tuple(dict.fromkeys(id for (ids,) in rows for id in msgspec.json.decode(ids)))

    def has_pending_replies(self, turn: str) -> bool:
        """Return true if a reply of a turn must still be delivered."""
        return bool(
            self._database.read(
                "SELECT 1 FROM owed WHERE turn = ? AND state IN ('owed', 'sending') LIMIT 1", turn
            )
        )

    def clear_repeated(self, turn: str) -> None:
        """Record that no reply of a turn is in its chat twice."""
        self._database.write("UPDATE owed SET repeated = 0 WHERE turn = ? AND repeated > 0", turn)

    def take_back_repeat(self, key: str) -> None:
        """Record that the newest repeat of a reply was not sent."""
        self._database.write("UPDATE owed SET repeated = repeated - 1 WHERE key = ? AND repeated > 0", key)

    def clear_repeats(self, keys: Sequence[str]) -> None:
        """Record that none of these replies is in its chat twice."""
        sql = "UPDATE owed SET repeated = 0 WHERE key = ? AND repeated > 0"
        self._database.write_all(*((sql, (key,)) for key in keys))

    def ended_with_lost_messages(self, since_ms: int) -> tuple[tuple[str, Outbound], ...]:
        """Return the turns that began since then and are answered, and a delivered reply of each, in whose chats a part
        of a stream may be left."""
        rows = self._database.read(
            """SELECT turns.turn, (SELECT body FROM owed WHERE owed.turn = turns.turn AND state = 'paid'
             ORDER BY number DESC LIMIT 1) AS reply FROM watched JOIN turns USING (turn)
            WHERE began_at_ms > ? AND ended_at_ms IS NOT NULL
            AND streamed > json_array_length(CAST(shown AS TEXT)) AND reply IS NOT NULL""",
            since_ms,
        )
        return tuple((turn, msgspec.json.decode(body, type=Outbound)) for turn, body in rows)


def _pairs(rows: list[tuple[str, bytes]]) -> list[tuple[str, str]]:
    return [(str(chat), str(id)) for chat, ids in rows for id in msgspec.json.decode(ids)]
