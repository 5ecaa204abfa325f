"""A summary by a model, in as few calls as it takes; whatever that model does, this comes to an end.

The model is a callable. It may echo, stay empty, fail or hang: what it did not summarise is told by ``digest``.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from claw.compaction import instructions, split
from claw.compaction.digest import appendix, asked_for, digest
from claw.compaction.rendering import framed, told
from claw.transcript import CHARS_PER_TOKEN, Message
from claw.truncation import truncate

MOST_CALLS = 3
"""Model calls for one compaction, tries included (P43)."""

LEAST_TO_SPLIT = 4
_PAUSES = (0.5, 2.0, 5.0)
_OVERHEAD_TOKENS = 4096  # for the instructions and the answer
_ECHO_SHARE = 0.9
_ASKED_CHARS = 400

Write = Callable[[str, str], Awaitable[str]]
"""Instructions and material → a text; it raises ``Exception`` when there is none."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be summarised.

    :param history: whole turns, oldest first. ``prefix``: the beginning of the turn that is cut through.
    :param previous: the summary so far.
    :param window_tokens: of the model that writes; ``density`` real tokens for one that is estimated.
    :param most_chars: of the summary.
    :param extra: :func:`instructions.extra`.
    """

    history: tuple[Message, ...]
    prefix: tuple[Message, ...]
    previous: str
    window_tokens: int
    most_chars: int
    extra: str = ""
    density: float = 1.0


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of it.

    :param text: what to keep.
    :param calls: model calls made.
    :param written: how many of them gave a text; 0 = nothing here is a model's.
    """

    text: str
    calls: int
    written: int


@dataclass
class _Writer:
    """The callable with the calls that are left; ``reserved`` ones are for what comes later."""

    write: Write
    pause: Callable[[float], Awaitable[None]]
    task: Task
    most_calls: int
    calls: int = 0
    written: int = 0
    reserved: int = 0
    is_lost: bool = False

    @property
    def left(self) -> int:
        return 0 if self.is_lost else self.most_calls - self.calls - self.reserved

    async def ask(self, material: str, *rules: str) -> str:
        """A text for this; empty when there is none after as many tries as are left."""
        told_to = "\n\n".join(filter(None, (instructions.SUMMARISE, *rules, self.task.extra)))
        failures = 0
        while self.left > 0:
            if failures:
                await self.pause(_PAUSES[min(failures, len(_PAUSES)) - 1])
            self.calls += 1
            try:
                text = (await self.write(told_to, material)).strip()
            except Exception as why:  # noqa: BLE001 - a stranger's code: this is one failed try
                failures += 1
                self.is_lost = getattr(why, "retryable", True) is False
                continue
            if text and not self._is_echo(text, material):
                self.written += 1
                return _within(text, self.task.most_chars)
        return ""

    def _is_echo(self, text: str, material: str) -> bool:
        return len(text) > self.task.most_chars and len(text) > len(material) * _ECHO_SHARE


