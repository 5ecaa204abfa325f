"""Pruning: shorten old tool results in a request when the provider's cache has expired anyway. Pure.

The history on disk is unchanged; the agent can read a result again. Semantics: spec/runtime.md F11.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from claw import Assistant, Image, Message, Text, Thinking, ToolResultMessage, User
from claw.runtime import CHARS_PER_TOKEN, IMAGE_CHARS, estimate_tokens, matches_pattern, normalise_tool_name


@dataclass(frozen=True, slots=True)
class Pruning:
    """The pruning rules of an agent.

    :param soft_ratio: share of the window above which long results keep only head and tail; ``hard_ratio``:
        above which the oldest are replaced by ``placeholder``.
    :param allow: names or patterns of tools whose results may be cut; None = all but those of ``deny``.
    """

    keep_last_assistants: int = 3
    soft_ratio: float = 0.3
    hard_ratio: float = 0.5
    min_chars: int = 50_000
    max_chars: int = 4000
    head_chars: int = 1500
    tail_chars: int = 1500
    clears: bool = True
    placeholder: str = "[Old tool result removed to save space]"
    allow: Collection[str] | None = None
    deny: Collection[str] = ()


def prune(messages: Sequence[Message], window_tokens: int, how: Pruning) -> Mapping[int, ToolResultMessage]:
    """Return the tool results to be sent in shorter form, by their index; empty when nothing is to be pruned.

    Candidates are behind the first user message and before the n-th last answer; those with images stay
    whole.
    """
    window = window_tokens * CHARS_PER_TOKEN
    sizes = [_chars(message) for message in messages]
    total = sum(sizes)
    candidates = _candidates(messages, how)
    if window <= 0 or total / window < how.soft_ratio:
        return {}
    changed: dict[int, ToolResultMessage] = {}
    for at, result in candidates.items():
        if (short := _trimmed(result, how)) is not None:
            changed[at] = short
            total += _chars(short) - sizes[at]
    prunable = sum(_chars(changed.get(at, result)) for at, result in candidates.items())
    if how.clears and total / window >= how.hard_ratio and prunable >= how.min_chars:
        for at, result in candidates.items():
            if total / window < how.hard_ratio:
                break
            cleared = msgspec.structs.replace(result, content=(Text(how.placeholder),))
            total += _chars(cleared) - _chars(changed.get(at, result))
            changed[at] = cleared
    return changed


def _candidates(messages: Sequence[Message], how: Pruning) -> dict[int, ToolResultMessage]:
    first = next((at for at, message in enumerate(messages) if isinstance(message, User)), len(messages))
    answers = [at for at, message in enumerate(messages) if isinstance(message, Assistant)]
    if how.keep_last_assistants > len(answers):
        return {}
    end = answers[-how.keep_last_assistants] if how.keep_last_assistants else len(messages)
    return {
        at: message
        for at, message in enumerate(messages[:end])
        if at > first
        and isinstance(message, ToolResultMessage)
        and not any(isinstance(block, Image) for block in message.content)
        and _is_prunable(message.tool_name, how)
    }


def _is_prunable(tool: str, how: Pruning) -> bool:
    name = normalise_tool_name(tool)
    if any(matches_pattern(normalise_tool_name(entry), name) for entry in how.deny):
        return False
    return not how.allow or any(matches_pattern(normalise_tool_name(entry), name) for entry in how.allow)


def _trimmed(result: ToolResultMessage, how: Pruning) -> ToolResultMessage | None:
    """Return head and tail of a long result with a note of its size; None when it is short enough."""
    text = result.text
    if len(text) <= how.max_chars or how.head_chars + how.tail_chars >= len(text):
        return None
    head, tail = text[: how.head_chars], text[len(text) - how.tail_chars :]
    note = f"[Cut: the first {len(head)} and last {len(tail)} of {len(text)} characters are shown.]"
    return msgspec.structs.replace(result, content=(Text(f"{head}\n...\n{tail}\n\n{note}"),))


def _chars(message: Message) -> int:
    chars = 0
    for block in message.content:
        if isinstance(block, Text | Thinking):
            chars += len(block.text)
        elif isinstance(block, Image):
            chars += IMAGE_CHARS
        else:  # a call: its arguments as JSON
            return estimate_tokens(message) * CHARS_PER_TOKEN
    return chars
