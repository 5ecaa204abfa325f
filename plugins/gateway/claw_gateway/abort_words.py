"""Abort words: detect a message that as a whole asks the running turn to stop. Pure."""

import unicodedata

ABORT_WORDS = frozenset({
    "/stop", "stop", "esc", "abort", "wait", "exit", "interrupt", "halt",
    "stop please", "please stop", "stop action", "stop run", "stop agent", "stop the agent", "stop doing anything",
    "stop claw",
    "停止", "やめて", "止めて", "стоп", "arrête", "arrete", "pare",
})  # fmt: skip
"""Words that stop a running turn (spec runtime C9). Only the whole message counts: "don't stop" does not stop it."""


def is_abort(text: str) -> bool:
    """Return true if ``text`` is an abort word; case, outer blanks and punctuation at the end are ignored."""
    if len(text) > 100:
        return False
    words = unicodedata.normalize("NFC", text).lower().split()
    joined = " ".join(words)
    while joined and (joined[-1] == " " or unicodedata.category(joined[-1]).startswith("P")):
        joined = joined[:-1]
    return joined in ABORT_WORDS
