"""The tables of requests and lasting permissions in ``state.db``, and the reading of their rows."""

import secrets
from dataclasses import dataclass

from claw import Address, ApprovalRequest, Sender
from claw.runtime import Database
from claw_channel_sdk import PendingApproval

TABLES = (
    """CREATE TABLE IF NOT EXISTS approvals
    (id TEXT PRIMARY KEY, session_key TEXT NOT NULL, agent TEXT NOT NULL, turn TEXT NOT NULL, tool TEXT NOT NULL,
     title TEXT NOT NULL, shown TEXT NOT NULL, digest TEXT NOT NULL, asked_by TEXT NOT NULL, grant_digest TEXT NOT NULL,
     channel TEXT NOT NULL, chat TEXT NOT NULL, account TEXT NOT NULL, thread TEXT,
     asked_at_ms INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL, shown_at_ms INTEGER,
     verdict TEXT, decided_by TEXT, decided_at_ms INTEGER, used_at_ms INTEGER) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS approvals_of_session ON approvals (session_key, digest)",
    """CREATE TABLE IF NOT EXISTS grants
    (id TEXT PRIMARY KEY, agent TEXT NOT NULL, tool TEXT NOT NULL, digest TEXT NOT NULL, title TEXT NOT NULL,
     shown TEXT NOT NULL, granted_by TEXT NOT NULL, granted_at_ms INTEGER NOT NULL, used_at_ms INTEGER NOT NULL,
     UNIQUE (agent, tool, digest)) WITHOUT ROWID""",
    # The requests whose message in a chat still has its buttons.
    "CREATE TABLE IF NOT EXISTS open_approval_messages (id TEXT PRIMARY KEY) WITHOUT ROWID",
)
PENDING_COLUMNS = (
    "id, session_key, agent, turn, tool, title, shown, digest, asked_by, grant_digest,"
    " channel, chat, account, thread, asked_at_ms, expires_at_ms"
)

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no letters that look alike
_ID_LETTERS = 9  # 44 bits
_FOR_OWNERS = "owners:"
"""Prefix of the stored digest of a request that only owners may answer."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A call that is always allowed; the grant expires after :data:`UNUSED_DAYS` without use."""

    id: str
    agent: str
    tool: str
    digest: str
    title: str
    shown: str
    granted_by: str
    granted_at_ms: int
    used_at_ms: int


class OpenMessages:
    """The requests whose message in a chat still has its buttons."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def requests(self) -> list[PendingApproval]:
        """Return these requests."""
        # CROSS JOIN keeps the order: a lookup for each open request, never a scan of all approvals.
        columns = f"SELECT {PENDING_COLUMNS} FROM open_approval_messages CROSS JOIN approvals USING (id)"
        return [pending_of(row) for row in self._database.read(columns)]

    def add(self, id: str) -> None:
        """Record that the message of this request has buttons."""
        self._database.write("INSERT OR IGNORE INTO open_approval_messages VALUES (?)", id)

    def take(self, id: str) -> bool:
        """Record that it has none; return false when that was recorded before."""
        return self._database.write("DELETE FROM open_approval_messages WHERE id = ?", id) == 1


def new_id() -> str:
    """Return a random id that a person can type."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LETTERS))


def stored_digest(request: ApprovalRequest) -> str:
    """Return the digest as it is stored: it tells who may answer."""
    return _FOR_OWNERS + request.digest if request.for_owners else request.digest


def sealed_facts(question: PendingApproval, verdict: str) -> tuple[str, ...]:
    """Return what the seal of an answer binds."""
    asked = question.request
    return question.id, asked.session_key, asked.turn, asked.tool, asked.shown, stored_digest(asked), verdict


def pending_of(row: tuple[object, ...]) -> PendingApproval:
    """Return the request of a row with :data:`PENDING_COLUMNS`."""
    id, session_key, agent, turn, tool, title, shown, digest, asked_by, grant, *rest = map(_text_or_none, row)
    channel, chat, account, thread, asked_at_ms, expires_at_ms = rest
    request = ApprovalRequest(
        session_key or "", agent or "", turn or "", tool or "", title or "", shown or "",
        (digest or "").removeprefix(_FOR_OWNERS), Address(channel or "", chat or "", account or "", thread),
        Sender((asked_by or "").partition(":")[2]) if asked_by else None, grant or "",
        for_owners=(digest or "").startswith(_FOR_OWNERS),
    )  # fmt: skip
    return PendingApproval(id or "", request, int(asked_at_ms or 0), int(expires_at_ms or 0))


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
