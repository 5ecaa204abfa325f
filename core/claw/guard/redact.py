"""Redaction: what no log, error, approval or copy may show. By known value, by shape, and by the name before it.

Every pattern takes linear time: a scan that may fail is bounded, or starts where the one before it ended.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from claw.guard.shapes import MASK, is_reference, is_secret_name, mask_shapes, spellings

_SHORTEST_KNOWN = 4  # longer than the mask, so that masking always shortens; and no everyday word disappears
_MOST_PASSES = 8


class Redactor:
    """Masks secrets in text and in data. ``redact(redact(x)) == redact(x)``, and no known value is ever in a result.

    :param known: secret values of this house, also masked percent-encoded, JSON-escaped and in base64; those under 4
        characters are ignored.
    :param patterns: regular expressions from ``logging.redactPatterns``; what they match is masked.
    """

    def __init__(self, known: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._known: list[str] = []
        self.learn(known)
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)

    def learn(self, known: Iterable[str]) -> None:
        """More values that are secret from now on."""
        values = (value.strip() for value in known)
        written = {s for value in values if len(value) >= _SHORTEST_KNOWN for s in spellings(value)}
        self._known = sorted(written.union(self._known), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """``text`` with every secret masked."""
        for _ in range(_MOST_PASSES):
            masked = self._once(text)
            if masked == text:
                break
            text = masked  # a mask may have cut open what hid another secret
        return text

    def data(self, value: Any, secret: bool = False) -> Any:
        """JSON-like data with every secret masked, by content and by the name of its key; numbers stay numbers.

        :param secret: all texts and numbers in ``value`` are secret, unless they only refer to a secret.
        """
        match value:
            case str():
                return MASK if secret and value and not is_reference(value) else self(value)
            case dict():
                hidden = secret and not is_reference(value)
                return {
                    self.data(key): self.data(item, hidden or is_secret_name(key))
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.data(item, secret) for item in value]
            case bytes():
                return self.data(value.decode("utf-8", "replace"), secret)
            case int() | float() if secret and not isinstance(value, bool):
                return MASK
        return value

    def _once(self, text: str) -> str:
        text = mask_shapes(self.known_masked(text))
        for pattern in self._patterns:
            text = pattern.sub(lambda found: MASK if found.group() else "", text)
        return self.known_masked(text)

    def known_masked(self, text: str) -> str:
        """``text`` without the values we know to be secret; what merely looks like one stays, so that a file that a
        model edits is the file that it read."""
        for value in self._known:
            while value in text:
                text = text.replace(value, MASK)
        return text


def redact(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with every secret masked: of a known shape, after a telling name, or one of ``known``."""
    return _redactor(tuple(known))(text)


@lru_cache(maxsize=4)
def _redactor(known: tuple[str, ...]) -> Redactor:
    return Redactor(known)
