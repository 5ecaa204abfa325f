"""Findings of ``claw doctor``."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its fix.

    :param about: id of a plugin, a key, or a file; a channel that checks itself may leave it empty.
    :param kind: one word for programs, the same in every language.
    :param mend: the fix, as an instruction.
    :param grave: the finding affects the exit code; otherwise it is only reported.
    :param edit: key and value of the config file that fix it without a question to anybody.
    """

    about: str
    kind: str
    problem: str
    mend: str = ""
    grave: bool = True
    edit: tuple[str, Any] | None = None


LOADED, IDLE, DISABLED, BLOCKED = "loaded", "idle", "disabled", "blocked"
QUARANTINED, INCOMPATIBLE = "quarantined", "incompatible"
"""States of an installed plugin, as ``claw plugins list`` prints them."""
