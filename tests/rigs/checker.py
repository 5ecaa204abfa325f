"""The invariants of a gateway that was killed many times: an independent model, in plain data.

It uses no code of claw. A history is the view of the platforms and the content of the disk once nothing runs;
``faults`` names each violation in it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

LABEL = re.compile(r"\bm(\d+)p(\d+)x(\d+)\b")


@dataclass(frozen=True)
class Asked:
    """A message of a person.

    :param kind: plain, long, jot, hush (silence is right), or aside (not said to us: nothing must follow).
    """

    number: int
    platform: str
    chat: str
    kind: str


@dataclass(frozen=True)
class ChatMessage:
    """A message of the bot that is visible in a chat; a history has them in the order of the chat."""

    platform: str
    chat: str
    text: str


@dataclass(frozen=True)
class Taken:
    """A row of the inbox: message ``number`` was taken in, as part of ``turn``."""

    number: int
    state: str
    turn: str | None


@dataclass(frozen=True)
class Turn:
    """A row of the turns; ``outcome`` is None when it has no end."""

    id: str
    outcome: str | None


@dataclass(frozen=True)
class Reply:
    """A row of the outbox.

    :param marks: number of sends although it may have been visible already.
    :param is_notice: it is in place of an answer, or about one: it is sent until its delivery is known.
    """

    turn: str
    platform: str
    text: str
    state: str
    marks: int = 0
    is_notice: bool = False


@dataclass(frozen=True)
class History:
    """The messages of the platforms and the rows of the disk.

    :param acknowledged: numbers of messages that their platform will not deliver again.
    :param taken: in the order of arrival.
    :param effects: numbers whose tool ran, one for each time.
    :param recorded: numbers of questions in the transcripts, one for each time.
    :param unreadable: transcripts that do not load, or do not pair.
    :param idempotent: platforms that drop a message which is sent again.
    :param doubts: maximum number of sends whose outcome a crash or a lost response can have left unknown.
    """

    asked: tuple[Asked, ...]
    acknowledged: frozenset[int] = frozenset()
    visible: tuple[ChatMessage, ...] = ()
    taken: tuple[Taken, ...] = ()
    turns: tuple[Turn, ...] = ()
    replies: tuple[Reply, ...] = ()
    effects: tuple[int, ...] = ()
    recorded: tuple[int, ...] = ()
    unreadable: tuple[str, ...] = ()
    idempotent: frozenset[str] = frozenset({"feishu", "discord"})
    doubts: int = 0


@dataclass
class _Model:
    """The history, ordered for questions."""

    history: History
    asked: dict[int, Asked] = field(init=False)
    rows: dict[int, list[Taken]] = field(init=False)
    turns: dict[str, Turn] = field(init=False)
    replies: dict[str, list[Reply]] = field(init=False)
    parts: dict[int, list[tuple[int, int, ChatMessage]]] = field(init=False)

    def __post_init__(self) -> None:
        self.asked = {one.number: one for one in self.history.asked}
        self.turns = {one.id: one for one in self.history.turns}
        self.rows, self.replies, self.parts = defaultdict(list), defaultdict(list), defaultdict(list)
        for row in self.history.taken:
            self.rows[row.number].append(row)
        for replies in self.history.replies:
            self.replies[replies.turn].append(replies)
        for one in self.history.visible:
            for number, part, of in LABEL.findall(one.text):
                self.parts[int(number)].append((int(part), int(of), one))

    def turn_of(self, number: int) -> Turn | None:
        return self.turns.get(self.rows[number][0].turn or "") if self.rows[number] else None

    def failed(self, number: int) -> bool:
        turn = self.turn_of(number)
        return turn is not None and turn.outcome == "failed"

    def halves(self, number: int) -> int:
        """Count the failed turns that may have shown a part of this answer: its own, and later ones of its chat that
        failed while they answered it again."""
        one = self.asked[number]
        if not self.failed(number):
            return 0
        here = (
            other for other in self.history.asked if (other.platform, other.chat) == (one.platform, one.chat)
        )
        since = (self.turn_of(other.number) for other in here if other.number >= number)
        return len({turn.id for turn in since if turn and turn.outcome == "failed"})

    def may_repeat(self, number: int) -> bool:
        turn = self.turn_of(number)
        return turn is not None and any(one.marks for one in self.replies[turn.id])

    def marks(self, number: int, part: int) -> int:
        """Count the marked repeats of messages that hold this part."""
        label = re.compile(rf"\bm{number}p{part}x")
        return sum(one.marks for one in self.history.replies if label.search(one.text))

    def in_doubt(self, number: int) -> set[int]:
        """Parts of an answer that the outbox records as possibly delivered."""
        turn = self.turn_of(number)
        unsure = [one for one in self.replies[turn.id] if one.state == "unknown"] if turn else []
        labels = [label for one in unsure for label in LABEL.findall(one.text)]
        return {int(part) for of, part, _ in labels if int(of) == number}

    def was_notified(self, turn: Turn, one: Asked) -> bool:
        """Return true if a notice about this turn is, or may be, visible in its chat."""
        where = (one.platform, one.chat)
        there = {text.text for text in self.history.visible if (text.platform, text.chat) == where}
        notices = [replies for replies in self.replies[turn.id] if not LABEL.search(replies.text)]
        return any(replies.text in there or replies.state == "unknown" for replies in notices)


def faults(history: History) -> list[str]:
    """Return every violation; empty = all invariants hold."""
    model = _Model(history)
    return [
        *_lost(model),
        *_doubled(model),
        *_unwanted(model),
        *_doubts(model),
        *_out_of_order(model),
        *_effects(model),
        *_open(model),
        *_strange(model),
        *_unexpected(model),
    ]


def _lost(model: _Model) -> Iterator[str]:
    for number in sorted(model.history.acknowledged):
        one, rows = model.asked[number], model.rows[number]
        if len(rows) != 1:
            yield f"lost: message {number} of {one.platform} was acknowledged and is {len(rows)} times in the inbox"
        elif one.kind != "aside" and (why := _unanswered(model, one)):
            where = f"{one.kind}, {one.platform} {one.chat}, {rows[0].state} by {rows[0].turn}"
            yield f"lost: message {number} ({where}): {why}"


def _unanswered(model: _Model, one: Asked) -> str:
    turn = model.turn_of(one.number)
    if turn is None or turn.outcome not in ("delivered", "silent", "failed"):
        return f"its turn ended {turn.outcome}" if turn else "it became no turn"
    if turn.outcome == "failed":
        return "" if model.was_notified(turn, one) else "it failed, and no notice was sent"
    if one.kind == "hush":
        return ""
    parts = model.parts[one.number]
    missing = set(range(1, parts[0][1] + 1)) - {part for part, _, _ in parts} if parts else {1}
    if missing and (unsure := model.in_doubt(one.number)):
        missing -= unsure
        if not missing and not model.was_notified(turn, one):
            return f"it is unknown if the parts {sorted(unsure)} are visible, and no notice was sent"
    elsewhere = [shown for _, _, shown in parts if (shown.platform, shown.chat) != (one.platform, one.chat)]
    if elsewhere:
        return f"its answer is in {elsewhere[0].platform} {elsewhere[0].chat}"
    return f"its turn ended {turn.outcome}, and the parts {sorted(missing)} are nowhere" if missing else ""


def _doubled(model: _Model) -> Iterator[str]:
    """Each part is visible once, and once more for each mark of the message that holds it."""
    for number, parts in sorted(model.parts.items()):
        platform = model.asked[number].platform
        once = 1 + model.halves(number)
        for part, times in sorted(Counter(part for part, _, _ in parts).items()):
            marks = 0 if platform in model.history.idempotent else model.marks(number, part)
            if times > once + marks:
                was_notified = f"part {part} of answer {number} is visible {times} times on {platform}"
                yield f"doubled: {was_notified}, with {marks} marks"


def _unwanted(model: _Model) -> Iterator[str]:
    """A message that was not addressed to the bot, or wanted silence, gets no answer."""
    for number in sorted(model.parts):
        if (one := model.asked[number]).kind in ("aside", "hush"):
            yield f"unwanted: message {number} is {one.kind}, and was answered in {one.platform} {one.chat}"


def _doubts(model: _Model) -> Iterator[str]:
    """Only a crash or a lost response leaves a send in doubt, and only on a platform that shows repeats."""
    unsure = [one for one in model.history.replies if one.state == "unknown"]
    for one in unsure:
        if one.platform in model.history.idempotent:
            yield f"in doubt: a message of turn {one.turn} to {one.platform}, which drops repeats"
    if len(unsure) > model.history.doubts:
        yield f"in doubt: {len(unsure)} messages, and {model.history.doubts} sends were cut at most"


def _out_of_order(model: _Model) -> Iterator[str]:
    """Answers of a chat are in the order of arrival of its messages, and the parts of each in order."""
    came = {row.number: at for at, row in enumerate(model.history.taken)}
    chats: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for one in model.history.visible:
        for number, part, _ in LABEL.findall(one.text):
            apart = model.may_repeat(int(number)) or model.failed(int(number))
            if int(number) in came and not apart:
                chats[one.platform, one.chat].append((came[int(number)], int(part), int(number)))
    for (platform, chat), seen in chats.items():
        for (_, part, number), (_, next_part, next_number) in ((a, b) for a, b in pairwise(seen) if a > b):
            yield (
                f"out of order: in {platform} {chat}, part {next_part} of answer {next_number} follows "
                f"part {part} of answer {number}"
            )


def _effects(model: _Model) -> Iterator[str]:
    for number, times in sorted(Counter(model.history.effects).items()):
        if times > 1:
            yield f"repeated: the effect of message {number} happened {times} times"
        if model.asked[number].kind != "jot":
            yield f"repeated: message {number} asked for no effect"


def _open(model: _Model) -> Iterator[str]:
    yield from (f"open: turn {turn.id} has no end" for turn in model.history.turns if turn.outcome is None)
    yield from (
        f"open: message {row.number} is {row.state}"
        for row in model.history.taken
        if row.state in ("new", "taken")
    )
    for one in model.history.replies:
        if one.state not in ("paid", "unknown"):
            yield f"open: a message of turn {one.turn} to {one.platform} is {one.state}"


def _strange(model: _Model) -> Iterator[str]:
    yield from (f"transcript: {path}" for path in model.history.unreadable)
    for number, times in sorted(Counter(model.history.recorded).items()):
        if times > 1:
            yield f"transcript: question {number} is recorded {times} times"


def _unexpected(model: _Model) -> Iterator[str]:
    """A text without a label is visible as often as it was queued and marked; a notice also once more for each send
    that was cut, on a platform that shows repeats."""
    replies = [one for one in model.history.replies if not LABEL.search(one.text)]
    queued = Counter((one.platform, one.text) for one in replies)
    once = {(one.platform, one.text) for one in replies if not one.is_notice}
    said = Counter((one.platform, one.text) for one in model.history.visible if not LABEL.search(one.text))
    for one in replies:
        queued[one.platform, one.text] += one.marks
    repeats = 0
    for (platform, text), times in (said - queued).items():
        if not queued[platform, text] or (platform, text) in once or platform in model.history.idempotent:
            yield f"unexpected: {text[:60]!r} is visible more often than it was queued on {platform}"
        else:
            repeats += times
    if repeats > model.history.doubts:
        yield f"unexpected: notices are repeated {repeats} times, and {model.history.doubts} sends were cut at most"
