"""The fate of an accepted message, read from the tables of the journal."""

import msgspec
from claw import Outbound
from claw.runtime import Database
from claw_channel_sdk import MessageFate


def fate_of(database: Database, channel: str, account: str, event_pattern: str) -> MessageFate | None:
    """Return the fate of the newest matching message; None when no inbox row matches.

    :param event_pattern: of its event id; ``*`` stands for any text. A pattern that begins with a letter uses the index.
    """
    rows = database.read(
        """SELECT number, event_id, chat, state, inbox.turn, outcome, accepted_at_ms, ended_at_ms
        FROM inbox LEFT JOIN turns ON turns.turn = inbox.turn
        WHERE channel = ? AND account = ? AND event_id != '' AND event_id GLOB ? ORDER BY number DESC LIMIT 1""",
        *(channel, account, event_pattern),
    )
    if not rows:
        return None
    number, event_id, chat, state, turn, outcome, accepted_at_ms, ended_at_ms = rows[0]
    if state in ("new", "taken") and ended_at_ms is None:
        return MessageFate(event_id, chat, "", (), accepted_at_ms)
    replies = database.read(
        "SELECT body FROM owed WHERE turn IN (?, ?) ORDER BY number", f"in{number}", turn or ""
    )
    return MessageFate(
        event_id,
        chat,
        outcome or state,
        tuple(msgspec.json.decode(body, type=Outbound) for (body,) in replies),
        accepted_at_ms,
        ended_at_ms,
    )
