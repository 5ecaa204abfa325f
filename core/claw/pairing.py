"""Pairing: how a stranger in a direct chat comes to be known. They ask and get a code; the owner approves it.

Kept in ``state.db``, so that the gateway and a command see the same, also after a restart. Who was paired may talk in
direct chats of that account, and nothing else: nobody becomes an owner here.
"""

import secrets
import unicodedata
from dataclasses import dataclass

from claw.clock import SYSTEM, Clock
from claw.errors import ClawError, UsageError
from claw.message import Sender
from claw.store import Database

CODE_CHARS = 8
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # 32 signs without 0, 1, I and O: eight of them are 40 bits
VALID_SECONDS = 3600
MOST_PENDING = 3
"""Requests of one account that may wait: a crowd of strangers can neither fill the disk nor hide one another."""
WRONG_CODES, LOCKED_SECONDS = 10, 900
_NAME_CHARS = 64
_TABLES = (
    """CREATE TABLE IF NOT EXISTS pairing_requests
    (code TEXT PRIMARY KEY, channel TEXT NOT NULL, account TEXT NOT NULL, sender TEXT NOT NULL, name TEXT NOT NULL,
     asked_at_ms INTEGER NOT NULL, denied INTEGER NOT NULL DEFAULT 0,
     UNIQUE (channel, account, sender)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS pairing_people
    (channel TEXT NOT NULL, account TEXT NOT NULL, sender TEXT NOT NULL, name TEXT NOT NULL,
     since_ms INTEGER NOT NULL, PRIMARY KEY (channel, account, sender)) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS pairing_guesses (at_ms INTEGER NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who asked to be paired, or who was.

    :param sender: their id on that channel; ``name`` is what they call themselves, fit to be printed.
    :param at: seconds since 1970: when they asked, or since when they are paired.
    :param code: what they were given; empty once they are paired.
    """

    channel: str
    account: str
    sender: str
    name: str
    at: float
    code: str = ""


class Pairing:
    """The requests that wait, and the people who were let in."""

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        self._database, self._clock = database, clock
        database.tables("pairing", *_TABLES)

    def ask(self, channel: str, account: str, sender: Sender) -> str | None:
        """The code of somebody who is not known yet: the same one while it is valid.

        :returns: None when they get none: too many wait on this account, they were denied within the hour, are paired
            already, or have no id.
        """
        place = (_place(channel), account.strip())
        if not sender.id.strip() or sender.id in self.paired(*place):
            return None
        now = self._clock.now_ms()
        self._database.write(
            "DELETE FROM pairing_requests WHERE asked_at_ms <= ?", now - VALID_SECONDS * 1000
        )
        self._database.write(
            """INSERT OR IGNORE INTO pairing_requests (code, channel, account, sender, name, asked_at_ms)
               SELECT ?, ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM pairing_requests
               WHERE channel = ? AND account = ? AND NOT denied) < ?""",
            *(_new_code(), *place, sender.id, _printable(sender.name or sender.username), now),
            *(*place, MOST_PENDING),
        )
        found = self._database.read(
            "SELECT code FROM pairing_requests WHERE channel = ? AND account = ? AND sender = ? AND NOT denied",
            *(*place, sender.id),
        )
        return str(found[0][0]) if found else None

    def pending(self) -> tuple[Person, ...]:
        """Everybody who waits to be let in, oldest first."""
        rows = self._database.read(
            """SELECT channel, account, sender, name, asked_at_ms / 1000.0, code FROM pairing_requests
               WHERE asked_at_ms > ? AND NOT denied ORDER BY asked_at_ms, code""",
            self._clock.now_ms() - VALID_SECONDS * 1000,
        )
        return tuple(Person(*row) for row in rows)

    def approve(self, code: str) -> Person:
        """Let the person in who was given ``code``.

        :raises UsageError: nobody who waits has that code.
        :raises ClawError: too many wrong codes were tried: for a while none is taken.
        """
        person = self._waiting(code)
        who = (person.channel, person.account, person.sender)
        self._database.write_all(
            (
                "INSERT OR REPLACE INTO pairing_people VALUES (?, ?, ?, ?, ?)",
                (*who, person.name, self._clock.now_ms()),
            ),
            ("DELETE FROM pairing_requests WHERE code = ?", (person.code,)),
        )
        return person

    def deny(self, code: str) -> Person:
        """Send the person away who was given ``code``: no further code until the hour of this one is over.

        :raises UsageError: nobody who waits has that code.
        :raises ClawError: too many wrong codes were tried.
        """
        person = self._waiting(code)
        self._database.write("UPDATE pairing_requests SET denied = 1 WHERE code = ?", person.code)
        return person

    def paired(self, channel: str, account: str = "default", lately: bool = False) -> frozenset[str]:
        """Ids of the people who were let in on one account.

        :param lately: as of a second ago is good enough.
        """
        ask = self._database.read_lately if lately else self._database.read
        rows = ask(
            "SELECT sender FROM pairing_people WHERE channel = ? AND account = ?",
            *(_place(channel), account.strip()),
        )
        return frozenset(sender for (sender,) in rows)

    def people(self) -> tuple[Person, ...]:
        """Everybody who was let in, anywhere."""
        rows = self._database.read(
            """SELECT channel, account, sender, name, since_ms / 1000.0 FROM pairing_people
               ORDER BY channel, account, since_ms, sender"""
        )
        return tuple(Person(*row) for row in rows)

    def forget(self, channel: str, account: str, sender: str) -> bool:
        """Take a person out again; False when they were not paired."""
        gone = self._database.write(
            "DELETE FROM pairing_people WHERE channel = ? AND account = ? AND sender = ?",
            *(_place(channel), account.strip(), sender.strip()),
        )
        return gone == 1

    def _waiting(self, code: str) -> Person:
        """The request of that code. Every wrong one is counted, and too many close the door for a while."""
        now = self._clock.now_ms()
        recent = now - LOCKED_SECONDS * 1000
        [(wrong, oldest)] = self._database.read(
            "SELECT count(*), min(at_ms) FROM pairing_guesses WHERE at_ms > ?", recent
        )
        if wrong >= WRONG_CODES:
            minutes = -(-(oldest - recent) // 60_000)
            raise ClawError(
                "too many wrong codes were tried, so none is taken now",
                fix="Try again in {minutes:minute|minutes}",
                minutes=minutes,
            )
        wanted = "".join(letter for letter in code.upper() if letter not in " -")
        if not wanted:
            raise UsageError("the code is blank", fix="claw pairing list shows who waits, and their codes")
        for person in self.pending():
            if secrets.compare_digest(person.code.encode(), wanted.encode("utf-8", "replace")):
                return person
        self._database.write_all(
            ("DELETE FROM pairing_guesses WHERE at_ms <= ?", (recent,)),
            ("INSERT INTO pairing_guesses VALUES (?)", (now,)),
        )
        raise UsageError(
            "nobody who waits has the code {code}",
            fix="claw pairing list shows who waits; a code is valid for an hour",
            code=_printable(code),
        )


def _new_code() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(CODE_CHARS))


def _place(channel: str) -> str:
    return channel.strip().lower()


def _printable(name: str) -> str:
    """A name that a stranger chose, without what could steer a terminal or turn the line round."""
    shown = "".join(
        letter for letter in name if unicodedata.category(letter) not in ("Cc", "Cf", "Zl", "Zp", "Cs")
    )
    return " ".join(shown.split())[:_NAME_CHARS]
