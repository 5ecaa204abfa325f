"""A turn log: what a restart must know of the turns before it, in three tables of ``state.db``."""

from claw import hookimpl

TABLES = (
    "CREATE TABLE IF NOT EXISTS acme_turns (turn TEXT PRIMARY KEY, session TEXT, outcome TEXT)",
    "CREATE TABLE IF NOT EXISTS acme_calls (turn TEXT, call TEXT, PRIMARY KEY (turn, call))",
    "CREATE TABLE IF NOT EXISTS acme_messages (turn TEXT, number INTEGER, PRIMARY KEY (turn, number))",
)


class AcmeTurnLog:
    name = "acme-turn-log"

    def __init__(self, database):
        self._database = database
        database.tables("acme-turn-log", *TABLES)

    def began(self, turn, session_key, numbers, again=False):
        self._database.write("INSERT OR IGNORE INTO acme_turns VALUES (?, ?, NULL)", turn, session_key)
        for number in numbers:
            self.joined(turn, number)

    def joined(self, turn, number):
        self._database.write("INSERT OR IGNORE INTO acme_messages VALUES (?, ?)", turn, number)

    def once(self, turn, call):
        # One row was written: nobody began this call before. The row survives a crash, so that the call runs once.
        return self._database.write("INSERT OR IGNORE INTO acme_calls VALUES (?, ?)", turn, call) == 1

    def not_begun(self, turn, call):
        self._database.write("DELETE FROM acme_calls WHERE turn = ? AND call = ?", turn, call)

    def ended(self, turn, outcome, owed=(), more=()):
        # One commit: either the turn ended and the statements of others are there, or neither.
        ended = ("UPDATE acme_turns SET outcome = ? WHERE turn = ?", (outcome, turn))
        self._database.write_all(ended, *more)

    def is_over(self, turn):
        rows = self._database.read("SELECT outcome FROM acme_turns WHERE turn = ?", turn)
        return bool(rows and rows[0][0])


@hookimpl
def register_turn_logs(config):
    return [AcmeTurnLog(config.database)]
