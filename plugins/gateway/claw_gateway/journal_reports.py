"""Reports from the journal for the commands: turns, waiting messages, undelivered replies."""

from typing import Any

from claw.runtime import Database

_OPEN_ONLY = """WHERE ended_at_ms IS NULL
    OR turn IN (SELECT turn FROM owed WHERE state NOT IN ('paid', 'dismissed'))"""


class JournalReports:
    """The part of the journal that reports."""

    _database: Database

    def turns(self, limit: int = 50, open_only: bool = False) -> list[dict[str, Any]]:
        """Return the newest turns with their session, times, outcome and cause, and pending or undeliverable replies.

        ``served``: it is of a channel, and the next start resumes it; otherwise a terminal waited for
        its answer.
        """
        rows = self._database.read(
            f"""SELECT turn, session_key, began_at_ms, ended_at_ms, outcome, coalesce(attempts, 1),
            (SELECT count(*) FROM owed WHERE owed.turn = turns.turn AND state IN ('owed', 'sending', 'retry')),
            (SELECT group_concat(state || ': ' || why, '; ') FROM owed
             WHERE owed.turn = turns.turn AND state IN ('refused', 'expired', 'unknown', 'dismissed')),
            (SELECT coalesce(sum(repeated), 0) FROM owed WHERE owed.turn = turns.turn), attempts IS NOT NULL,
            coalesce(causes.why, '')
            FROM turns LEFT JOIN watched USING (turn) LEFT JOIN causes USING (turn)
            {_OPEN_ONLY if open_only else ""}
            ORDER BY began_at_ms DESC LIMIT ?""",
            limit,
        )
        names = ("turn", "session", "beganAtMs", "endedAtMs", "outcome", "attempts", "owed", "undelivered")
        return [dict(zip((*names, "possiblyRepeated", "served", "why"), row, strict=True)) for row in rows]

    def unanswered(self) -> list[dict[str, Any]]:
        """Return the chats with messages that no turn has taken: how many, and since when."""
        rows = self._database.read(
            """SELECT channel, account, chat, count(*), min(accepted_at_ms) FROM inbox WHERE state = 'new'
            GROUP BY channel, account, chat ORDER BY min(number)"""
        )
        names = ("channel", "account", "chat", "messages", "sinceMs")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def replies_without_turn(self) -> list[dict[str, Any]]:
        """Return pending and undeliverable replies of no turn: answers to commands, pairing codes …"""
        rows = self._database.read(
            """SELECT turn, channel, account, chat, owed_at_ms, state, why FROM owed
            WHERE state NOT IN ('paid', 'dismissed') AND turn NOT IN (SELECT turn FROM turns) ORDER BY number"""
        )
        names = ("turn", "channel", "account", "chat", "owedAtMs", "state", "why")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def counts(self) -> tuple[int, int]:
        """Return the number of messages that wait for a turn, and of replies that are pending."""
        ((waiting,),) = self._database.read("SELECT count(*) FROM inbox WHERE state = 'new'")
        ((pending,),) = self._database.read("SELECT count(*) FROM owed WHERE state IN ('owed', 'sending')")
        return waiting, pending

    def answered_count(self, channel: str) -> int:
        """Return the number of messages of a channel that became part of a turn that ended."""
        ((count,),) = self._database.read(
            "SELECT count(*) FROM inbox WHERE channel = ? AND state = 'answered'", channel
        )
        return int(count)
