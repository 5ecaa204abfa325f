"""Summary by a model, with a bounded number of calls.

The model is a callable. It may echo, return nothing, fail or time out; ``digest`` covers what it did not summarise.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from claw import Message
from claw.runtime import CHARS_PER_TOKEN, truncate

from claw_context import instructions, split
from claw_context.digest import digest, summary_appendix, user_requests
from claw_context.rendering import frame, render_message

MAX_CALLS = 3
"""Model calls for one compaction, tries included (P43)."""

MIN_MESSAGES_TO_SPLIT = 4
_PAUSES = (0.5, 2.0, 5.0)
_OVERHEAD_TOKENS = 4096  # for the instructions and the answer
_ECHO_SHARE = 0.9
_REQUEST_CHARS = 400

WriteSummary = Callable[[str, str], Awaitable[str]]
"""Instructions and material → a text; raises ``Exception`` on failure."""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """The input of a summary.

    :param history: whole turns, oldest first.
    :param prefix: the beginning of the turn that is split.
    :param previous: the summary so far.
    :param window_tokens: context window of the summarising model.
    :param most_chars: maximum length of the summary.
    :param extra: :func:`instructions.extra`.
    :param density: real tokens per estimated token.
    """

    history: tuple[Message, ...]
    prefix: tuple[Message, ...]
    previous: str
    window_tokens: int
    max_chars: int
    extra_instructions: str = ""
    tokens_per_estimate: float = 1.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of :func:`summarise`.

    :param text: the summary.
    :param calls: number of model calls.
    :param written: number of calls that returned a text; 0 = the summary is made without a model.
    """

    text: str
    calls: int
    successful_calls: int


@dataclass
class _BoundedWriter:
    """The callable with its remaining calls; ``reserved`` calls are for later pieces."""

    write: WriteSummary
    pause: Callable[[float], Awaitable[None]]
    task: SummaryTask
    most_calls: int
    calls: int = 0
    written: int = 0
    reserved: int = 0
    has_given_up: bool = False

    @property
    def left(self) -> int:
        return 0 if self.has_given_up else self.most_calls - self.calls - self.reserved

    async def ask(self, material: str, *rules: str) -> str:
        """Return the model's text; empty when every remaining try fails."""
        prompt = "\n\n".join(filter(None, (instructions.SUMMARISE, *rules, self.task.extra_instructions)))
        failures = 0
        while self.left > 0:
            if failures:
                await self.pause(_PAUSES[min(failures, len(_PAUSES)) - 1])
            self.calls += 1
            try:
                text = (await self.write(prompt, material)).strip()
            except Exception as why:  # noqa: BLE001 - third-party code: this is one failed try
                failures += 1
                self.has_given_up = getattr(why, "retryable", True) is False
                continue
            if text and not self._is_echo(text, material):
                self.written += 1
                return _cut_to(text, self.task.max_chars)
        return ""

    def _is_echo(self, text: str, material: str) -> bool:
        return len(text) > self.task.max_chars and len(text) > len(material) * _ECHO_SHARE


