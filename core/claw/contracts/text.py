"""Texts and digests of tool calls and their results. Pure.

A long result keeps its head, and its tail too if the tail looks important: an error, the end of a JSON
document, a total.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from claw.contracts.transcript import Image, Text

OMISSION_MARK = "\n\n⚠️ [... middle content omitted — showing head and tail ...]\n\n"
MIN_KEEP = 2000
_TAIL_CHECKED = 2000
_TAIL_MAX = 4000
_IMPORTANT = re.compile(
    r"\b(error|exception|failed|fatal|traceback|panic|stack trace|errno|exit code"
    r"|total|summary|result|complete|finished|done)\b"
)


# Control characters of terminals, and marks that change the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    """Replace control characters and marks of text direction by their code, ``⟨U+001B⟩``, so that no text from outside
    can steer a terminal."""
    return _CONTROL.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def result_limit(context_tokens: int) -> int:
    """Return the limit in characters of one tool result for a model that reads ``context_tokens``.

    30 % of the window at 4 characters a token, at most 16,000; 32,000 from 100,000 tokens, 64,000 from
    200,000.
    """
    most = 64_000 if context_tokens >= 200_000 else 32_000 if context_tokens >= 100_000 else 16_000
    return min(context_tokens * 3 // 10 * 4, most)


def truncate(text: str, limit: int, suffix: str | None = None, min_keep: int = MIN_KEEP) -> str:
    """Cut ``text`` to ``limit`` characters, suffix included; shorter text is returned unchanged.

    :param suffix: ends a cut text; None = the number of omitted characters, with a hint what to do.
    :param min_keep: a tail is shown only when the head keeps more than this.
    """
    if len(text) <= limit:
        return text
    if suffix is None:
        suffix = f"\n[... {len(text) - limit} chars truncated; narrow args]"
    suffix = suffix[: max(limit, 0)]
    budget = max(limit - len(suffix), 0)
    min_keep = min(min_keep, budget)
    if budget > 2 * min_keep and _tail_matters(text):
        tail = min(budget * 3 // 10, _TAIL_MAX)
        head = budget - tail - len(OMISSION_MARK)
        if head > min_keep:
            return _head(text, head) + OMISSION_MARK + _tail(text, tail) + suffix
    return _head(text, budget) + suffix


def with_ellipsis(text: str, most: int) -> str:
    """Cut ``text`` to ``most`` characters; an ellipsis marks the cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def truncate_blocks(
    blocks: Sequence[Text | Image], limit: int, suffix: str | None = None
) -> tuple[Text | Image, ...]:
    """Cut several text blocks to ``limit`` characters together, each in proportion to its length; images stay.

    :param suffix: as in :func:`truncate`.
    """
    total = sum(len(block.text) for block in blocks if isinstance(block, Text))
    if total <= limit:
        return tuple(blocks)

    def cut(text: str) -> Text:
        return Text(truncate(text, len(text) * limit // total, suffix))

    return tuple(cut(block.text) if isinstance(block, Text) else block for block in blocks)


def _tail_matters(text: str) -> bool:
    tail = text[-_TAIL_CHECKED:].lower()
    return tail.rstrip().endswith("}") or _IMPORTANT.search(tail) is not None


def _head(text: str, size: int) -> str:
    """Return the first ``size`` characters, back to a line end when one is in their last fifth."""
    line_end = text.rfind("\n", 0, size + 1)
    return text[:line_end] if line_end > size * 0.8 else text[:size]


def _tail(text: str, size: int) -> str:
    """Return the last ``size`` characters, from the start of a line when one is in their first fifth."""
    start = len(text) - size
    line_end = text.find("\n", start)
    return text[line_end + 1 :] if 0 <= line_end - start < size * 0.2 else text[start:]


T = TypeVar("T")
_encode = msgspec.json.Encoder(enc_hook=repr).encode


def repair_text(text: str) -> str:
    """Join surrogate pairs, and replace a lone surrogate by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json(value: T) -> tuple[T, bytes]:
    """Return a dataclass or struct in encodable form, and its JSON. Objects unknown to JSON are encoded by
    their ``repr``.
    """
    try:
        return value, _encode(value)
    except UnicodeEncodeError:
        fixed: T = msgspec.convert(repair_tree(msgspec.to_builtins(value, enc_hook=repr)), type(value))
        return fixed, _encode(fixed)


def repair_tree(value: Any) -> Any:
    """Return the same JSON data with every text repaired."""
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, dict):
        return {repair_tree(key): repair_tree(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [repair_tree(entry) for entry in value]
    return value


def digest_of(*parts: Any) -> str:
    """Return a digest of JSON-like data: equal for equal data, independent of the order of keys."""
    written = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(written.encode()).hexdigest()


def format_arguments(arguments: Mapping[str, Any]) -> str:
    """Return all arguments of a call as readable text: a line each, multi-line texts as an indented block."""
    lines = []
    for name, value in arguments.items():
        if isinstance(value, str) and "\n" in value:
            lines.append(f"{name}:\n" + "\n".join(f"    {line}" for line in value.split("\n")))
        else:
            plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
            lines.append(f"{name}: {plain}")
    return "\n".join(lines)
