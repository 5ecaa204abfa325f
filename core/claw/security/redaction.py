"""Redaction of secrets in logs, errors, approvals and copies: by known value, by shape, and by the name before a value.

Every pattern takes linear time: a scan that can fail is bounded, or starts where the previous one ended.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from claw.security.secret_patterns import (
    MASK,
    is_secret_name,
    is_secret_reference,
    mask_patterns,
    secret_encodings,
)

_SHORTEST_KNOWN = 4  # longer than the mask, so that masking always shortens; and common words are kept
_SHORTEST_IN_ANSWERS = 8
_LONGEST_WORD = 11
_MOST_PASSES = 8


class Redactor:
    """Masking of secrets in text and in data. Idempotent, and a result never contains a known value.

    :param known: configured secret values, also masked percent-encoded, JSON-escaped and in base64; those under 4
        characters are ignored.
    :param patterns: regular expressions from ``logging.redactPatterns``; their matches are masked.
    """

    def __init__(self, known: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._known: list[str] = []
        self._answer_secrets: frozenset[str] = frozenset()
        self.answer_mask = KnownSecretMask(())
        self.add_values(known)
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)

    def add_values(self, known: Iterable[str]) -> None:
        """Add secret values, masked from now on."""
        values = {stripped for value in known if len(stripped := value.strip()) >= _SHORTEST_KNOWN}
        written = {s for value in values for s in secret_encodings(value)}
        self._known = sorted(written.union(self._known), key=len, reverse=True)
        rare = (secret_encodings(value) for value in values if not _is_common_word(value))
        secrets = self._answer_secrets.union(*rare)
        if secrets != self._answer_secrets:
            self._answer_secrets, self.answer_mask = secrets, KnownSecretMask(secrets)

    def __call__(self, text: str) -> str:
        """Return ``text`` with every secret masked."""
        for _ in range(_MOST_PASSES):
            masked = self._mask_once(text)
            if masked == text:
                break
            text = masked  # a mask may have exposed another secret
        return text

    def redact_data(self, value: Any, secret: bool = False) -> Any:
        """Return JSON-like data with every secret masked, by content and by key name; other values keep their type.

        :param secret: all texts and numbers in ``value`` are secret, except references to a secret.
        """
        match value:
            case str():
                return MASK if secret and value and not is_secret_reference(value) else self(value)
            case dict():
                hidden = secret and not is_secret_reference(value)
                return {
                    self.redact_data(key): self.redact_data(item, hidden or is_secret_name(key))
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.redact_data(item, secret) for item in value]
            case bytes():
                return self.redact_data(value.decode("utf-8", "replace"), secret)
            case int() | float() if secret and not isinstance(value, bool):
                return MASK
        return value

    def _mask_once(self, text: str) -> str:
        text = mask_patterns(self.mask_known(text))
        for pattern in self._patterns:
            text = pattern.sub(lambda found: MASK if found.group() else "", text)
        return self.mask_known(text)

    def mask_known(self, text: str) -> str:
        """Return ``text`` with known secret values masked only. Text that merely looks like a secret is kept, so that
        the file a model edits matches the file it read."""
        for value in self._known:
            while value in text:
                text = text.replace(value, MASK)
        return text


def _is_common_word(value: str) -> bool:
    """Return true for a value that may occur in an answer by chance, such as ``ollama``, a placeholder for a key that
    is not needed."""
    return len(value) < _SHORTEST_IN_ANSWERS or (
        len(value) <= _LONGEST_WORD and value.isascii() and value.isalpha()
    )


class KnownSecretMask:
    """Masking of known secret values in answers of an agent, whole or streamed; common words are not masked."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted(values)
        self._characters = "".join(set().union(*self._values))
        by_length = sorted(self._values, key=len, reverse=True)
        self._longest, self._shortest = (len(by_length[0]), len(by_length[-1])) if by_length else (0, 0)
        self._pattern = re.compile("|".join(map(re.escape, by_length)))

    def masked(self, text: str) -> str:
        """Return a complete text with them masked; text that merely looks like a secret is kept."""
        return self.certain(text, last=True)[0]

    def certain(self, text: str, last: bool = False) -> tuple[str, str]:
        """Split a growing text into the masked part that may be shown, and the rest that may become a secret.

        A stream holds the rest back, and puts it before its next chunk: a secret that chunks split is masked too.

        :param last: the text is complete, so nothing is held back.
        """
        cut = len(text) if last else self._prefix_start(text)
        shown: list[str] = []
        at = 0
        if len(text) >= self._shortest and any(value in text for value in self._values):
            for found in self._pattern.finditer(text):
                if found.start() >= cut:
                    break
                shown += (text[at : found.start()], MASK)
                at = found.end()
        cut = max(cut, at)
        return "".join((*shown, text[at:cut])), text[cut:]

    def _prefix_start(self, text: str) -> int:
        """Return the start of the longest prefix of a secret at the end of the text; its length if there is none."""
        least = max(len(text) - self._longest + 1, len(text.rstrip(self._characters)))
        for at in range(least, len(text)):
            tail = text[at:]
            near = bisect_left(self._values, tail)
            if any(value.startswith(tail) and value != tail for value in self._values[near : near + 2]):
                return at
        return len(text)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """Return ``text`` with every secret masked: of a known shape, after the name of a secret, or one of ``known``."""
    return Redactor(known)(text)
