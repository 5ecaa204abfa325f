"""Something that the doctor has to say."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and what to do.

    :param about: id of a plugin, a key, or a file; a channel that looks at itself may leave it empty.
    :param kind: one word, the same in every language, for programs.
    :param mend: what to do.
    :param grave: it counts for the exit code; else it is only told.
    :param edit: key and value of the config file that mend it without asking anybody.
    """

    about: str
    kind: str
    problem: str
    mend: str = ""
    grave: bool = True
    edit: tuple[str, Any] | None = None