async def summarise(
    task: SummaryTask,
    write: WriteSummary,
    pause: Callable[[float], Awaitable[None]],
    most_calls: int = MAX_CALLS,
) -> Summary:
    """Summarise in at most ``most_calls`` calls of ``write``, the rest without a model.

    A history that fits takes one call; halves that fit take a call each and one to merge them; else the pieces are
    summarised in order, each with the summary so far, and the oldest by :func:`digest` when there are too many.

    :param pause: waits between tries, in seconds.
    """
    writer = _BoundedWriter(write, pause, task, most_calls, reserved=int(bool(task.prefix and task.history)))
    text = await _summarise_history(writer) if task.history else task.previous
    writer.reserved = 0
    if task.prefix:
        text = "\n\n".join(filter(None, (text, await _summarise_prefix(writer))))
    rest = summary_appendix([*task.history, *task.prefix])
    rest = truncate(rest, task.max_chars // 4, min_keep=task.max_chars // 8)
    whole = "\n\n".join(filter(None, (_cut_to(text, task.max_chars), rest)))
    return Summary(whole, writer.calls, writer.written)


async def _summarise_history(writer: _BoundedWriter) -> str:
    task = writer.task
    paragraphs = [render_message(message) for message in task.history]
    limit = _piece_tokens(task, _tokens(paragraphs, task.tokens_per_estimate))
    most = max(200, int(limit / task.tokens_per_estimate / split.MARGIN) * CHARS_PER_TOKEN)
    paragraphs = [truncate(text, most, min_keep=most // 4) for text in paragraphs]
    costs = _tokens(paragraphs, task.tokens_per_estimate)
    if len(costs) >= MIN_MESSAGES_TO_SPLIT and sum(costs) * split.MARGIN > limit:
        halves = split.split_evenly(costs)
        small = all(sum(costs[at] for at in half) * split.MARGIN <= limit for half in halves)
        if small and writer.left > len(halves):
            return await _summarise_halves(writer, halves, paragraphs)
    return await _summarise_pieces(writer, split.split_by_size(costs, limit), paragraphs)


async def _summarise_halves(
    writer: _BoundedWriter, halves: Sequence[range], paragraphs: Sequence[str]
) -> str:
    """Summarise each half, then merge both; a second try for a half uses up the call for the merge."""
    task, parts = writer.task, []
    for behind, half in zip(range(len(halves) - 1, -1, -1), halves, strict=True):
        writer.reserved += behind
        part = await writer.ask(frame([paragraphs[at] for at in half]))
        writer.reserved -= behind
        parts.append(part or digest([task.history[at] for at in half], "", task.max_chars // 2))
    sections = [f"Part {number}:\n{part}" for number, part in enumerate(parts, 1)]
    rules = (instructions.MERGE, instructions.UPDATE) if task.previous else (instructions.MERGE,)
    merged = await writer.ask(frame(sections, task.previous), *rules) if writer.written else ""
    share = task.max_chars // (len(parts) + 1)
    return merged or "\n\n".join(_cut_to(part, share) for part in (task.previous, *parts) if part)


async def _summarise_pieces(
    writer: _BoundedWriter, pieces: Sequence[range], paragraphs: Sequence[str]
) -> str:
    """Summarise the pieces in order, each with the summary so far. Without a model: the oldest pieces beyond the
    remaining calls, and each piece for which no call succeeded."""
    task = writer.task
    first = max(0, len(pieces) - max(1, writer.left))
    so_far = task.previous
    if first:
        so_far = digest(task.history[: pieces[first].start], so_far, task.max_chars // 2)
    for behind, piece in zip(range(len(pieces) - first - 1, -1, -1), pieces[first:], strict=True):
        writer.reserved += behind
        rules = (instructions.UPDATE,) if so_far else ()
        text = await writer.ask(frame([paragraphs[at] for at in piece], so_far), *rules)
        writer.reserved -= behind
        so_far = text or digest([task.history[at] for at in piece], so_far, task.max_chars)
    return so_far


async def _summarise_prefix(writer: _BoundedWriter) -> str:
    task = writer.task
    paragraphs = [render_message(message) for message in task.prefix]
    room = (
        _piece_tokens(task, _tokens(paragraphs, task.tokens_per_estimate))
        / task.tokens_per_estimate
        / split.MARGIN
        * CHARS_PER_TOKEN
    )
    shrink = min(1.0, room / max(1, sum(map(len, paragraphs))))
    if shrink < 1:
        least = ((text, max(200, int(len(text) * shrink))) for text in paragraphs)
        paragraphs = [truncate(text, most, min_keep=most // 4) for text, most in least]
    text = await writer.ask(frame(paragraphs), instructions.PREFIX)
    asked = "\n".join(user_requests(task.prefix[:1], _REQUEST_CHARS))
    text = text or digest(task.prefix[1:], "", task.max_chars // 2)
    return "\n".join(filter(None, ("## The turn that is going on, until here", asked, text)))


def _piece_tokens(task: SummaryTask, costs: Sequence[int]) -> int:
    """Return the input tokens of one call: the share of the window by rule, more when there would be too many calls,
    at least an eighth of the window."""
    window = task.window_tokens
    by_ratio = int(window * split.chunk_ratio(costs, window)) - _OVERHEAD_TOKENS
    needed = sum(costs) * split.MARGIN / MAX_CALLS * 1.1
    most = window * 0.6 - _OVERHEAD_TOKENS - len(task.previous) / CHARS_PER_TOKEN * task.tokens_per_estimate
    return int(max(by_ratio, min(needed, most), window // 8))


def _tokens(paragraphs: Sequence[str], density: float) -> list[int]:
    return [int((len(text) // CHARS_PER_TOKEN + 1) * density) for text in paragraphs]


def _cut_to(text: str, most_chars: int) -> str:
    return truncate(text, most_chars, min_keep=most_chars // 4)
