"""Cutting texts into messages. Pure."""

from claw.channel import Limits


def split_text(text: str, limits: Limits) -> tuple[str, ...]:
    """Cut ``text`` into messages that fit, at a paragraph, else a line, else a blank, else anywhere.

    The white space at a cut goes; everything else stays, in order. A character is never halved.
    """
    parts: list[str] = []
    while text := text.strip("\n"):
        end = _most(text, limits)
        if end < len(text):
            end = _cut(text, end)
        parts.append(text[:end].rstrip())
        text = text[end:].lstrip(" ")
    return tuple(part for part in parts if part)


def _most(text: str, limits: Limits) -> int:
    """How many characters of ``text`` fit into one message; at least one."""
    if not limits.utf16:
        return max(limits.text_chars, 1)
    units = 0
    for at, letter in enumerate(text):
        units += 2 if ord(letter) > 0xFFFF else 1
        if units > limits.text_chars:
            return max(at, 1)
    return len(text)


def _cut(text: str, end: int) -> int:
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, end // 2, end + 1)
        if at > 0:
            return at
    return end
