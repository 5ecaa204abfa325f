"""A limit for log lines of the same cause, such as a full disk: one a second; the others are counted."""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

BURST = 20
"""Lines of one cause that differ in a number or an id may follow each other at once, as the findings of a start do."""
_SECONDS, _KEPT_SECONDS = 1.0, 60.0
_VARIABLE = re.compile(r"\b[0-9a-f]{8}[0-9a-f-]*\b|\b\d+\b")


@dataclass
class RepeatedCause:
    """The lines of one cause.

    :ivar left: lines that may be written at once; one more each second.
    :ivar written: the texts of the last second, each with its moment.
    :ivar omitted: lines that were not written and not reported yet; ``last`` is the newest of them.
    """

    left: float = BURST
    moment: float = 0.0
    written: dict[str, float] = field(default_factory=dict)
    omitted: int = 0
    last: Any = None


class RepeatLimit:
    """The causes of the last minute. Moments are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._causes: dict[Hashable, RepeatedCause] = {}

    def admit(self, origin: Hashable, text: str, now: float, line: Any) -> int | None:
        """Return the number of lines of this cause that were omitted before this line; None = omit it too.

        :param origin: lines with another origin have another cause.
        :param line: given back by :meth:`due` when it is the newest of the omitted ones.
        """
        cause = self._causes.setdefault((origin, _VARIABLE.sub("#", text)), RepeatedCause(moment=now))
        cause.left, cause.moment = min(BURST, cause.left + now - cause.moment), now
        if cause.left < 1 or now - cause.written.get(text, -_SECONDS) < _SECONDS:
            cause.omitted, cause.last = cause.omitted + 1, line
            return None
        cause.left -= 1
        cause.written = {one: at for one, at in cause.written.items() if now - at < _SECONDS} | {text: now}
        omitted, cause.omitted = cause.omitted, 0
        return omitted

    def due(self, now: float, *, everything: bool = False) -> Iterator[tuple[Any, int]]:
        """Yield the newest omitted line and the number of omitted lines of each cause that may have a line now.

        :param everything: do not wait for the end of the second.
        """
        for key, cause in list(self._causes.items()):
            is_quiet = all(now - at >= _SECONDS for at in cause.written.values())
            if cause.omitted and (everything or (is_quiet and cause.left + now - cause.moment >= 1)):
                cause.left, cause.moment = cause.left + now - cause.moment - 1, now
                yield cause.last, cause.omitted
                cause.omitted, cause.last = 0, None
            elif not cause.omitted and now - cause.moment > _KEPT_SECONDS:
                del self._causes[key]
