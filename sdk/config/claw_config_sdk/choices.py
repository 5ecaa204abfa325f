"""A choice that a person types as the argument of a chat command."""

from collections.abc import Sequence

from claw import UsageError, nearest

DEFAULT = "default"
"""Clears an override: the agent's setting applies again."""

_SIMILARITY = 0.7


def parse_choice(word: str, known: Sequence[str]) -> str:
    """Return the known word that a person typed as the argument of a command; empty for ``default``.

    :raises UsageError: the word is unknown; the error names a near one.
    """
    wanted = word.strip().lower()
    if wanted == DEFAULT:
        return ""
    if wanted in known:
        return wanted
    near, words = nearest(wanted, known, _SIMILARITY), (*known, DEFAULT)
    fix = "did you mean {near}?" if near else ""
    raise UsageError("{word} is not one of: {known}", fix=fix, word=word, known=words, near=near)
