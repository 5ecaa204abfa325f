"""Summary by a model, with a bounded number of calls.

The model is a callable. It may echo, return nothing, fail or time out; ``digest`` covers what it did not summarise.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from claw import Message
from claw.runtime import CHARS_PER_TOKEN, truncate

from claw_context import instructions, split
from claw_context.digest import digest, summary_appendix, user_requests
from claw_context.rendering import cut_text, frame, render_message, result_limit

MAX_CALLS = 3
"""Model calls for one compaction, tries included (P43)."""

MIN_MESSAGES_TO_SPLIT = 4
_PAUSES = (0.5, 2.0, 5.0)
_OVERHEAD_TOKENS = 4096  # for the instructions and the answer
_ECHO_SHARE = 0.9
_REQUEST_CHARS = 400
_MOST_SHARE = 0.6  # of the window, for the input of one call
_MIN_PARAGRAPH_CHARS = 160
_SHRINK = 0.85  # the step in which paragraphs are shortened
_CUT_MARK = " [… cut]"

WriteSummary = Callable[[str, str], Awaitable[str]]
"""Instructions and material → a text; raises ``Exception`` on failure."""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """The input of a summary.

    :param history: whole turns, oldest first.
    :param prefix: the beginning of the turn that is split.
    :param previous: the summary so far.
    :param window_tokens: context window of the summarising model.
    :param max_chars: maximum length of the summary.
    :param extra_instructions: :func:`instructions.extra`.
    :param tokens_per_estimate: real tokens per estimated token.
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
    :param successful_calls: number of calls that returned a text; 0 = the summary is made without a model.
    :param unread: number of messages that no successful call has read; :func:`digest` covers them.
    :param shortened: number of messages that a successful call has read in part, because they did not fit.
    """

    text: str
    calls: int
    successful_calls: int
    unread: int = 0
    shortened: int = 0


@dataclass
class _BoundedWriter:
    """The callable with its remaining calls; ``reserved`` calls are for later pieces.

    :param result_chars: maximum length of a tool result in the material (:func:`result_limit`).
    """

    write: WriteSummary
    pause: Callable[[float], Awaitable[None]]
    task: SummaryTask
    most_calls: int
    result_chars: int | None
    calls: int = 0
    written: int = 0
    unread: int = 0
    shortened: int = 0
    reserved: int = 0
    has_given_up: bool = False

    @property
    def left(self) -> int:
        return 0 if self.has_given_up else self.most_calls - self.calls - self.reserved

    def count(self, messages: Sequence[Message], paragraphs: Sequence[str], has_read: bool) -> None:
        """Count what a call has not read, or has read in part, of the messages that its paragraphs stand for."""
        pairs = zip(messages, paragraphs, strict=True)
        self.unread += 0 if has_read else len(messages)
        self.shortened += has_read and sum(render_message(message) != text for message, text in pairs)

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
                return cut_text(text, self.task.max_chars)
        return ""

    def _is_echo(self, text: str, material: str) -> bool:
        return len(text) > self.task.max_chars and len(text) > len(material) * _ECHO_SHARE


async def summarise(
    task: SummaryTask,
    write: WriteSummary,
    pause: Callable[[float], Awaitable[None]],
    most_calls: int = MAX_CALLS,
) -> Summary:
    """Summarise in at most ``most_calls`` calls of ``write``; every message is in the material of one of them.

    A history that fits takes one call; halves that fit take a call each and one to merge them; else even pieces are
    summarised in order, each with the summary so far. The beginning of a split turn has a call of its own only while
    the history leaves one. What no call could summarise is kept by :func:`digest`.

    :param pause: waits between tries, in seconds.
    """
    limit = result_limit([*task.history, *task.prefix], _chars_of_one_call(task))
    writer = _BoundedWriter(write, pause, task, most_calls, limit)
    history, prefix = task.history, task.prefix
    joined = bool(history and prefix) and len(_by_ratio(task, history, limit)) >= most_calls
    if joined:
        history, prefix = (*history, *prefix), ()
    writer.reserved = int(bool(history and prefix))
    text = task.previous
    if history:
        last_rule = instructions.ENDS_IN_TURN if joined else ""
        text = await _summarise_messages(writer, history, task.previous, last_rule=last_rule)
    writer.reserved = 0
    if task.prefix:
        section = await _summarise_messages(writer, prefix, "", instructions.PREFIX) if prefix else ""
        asked = "\n".join(user_requests(task.prefix[:1], _REQUEST_CHARS))
        parts = (
            text,
            "## The turn that is going on, until here\n" + "\n".join(filter(None, (asked, section))),
        )
        text = "\n\n".join(filter(None, parts))
    rest = summary_appendix([*task.history, *task.prefix])
    rest = truncate(rest, task.max_chars // 4, min_keep=task.max_chars // 8)
    whole = "\n\n".join(filter(None, (cut_text(text, task.max_chars), rest)))
    return Summary(whole, writer.calls, writer.written, writer.unread, writer.shortened)


async def _summarise_messages(
    writer: _BoundedWriter, messages: Sequence[Message], previous: str, rule: str = "", last_rule: str = ""
) -> str:
    """Summarise messages in all calls that are left.

    :param rule: for each piece; ``last_rule``: for the last one.
    """
    task = writer.task
    paragraphs = [render_message(message, writer.result_chars) for message in messages]
    costs = _tokens(paragraphs, task.tokens_per_estimate)
    wanted = _wanted_tokens(task, costs)
    if len(costs) >= MIN_MESSAGES_TO_SPLIT and sum(costs) * split.MARGIN > wanted and not rule:
        halves = split.split_into(costs, split.DEFAULT_PARTS)
        small = all(sum(costs[at] for at in half) * split.MARGIN <= wanted for half in halves)
        if small and writer.left > len(halves):
            return await _summarise_halves(writer, messages, halves, paragraphs)
    needed = len(split.split_by_size(costs, wanted))
    count = max(1, min(needed, writer.left))
    whole, limit = _most_tokens(task, previous), max(wanted, _most_tokens(task, "x" * task.max_chars))
    if count == 1 or (max(costs) * split.MARGIN > limit and sum(costs) * split.MARGIN <= whole):
        count, limit = 1, max(wanted, whole)  # what is too large for a piece may fit together with the rest
    fitted = _fitted(paragraphs, count, limit, task.tokens_per_estimate)
    left_out = sum(not text for text in fitted)
    if left_out:
        writer.unread += left_out
        previous = digest(messages[:left_out], previous, task.max_chars // 2)
    pieces = split.split_into(_tokens(fitted[left_out:], task.tokens_per_estimate), count)
    moved = [range(piece.start + left_out, piece.stop + left_out) for piece in pieces]
    return await _summarise_pieces(writer, messages, moved, fitted, previous, (rule, last_rule))


def _fitted(paragraphs: Sequence[str], count: int, limit_tokens: int, density: float) -> list[str]:
    """Shorten the longest paragraphs until ``count`` even pieces hold them all.

    No paragraph gets shorter than a minimum; when even that is too much, the oldest ones become empty.
    """
    lengths = [len(text) for text in paragraphs]
    most = max(lengths, default=0)
    least = min(most, _MIN_PARAGRAPH_CHARS)

    def fits(lengths: Sequence[int]) -> bool:
        costs = [_tokens_of(length, density) for length in lengths]
        return len(split.split_by_size(costs, limit_tokens)) <= count and (
            max(costs, default=0) * split.MARGIN <= limit_tokens
        )

    while most > least and not fits([min(length, most) for length in lengths]):
        most = max(least, int(most * _SHRINK))
    start = 0
    while start < len(lengths) - 1 and not fits([min(length, most) for length in lengths[start:]]):
        start += 1
    short = [truncate(text, most, _CUT_MARK, min_keep=most // 4) for text in paragraphs[start:]]
    return [*[""] * start, *short]


async def _summarise_halves(
    writer: _BoundedWriter, messages: Sequence[Message], halves: Sequence[range], paragraphs: Sequence[str]
) -> str:
    """Summarise each half, then merge both; a second try for a half uses up the call for the merge."""
    task, parts = writer.task, []
    for behind, half in zip(range(len(halves) - 1, -1, -1), halves, strict=True):
        writer.reserved += behind
        part = await writer.ask(frame([paragraphs[at] for at in half]))
        writer.reserved -= behind
        writer.count(messages[half.start : half.stop], paragraphs[half.start : half.stop], bool(part))
        parts.append(part or digest([messages[at] for at in half], "", task.max_chars // 2))
    sections = [f"Part {number}:\n{part}" for number, part in enumerate(parts, 1)]
    rules = (instructions.MERGE, instructions.UPDATE) if task.previous else (instructions.MERGE,)
    merged = await writer.ask(frame(sections, task.previous), *rules) if writer.written else ""
    share = task.max_chars // (len(parts) + 1)
    return merged or "\n\n".join(cut_text(part, share) for part in (task.previous, *parts) if part)


async def _summarise_pieces(
    writer: _BoundedWriter,
    messages: Sequence[Message],
    pieces: Sequence[range],
    paragraphs: Sequence[str],
    so_far: str,
    rules: tuple[str, str],
) -> str:
    """Summarise the pieces in order, each with the summary so far; a piece for which no call succeeded is digested.

    :param rules: for each piece, and for the last one.
    """
    each, last = rules
    for behind, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        writer.reserved += behind
        update = instructions.UPDATE if so_far else ""
        material = frame([paragraphs[at] for at in piece], so_far)
        text = await writer.ask(material, *filter(None, (each, update, "" if behind else last)))
        writer.reserved -= behind
        writer.count(messages[piece.start : piece.stop], paragraphs[piece.start : piece.stop], bool(text))
        so_far = text or digest([messages[at] for at in piece], so_far, writer.task.max_chars)
    return so_far


def _by_ratio(task: SummaryTask, messages: Sequence[Message], result_chars: int | None) -> tuple[range, ...]:
    """Return the pieces of the size that is best for a summary, whatever their number."""
    paragraphs = [render_message(message, result_chars) for message in messages]
    costs = _tokens(paragraphs, task.tokens_per_estimate)
    return split.split_by_size(costs, _wanted_tokens(task, costs))


def _wanted_tokens(task: SummaryTask, costs: Sequence[int]) -> int:
    """Return the input tokens of one call by rule: a share of the window, at least an eighth."""
    window = task.window_tokens
    return max(int(window * split.chunk_ratio(costs, window)) - _OVERHEAD_TOKENS, window // 8)


def _most_tokens(task: SummaryTask, previous: str) -> int:
    """Return the input tokens that one call takes beside a summary so far, when there would be too many calls."""
    beside = len(previous) / CHARS_PER_TOKEN * task.tokens_per_estimate
    return int(task.window_tokens * _MOST_SHARE - _OVERHEAD_TOKENS - beside)


def _chars_of_one_call(task: SummaryTask) -> int:
    """Return the characters up to which no result is cut: as many as one call takes, about half of the window."""
    return int(_most_tokens(task, task.previous) / split.MARGIN / task.tokens_per_estimate) * CHARS_PER_TOKEN


def _tokens(paragraphs: Sequence[str], density: float) -> list[int]:
    return [_tokens_of(len(text), density) for text in paragraphs]


def _tokens_of(chars: int, density: float) -> int:
    return int((chars // CHARS_PER_TOKEN + 1) * density)