async def summarise(
    task: Task, write: Write, pause: Callable[[float], Awaitable[None]], most_calls: int = MOST_CALLS
) -> Summary:
    """Summarise, in at most ``most_calls`` calls of ``write``; the rest is done without a model.

    History that fits is one call; halves that fit are a call each and one that merges them; else pieces in order, each
    with the summary so far, the oldest told by :func:`digest` when there are too many.

    :param pause: waits between tries, in seconds.
    """
    writer = _Writer(write, pause, task, most_calls, reserved=int(bool(task.prefix and task.history)))
    text = await _history(writer) if task.history else task.previous
    writer.reserved = 0
    if task.prefix:
        text = "\n\n".join(filter(None, (text, await _prefix(writer))))
    rest = appendix([*task.history, *task.prefix])
    rest = truncate(rest, task.most_chars // 4, min_keep=task.most_chars // 8)
    whole = "\n\n".join(filter(None, (_within(text, task.most_chars), rest)))
    return Summary(whole, writer.calls, writer.written)


async def _history(writer: _Writer) -> str:
    task = writer.task
    paragraphs = [told(message) for message in task.history]
    limit = _piece_tokens(task, _tokens(paragraphs, task.density))
    most = max(200, int(limit / task.density / split.MARGIN) * CHARS_PER_TOKEN)
    paragraphs = [truncate(text, most, min_keep=most // 4) for text in paragraphs]
    costs = _tokens(paragraphs, task.density)
    if len(costs) >= LEAST_TO_SPLIT and sum(costs) * split.MARGIN > limit:
        halves = split.by_share(costs)
        small = all(sum(costs[at] for at in half) * split.MARGIN <= limit for half in halves)
        if small and writer.left > len(halves):
            return await _merged(writer, halves, paragraphs)
    return await _in_pieces(writer, split.by_size(costs, limit), paragraphs)


async def _merged(writer: _Writer, halves: Sequence[range], paragraphs: Sequence[str]) -> str:
    """Each half by itself, then one text of both; a second try of a half is at the cost of that one."""
    task, parts = writer.task, []
    for behind, half in zip(range(len(halves) - 1, -1, -1), halves, strict=True):
        writer.reserved += behind
        part = await writer.ask(framed([paragraphs[at] for at in half]))
        writer.reserved -= behind
        parts.append(part or digest([task.history[at] for at in half], "", task.most_chars // 2))
    sections = [f"Part {number}:\n{part}" for number, part in enumerate(parts, 1)]
    rules = (instructions.MERGE, instructions.UPDATE) if task.previous else (instructions.MERGE,)
    merged = await writer.ask(framed(sections, task.previous), *rules) if writer.written else ""
    share = task.most_chars // (len(parts) + 1)
    return merged or "\n\n".join(_within(part, share) for part in (task.previous, *parts) if part)


async def _in_pieces(writer: _Writer, pieces: Sequence[range], paragraphs: Sequence[str]) -> str:
    """Piece after piece, each with the summary so far. What is beyond the calls that are left is digested: the oldest,
    and each piece that got no text."""
    task = writer.task
    first = max(0, len(pieces) - max(1, writer.left))
    so_far = task.previous
    if first:
        so_far = digest(task.history[: pieces[first].start], so_far, task.most_chars // 2)
    for behind, piece in zip(range(len(pieces) - first - 1, -1, -1), pieces[first:], strict=True):
        writer.reserved += behind
        rules = (instructions.UPDATE,) if so_far else ()
        text = await writer.ask(framed([paragraphs[at] for at in piece], so_far), *rules)
        writer.reserved -= behind
        so_far = text or digest([task.history[at] for at in piece], so_far, task.most_chars)
    return so_far


async def _prefix(writer: _Writer) -> str:
    task = writer.task
    paragraphs = [told(message) for message in task.prefix]
    room = (
        _piece_tokens(task, _tokens(paragraphs, task.density)) / task.density / split.MARGIN * CHARS_PER_TOKEN
    )
    shrink = min(1.0, room / max(1, sum(map(len, paragraphs))))
    if shrink < 1:
        least = ((text, max(200, int(len(text) * shrink))) for text in paragraphs)
        paragraphs = [truncate(text, most, min_keep=most // 4) for text, most in least]
    text = await writer.ask(framed(paragraphs), instructions.PREFIX)
    asked = "\n".join(asked_for(task.prefix[:1], _ASKED_CHARS))
    text = text or digest(task.prefix[1:], "", task.most_chars // 2)
    return "\n".join(filter(None, ("## The turn that is going on, until here", asked, text)))


def _piece_tokens(task: Task, costs: Sequence[int]) -> int:
    """How much one call may be shown: the share of the window that the rule gives, more when there would be too many
    calls, and never so little that nothing is."""
    window = task.window_tokens
    by_ratio = int(window * split.chunk_ratio(costs, window)) - _OVERHEAD_TOKENS
    needed = sum(costs) * split.MARGIN / MOST_CALLS * 1.1
    most = window * 0.6 - _OVERHEAD_TOKENS - len(task.previous) / CHARS_PER_TOKEN * task.density
    return int(max(by_ratio, min(needed, most), window // 8))


def _tokens(paragraphs: Sequence[str], density: float) -> list[int]:
    return [int((len(text) // CHARS_PER_TOKEN + 1) * density) for text in paragraphs]


def _within(text: str, most_chars: int) -> str:
    return truncate(text, most_chars, min_keep=most_chars // 4)
