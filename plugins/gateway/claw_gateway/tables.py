"""The tables of the journal in ``state.db``."""

TABLES = (
    "DROP TABLE IF EXISTS inbound",  # an early schema without bodies
    """CREATE TABLE IF NOT EXISTS inbox
    (number INTEGER PRIMARY KEY, channel TEXT NOT NULL, account TEXT NOT NULL, chat TEXT NOT NULL,
     kind TEXT NOT NULL, event_id TEXT NOT NULL, message_id TEXT NOT NULL, accepted_at_ms INTEGER NOT NULL,
     body BLOB NOT NULL, state TEXT NOT NULL, turn TEXT)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS inbox_event ON inbox (channel, account, event_id) WHERE event_id != ''",
    """CREATE UNIQUE INDEX IF NOT EXISTS inbox_message
    ON inbox (channel, account, chat, message_id) WHERE kind = 'message' AND message_id != ''""",
    "DROP INDEX IF EXISTS inbox_open",  # an early index that no query used
    "CREATE INDEX IF NOT EXISTS inbox_new ON inbox (state) WHERE state = 'new'",
    "CREATE INDEX IF NOT EXISTS inbox_taken ON inbox (turn) WHERE state = 'taken'",
    """CREATE TABLE IF NOT EXISTS turns
    (turn TEXT PRIMARY KEY, session_key TEXT NOT NULL, began_at_ms INTEGER NOT NULL,
     ended_at_ms INTEGER, outcome TEXT) WITHOUT ROWID""",
    # Not a column of turns: an earlier version, which inserts rows of five columns, can use the file again.
    "CREATE TABLE IF NOT EXISTS causes (turn TEXT PRIMARY KEY, why TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS watched
    (turn TEXT PRIMARY KEY, attempts INTEGER NOT NULL, shown BLOB NOT NULL, streamed INTEGER NOT NULL)
    WITHOUT ROWID""",
    # counted: attempts of which the end is counted.
    """CREATE TABLE IF NOT EXISTS interruptions
    (turn TEXT PRIMARY KEY, crashes INTEGER NOT NULL, kills INTEGER NOT NULL, counted INTEGER NOT NULL)
    WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS effects
    (turn TEXT NOT NULL, call TEXT NOT NULL, PRIMARY KEY (turn, call)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS owed
    (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, turn TEXT NOT NULL, channel TEXT NOT NULL,
     account TEXT NOT NULL, chat TEXT NOT NULL, body BLOB NOT NULL, state TEXT NOT NULL, owed_at_ms INTEGER NOT NULL,
     sent_at_ms INTEGER, message_ids BLOB, repeated INTEGER NOT NULL DEFAULT 0, why TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX IF NOT EXISTS owed_open ON owed (state) WHERE state IN ('owed', 'sending')",
    "CREATE INDEX IF NOT EXISTS owed_retry ON owed (state) WHERE state = 'retry'",
    "CREATE INDEX IF NOT EXISTS owed_turn ON owed (turn)",
)
