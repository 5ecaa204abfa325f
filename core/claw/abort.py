"""Abort words: whether a message as a whole asks the running turn to stop. Pure."""

import unicodedata

ABORT_WORDS = frozenset({
    "/stop", "stop", "esc", "abort", "wait", "exit", "interrupt", "halt",
    "stop please", "please stop", "stop action", "stop run", "stop agent", "stop the agent", "stop doing anything",
    "stop claw",
    "停止", "やめて", "止めて", "стоп", "arrête", "arrete", "pare",
})  # fmt: skip
"""What people type when an agent runs away (spec runtime C9). Only the whole message counts: "don't stop" runs on."""


def is_abort(text: str) -> bool:
    """Whether ``text`` is one of the abort words; case, blanks around and punctuation at the end do not count."""
    if len(text) > 100:
        return False
    words = unicodedata.normalize("NFC", text).lower().split()
    joined = " ".join(words)
    while joined and (joined[-1] == " " or unicodedata.category(joined[-1]).startswith("P")):
        joined = joined[:-1]
    return joined in ABORT_WORDS
