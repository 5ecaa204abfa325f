"""A turn log and a session store: turns, calls, messages and transcripts in tables of ``state.db``."""

from uuid import uuid4

from claw import hookimpl
from claw.runtime import BaseSession, decode_record

TABLES = (
    "CREATE TABLE IF NOT EXISTS acme_turns (turn TEXT PRIMARY KEY, session TEXT, outcome TEXT, why TEXT)",
    "CREATE TABLE IF NOT EXISTS acme_calls (turn TEXT, call TEXT, PRIMARY KEY (turn, call))",
    "CREATE TABLE IF NOT EXISTS acme_messages (turn TEXT, number INTEGER, PRIMARY KEY (turn, number))",
)
SESSION_TABLES = (
    "CREATE TABLE IF NOT EXISTS acme_sessions (key TEXT, id TEXT)",
    "CREATE TABLE IF NOT EXISTS acme_records (id TEXT, line BLOB)",
)


class AcmeTurnLog:
    name = "acme-turn-log"

    def __init__(self, database):
        self._database = database
        database.tables("acme-turn-log", *TABLES)

    def began(self, turn, session_key, numbers, again=False):
        self._database.write("INSERT OR IGNORE INTO acme_turns VALUES (?, ?, NULL, NULL)", turn, session_key)
        for number in numbers:
            self.joined(turn, number)

    def joined(self, turn, number):
        self._database.write("INSERT OR IGNORE INTO acme_messages VALUES (?, ?)", turn, number)

    def once(self, turn, call):
        # One row was written: no process began this call before. The row survives a crash, so that the call runs once.
        return self._database.write("INSERT OR IGNORE INTO acme_calls VALUES (?, ?)", turn, call) == 1

    def not_begun(self, turn, call):
        self._database.write("DELETE FROM acme_calls WHERE turn = ? AND call = ?", turn, call)

    def ended(self, turn, outcome, replies=(), more=(), why=""):
        # One commit: either the turn ended and the statements of others are there, or neither.
        ended = ("UPDATE acme_turns SET outcome = ?, why = ? WHERE turn = ?", (outcome, why, turn))
        self._database.write_all(ended, *more)

    def is_over(self, turn):
        rows = self._database.read("SELECT outcome FROM acme_turns WHERE turn = ?", turn)
        return bool(rows and rows[0][0])


class AcmeSession(BaseSession):
    """A session whose records are rows, one line of JSON each."""

    def __init__(self, database, key, agent_id):
        self._database = database
        rows = database.read("SELECT id FROM acme_sessions WHERE key = ? ORDER BY rowid DESC LIMIT 1", key)
        id = rows[0][0] if rows else self._began(key)
        lines = database.read("SELECT line FROM acme_records WHERE id = ? ORDER BY rowid", id)
        super().__init__(key, agent_id, id, [record for (line,) in lines if (record := decode_record(line))])

    def write(self, entry, line):
        self._database.write("INSERT INTO acme_records VALUES (?, ?)", self.id, line)

    async def reset(self):
        self.start_over(self._began(self.key))  # the rows of the old session stay

    def _began(self, key):
        id = str(uuid4())
        self._database.write("INSERT INTO acme_sessions VALUES (?, ?)", key, id)
        return id


class AcmeSessions:
    name = "acme-turn-log"

    def __init__(self, database):
        self._database, self._open = database, {}
        database.tables("acme-sessions", *SESSION_TABLES)

    async def open(self, key, agent_id):
        # A chat command may open a session while a turn has it open: both get the same object.
        if key not in self._open:
            self._open[key] = AcmeSession(self._database, key, agent_id)
        return self._open[key]


@hookimpl
def register_turn_logs(config):
    return [AcmeTurnLog(config.database)]


@hookimpl
def register_session_stores(config):
    return [AcmeSessions(config.database)]
