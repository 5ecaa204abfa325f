"""Redaction: what no log, error, approval or copy may show. By known value, by shape, and by the name before it.

Every pattern takes linear time: a scan that may fail is bounded, or starts where the one before it ended.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from claw.guard.shapes import MASK, is_reference, is_secret_name, mask_shapes, spellings

_SHORTEST_KNOWN = 4  # longer than the mask, so that masking always shortens; and no everyday word disappears
_SHORTEST_TOLD = 8
_LONGEST_WORD = 11
_MOST_PASSES = 8


class Redactor:
    """Masks secrets in text and in data. ``redact(redact(x)) == redact(x)``, and no known value is ever in a result.

    :param known: secret values of this house, also masked percent-encoded, JSON-escaped and in base64; those under 4
        characters are ignored.
    :param patterns: regular expressions from ``logging.redactPatterns``; what they match is masked.
    """

    def __init__(self, known: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._known: list[str] = []
        self._told: frozenset[str] = frozenset()
        self.said = Said(())
        self.learn(known)
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)

    def learn(self, known: Iterable[str]) -> None:
        """More values that are secret from now on."""
        values = {stripped for value in known if len(stripped := value.strip()) >= _SHORTEST_KNOWN}
        written = {s for value in values for s in spellings(value)}
        self._known = sorted(written.union(self._known), key=len, reverse=True)
        told = self._told.union(*(spellings(value) for value in values if not _is_word(value)))
        if told != self._told:
            self._told, self.said = told, Said(told)

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


def _is_word(value: str) -> bool:
    """What may stand in an answer by chance: words like ``ollama`` are written where no key is needed."""
    return len(value) < _SHORTEST_TOLD or (
        len(value) <= _LONGEST_WORD and value.isascii() and value.isalpha()
    )


class Said:
    """The secrets of this house in what an agent says, as an answer may hold them; everyday words are none."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted(values)
        self._first = frozenset(value[0] for value in self._values)
        self._signs = "".join(set().union(*self._values))
        by_length = sorted(self._values, key=len, reverse=True)
        self._longest = len(by_length[0]) if by_length else 0
        self._shortest = len(by_length[-1]) if by_length else 0
        self._any = re.compile("|".join(map(re.escape, by_length)))

    def masked(self, text: str) -> str:
        """A whole text without them; what merely looks like a secret stays."""
        return self.certain(text, last=True)[0]

    def certain(self, text: str, last: bool = False) -> tuple[str, str]:
        """What may be shown of a text that grows, masked, and what is to be held back: it may become a secret."""
        cut = len(text) if last else self._open_from(text)
        shown: list[str] = []
        at = 0
        if len(text) >= self._shortest and any(value in text for value in self._values):
            for found in self._any.finditer(text):
                if found.start() >= cut:
                    break
                shown += (text[at : found.start()], MASK)
                at = found.end()
        cut = max(cut, at)
        return "".join((*shown, text[at:cut])), text[cut:]

    def _open_from(self, text: str) -> int:
        """Where the longest beginning of a secret starts that the text ends in."""
        least = max(
            len(text) - self._longest + 1, len(text.rstrip(self._signs)) if self._signs else len(text)
        )
        for at in range(least, len(text)):
            if text[at] in self._first:
                tail = text[at:]
                near = bisect_left(self._values, tail)
                if any(value.startswith(tail) and value != tail for value in self._values[near : near + 2]):
                    return at
        return len(text)


class Veil:
    """One answer that comes piece by piece: shown without the secrets, however they are cut."""

    def __init__(self, said: Said) -> None:
        self._said, self._rest = said, ""

    def feed(self, text: str) -> str:
        """What may be shown now."""
        shown, self._rest = self._said.certain(self._rest + text)
        return shown

    def end(self) -> str:
        """What was held back."""
        shown, self._rest = self._said.certain(self._rest, last=True)
        return shown


def redact(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with every secret masked: of a known shape, after a telling name, or one of ``known``."""
    return _redactor(tuple(known))(text)


@lru_cache(maxsize=4)
def _redactor(known: tuple[str, ...]) -> Redactor:
    return Redactor(known)
