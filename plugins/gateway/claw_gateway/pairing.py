"""Pairing: an unknown sender of a direct message asks and gets a code; the owner approves the code.

Kept in ``state.db``, so that the gateway and a command see the same state, also after a restart. A paired
person may write in direct chats of that account, and nothing else: pairing never makes anybody an owner.
"""

import secrets
import unicodedata
from dataclasses import dataclass

import msgspec
from claw import Address, ClawError, Sender, UsageError
from claw.runtime import PAIRED_PEOPLE, SYSTEM_CLOCK, Clock, Database, paired_people

CODE_CHARS = 8
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # 32 signs without 0, 1, I and O: eight of them are 40 bits
VALID_SECONDS = 3600
MAX_PENDING = 3
"""Limit of open requests per account: many unknown senders can neither fill the disk nor hide each other's
requests.
"""
WRONG_CODES, LOCKED_SECONDS = 10, 900
_NAME_CHARS = 64
TABLES = (
    """CREATE TABLE IF NOT EXISTS pairing_requests
    (code TEXT PRIMARY KEY, channel TEXT NOT NULL, account TEXT NOT NULL, sender TEXT NOT NULL, name TEXT NOT NULL,
     asked_at_ms INTEGER NOT NULL, denied INTEGER NOT NULL DEFAULT 0,
     UNIQUE (channel, account, sender)) WITHOUT ROWID""",
    PAIRED_PEOPLE,
    "CREATE TABLE IF NOT EXISTS pairing_guesses (at_ms INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS pairing_chats
    (code TEXT PRIMARY KEY, address BLOB NOT NULL, approved INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
)


@dataclass(frozen=True, slots=True)
class PairingEntry:
    """A person who asked to be paired, or who is paired.

    :param sender: their id on that channel; ``name`` is the name they chose, made printable.
    :param at: seconds since 1970: the time of the request, or of the approval.
    :param code: the code they got; empty once they are paired.
    """

    channel: str
    account: str
    sender: str
    name: str
    at: float
    code: str = ""


class Pairing:
    """The open requests and the paired people."""

    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self._database, self._clock = database, clock
        database.tables("pairing", *TABLES)

    def request_code(
        self, channel: str, account: str, sender: Sender, chat: Address | None = None
    ) -> str | None:
        """Return the code for an unknown sender: the same one while it is valid.

        :param chat: where they wrote; they are greeted there once they are paired.
        :returns: None when they get none: too many requests are open on this account, they were denied within
            the hour, are paired already, or have no id.
        """
        account_key = (_normalised(channel), account.strip())
        if not sender.id.strip() or sender.id in self.paired(*account_key):
            return None
        now = self._clock.now_ms()
        self._database.write(
            "DELETE FROM pairing_requests WHERE asked_at_ms <= ?", now - VALID_SECONDS * 1000
        )
        self._database.write(
            """INSERT OR IGNORE INTO pairing_requests (code, channel, account, sender, name, asked_at_ms)
               SELECT ?, ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM pairing_requests
               WHERE channel = ? AND account = ? AND NOT denied) < ?""",
            *(_new_code(), *account_key, sender.id, _printable(sender.name or sender.username), now),
            *(*account_key, MAX_PENDING),
        )
        found = self._database.read(
            "SELECT code FROM pairing_requests WHERE channel = ? AND account = ? AND sender = ? AND NOT denied",
            *(*account_key, sender.id),
        )
        if found and chat:
            self._database.write_all(
                (
                    "DELETE FROM pairing_chats WHERE NOT approved AND code NOT IN (SELECT code FROM pairing_requests)",
                    (),
                ),
                (
                    "INSERT OR IGNORE INTO pairing_chats (code, address) VALUES (?, ?)",
                    (found[0][0], msgspec.json.encode(chat)),
                ),
            )
        return str(found[0][0]) if found else None

    def pending(self) -> tuple[PairingEntry, ...]:
        """Return all open requests, oldest first."""
        rows = self._database.read(
            """SELECT channel, account, sender, name, asked_at_ms / 1000.0, code FROM pairing_requests
               WHERE asked_at_ms > ? AND NOT denied ORDER BY asked_at_ms, code""",
            self._clock.now_ms() - VALID_SECONDS * 1000,
        )
        return tuple(PairingEntry(*row) for row in rows)

    def approve(self, code: str) -> PairingEntry:
        """Pair the person who got ``code``.

        :raises UsageError: the code is blank.
        :raises ClawError: no open request has that code; too many wrong codes were tried.
        """
        person = self._request_of(code)
        who = (person.channel, person.account, person.sender)
        self._database.write_all(
            (
                "INSERT OR REPLACE INTO pairing_people VALUES (?, ?, ?, ?, ?)",
                (*who, person.name, self._clock.now_ms()),
            ),
            ("DELETE FROM pairing_requests WHERE code = ?", (person.code,)),
            ("UPDATE pairing_chats SET approved = 1 WHERE code = ?", (person.code,)),
        )
        return person

    def to_greet(self) -> tuple[tuple[str, Address], ...]:
        """Return code and chat of the people who were paired and do not know it yet."""
        rows = self._database.read("SELECT code, address FROM pairing_chats WHERE approved")
        return tuple((str(code), msgspec.json.decode(body, type=Address)) for code, body in rows)

    def greeted(self, code: str) -> None:
        """Record that the person who got ``code`` was greeted."""
        self._database.write("DELETE FROM pairing_chats WHERE code = ?", code)

    def deny(self, code: str) -> PairingEntry:
        """Deny the person who got ``code``: they get no new code until this one would have expired.

        :raises UsageError: the code is blank.
        :raises ClawError: too many wrong codes were tried.
        """
        person = self._request_of(code)
        self._database.write("UPDATE pairing_requests SET denied = 1 WHERE code = ?", person.code)
        return person

    def paired(self, channel: str, account: str = "default") -> frozenset[str]:
        """Return the ids of the people who are paired on one account."""
        return paired_people(self._database, channel, account)

    def people(self) -> tuple[PairingEntry, ...]:
        """Return all paired people."""
        rows = self._database.read(
            """SELECT channel, account, sender, name, since_ms / 1000.0 FROM pairing_people
               ORDER BY channel, account, since_ms, sender"""
        )
        return tuple(PairingEntry(*row) for row in rows)

    def unpair(self, channel: str, account: str, sender: str) -> bool:
        """Remove a paired person; return False when they were not paired."""
        gone = self._database.write(
            "DELETE FROM pairing_people WHERE channel = ? AND account = ? AND sender = ?",
            *(_normalised(channel), account.strip(), sender.strip()),
        )
        return gone == 1

    def _request_of(self, code: str) -> PairingEntry:
        """Return the request with that code. Wrong codes are counted; too many lock approval for a while."""
        now = self._clock.now_ms()
        recent = now - LOCKED_SECONDS * 1000
        [(wrong, oldest)] = self._database.read(
            "SELECT count(*), min(at_ms) FROM pairing_guesses WHERE at_ms > ?", recent
        )
        if wrong >= WRONG_CODES:
            minutes = -(-(oldest - recent) // 60_000)
            raise ClawError(
                "too many wrong codes were entered; no code is accepted now",
                fix="Try again in {minutes:minute|minutes}",
                minutes=minutes,
            )
        wanted = "".join(char for char in code.upper() if char not in " -")
        if not wanted:
            raise UsageError(
                "the code is blank", fix="claw pairing list shows pending requests and their codes"
            )
        for person in self.pending():
            if secrets.compare_digest(person.code.encode(), wanted.encode("utf-8", "replace")):
                return person
        self._database.write_all(
            ("DELETE FROM pairing_guesses WHERE at_ms <= ?", (recent,)),
            ("INSERT INTO pairing_guesses VALUES (?)", (now,)),
        )
        raise ClawError(
            "no pending request has the code {code}",
            fix="claw pairing list shows pending requests; a code is valid for an hour",
            code=_printable(code),
        )


def _new_code() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(CODE_CHARS))


def _normalised(channel: str) -> str:
    return channel.strip().lower()


def _printable(name: str) -> str:
    """Return a name that an unknown sender chose without characters that steer a terminal or change text
    direction.
    """
    shown = "".join(char for char in name if unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp", "Cs"))
    return " ".join(shown.split())[:_NAME_CHARS]
