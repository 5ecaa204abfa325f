"""Counts of a run: what became of every message, every call and every effect."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from rigs.platform_rig.facts import Asked, Call, History, Visible
from rigs.platform_rig.labels import Piece, files_of, notice, pieces, whole_runs

LIMITS = (
    "lost", "doubled", "half_left", "card_open", "out_of_order", "astray", "repeated_once", "repeated_undeclared",
    "file_lost", "file_doubled",
    "http_unanswered", "http_wrong", "http_dropped", "http_locked_out", "provider_gone", "channel_gone", "illformed",
    "crashed", "did_not_stop", "not_connected", "tools_missing",
)  # fmt: skip
"""Counts that have to be 0."""
UNASKED_SHARE = 0.01
"""Of all messages, so many may be answered with a notice though the model never saw them: it works all the time."""


@dataclass
class Verdict:
    """The counts of a run.

    :ivar examples: by count, what was seen.
    :ivar notices: by text, how often the agent said something that is no answer.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    notices: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, example: str) -> None:
        """Count one, with its example."""
        self.counts[name] += 1
        self.examples[name].append(example)

    @property
    def lost(self) -> frozenset[str]:
        """The questions that are lost."""
        return frozenset(example.split(": ")[1].split()[0] for example in self.examples.get("lost", ()))

    @property
    def broken(self) -> dict[str, int]:
        """The limits that are broken."""
        broken = {name: self.counts[name] for name in LIMITS if self.counts[name]}
        if (unasked := self.counts["told_unasked"]) > 1 + UNASKED_SHARE * self.counts["asked"]:
            broken["told_unasked"] = unasked
        return broken


@dataclass
class _Answers:
    """The messages in a chat that answer one question.

    :ivar places: of each piece, position of its message.
    """

    found: list[Piece] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    @property
    def wholes(self) -> Counter[int]:
        return whole_runs(self.found)

    def begins(self) -> tuple[int, int]:
        """Return message position and offset of the first whole answer."""
        runs = self.wholes
        return min(
            (place, piece.offset)
            for place, piece in zip(self.places, self.found, strict=True)
            if piece.run in runs
        )

    def halves(self) -> list[int]:
        """Return the positions of messages with a part that belongs to no whole answer."""
        left = self.wholes
        seen: Counter[tuple[int, int]] = Counter()
        over: list[int] = []
        # The newest message is taken as the whole one: what stands before it was left there.
        for place, piece in sorted(zip(self.places, self.found, strict=True), key=lambda one: -one[0]):
            seen[piece.run, piece.part] += 1
            if piece.part < 0 or seen[piece.run, piece.part] > left.get(piece.run, 0):
                over.append(place)
        return sorted(set(over))


def judge(history: History) -> Verdict:
    """Return the counts of a run."""
    verdict = Verdict(Counter(history.incidents))
    chats: dict[tuple[str, str], tuple[list[Asked], list[Visible]]] = defaultdict(lambda: ([], []))
    for asked in history.asked:
        chats[asked.channel, asked.chat][0].append(asked)
    for shown in history.visible:
        chats[shown.channel, shown.chat][1].append(shown)
    for (channel, chat), (asked_here, shown_here) in sorted(chats.items()):
        asked_here.sort(key=lambda one: one.position)
        shown_here.sort(key=lambda one: one.position)
        _Chat(f"{channel} {chat}", asked_here, shown_here, history, verdict).judge()
    _count_shared_answers(history, verdict)
    for call in history.calls:
        _judge_call(call, verdict)
    _judge_effects(history, verdict)
    for wrong in history.illformed:
        verdict.add("illformed", wrong)
    verdict.counts["asked"] = len(history.asked)
    verdict.counts["calls"] = len(history.calls)
    return verdict


@dataclass
class _Chat:
    """The questions and the visible messages of one chat."""

    name: str
    asked: list[Asked]
    shown: list[Visible]
    history: History
    verdict: Verdict

    def judge(self) -> None:
        answers, cut = self._answers()
        notices = [shown.position for shown in self.shown if notice(shown.text)]
        self.verdict.notices.update(text[:90] for shown in self.shown if (text := notice(shown.text)))
        for place in cut:
            self.verdict.add("half_left", f"{self.name}: message {place} is the beginning of a label")
        told = self._told(answers, notices)
        for one in self.asked:
            self._judge_question(one, answers.get(one.question, _Answers()), one.question in told, notices)
        for question in answers.keys() - {one.question for one in self.asked}:
            self.verdict.add("astray", f"{self.name}: an answer to {question}, which was not asked here")
        self._judge_order(answers)

    def _answers(self) -> tuple[dict[str, _Answers], list[int]]:
        answers: dict[str, _Answers] = defaultdict(_Answers)
        cut: list[int] = []
        for shown in self.shown:
            for piece in pieces(shown.text):
                if not piece.question:
                    cut.append(shown.position)
                    continue
                answers[piece.question].found.append(piece)
                answers[piece.question].places.append(shown.position)
        return dict(answers), cut

    def _told(self, answers: dict[str, _Answers], notices: list[int]) -> set[str]:
        """Return the unanswered questions that a notice stands for: one notice for one turn, after its question.

        Where messages may share a turn, a notice stands for all adjacent unanswered ones, but not for one that was
        asked after all was settled.
        """
        told: set[str] = set()
        free, before = list(notices), False
        for one in self.asked:
            if one.question in answers and answers[one.question].wholes:
                before = False
                continue
            if before and not one.probe and self.history.queue != "followup":
                told.add(one.question)
                continue
            fitting = next((place for place in free if place > one.position), None)
            before = fitting is not None
            if fitting is not None:
                free.remove(fitting)
                told.add(one.question)
        return told

    def _judge_question(self, one: Asked, answers: _Answers, told: bool, notices: list[int]) -> None:
        add, about = self.verdict.add, f"{self.name}: {one.question} ({one.kind})"
        wholes, halves = answers.wholes, answers.halves()
        if wholes and one.question in self.history.abandoned:
            add("lost", f"{about} had no answer and no notice until somebody wrote again")
        if not wholes:
            if one.probe:
                add(
                    "provider_gone" if one.taken else "channel_gone",
                    f"{about}, asked after all faults, is not answered",
                )
            if told:
                add("told", about)
                if one.question not in self.history.asked_of_model:
                    add("told_unasked", about)
                if halves:
                    add("half_told", about)
            else:
                taken = "" if one.taken else ", and it was never fetched"
                add(
                    "lost",
                    f"{about} {'has half an answer' if halves else 'has no answer'} and no notice{taken}",
                )
            return
        self.verdict.counts["answered"] += 1
        if (total := wholes.total()) > 1:
            add("doubled", f"{about} is answered {total} times, runs {sorted(wholes)}")
        if one.kind == "file":
            self._judge_file(one, notices)
        begin = answers.begins()[0]
        for place in halves:
            is_explained = any(place <= said < begin for said in notices)
            name = "half_explained" if is_explained else "half_left"
            add(name, f"{about}: message {place} has a part beside the whole answer")

    def _judge_file(self, one: Asked, notices: list[int]) -> None:
        """Count the files of an answer: one for each time that it is whole, or a notice after the question."""
        files = sum(files_of(shown.text).count(one.question) for shown in self.shown)
        about = f"{self.name}: {one.question} has {files} files"
        if files > 1:
            self.verdict.add("file_doubled", about)
        elif not files:
            is_told = any(said > one.position for said in notices)
            self.verdict.add("file_told" if is_told else "file_lost", about)

    def _judge_order(self, answers: dict[str, _Answers]) -> None:
        begins = [
            (answers[one.question].begins(), one.question)
            for one in self.asked
            if one.question in answers and answers[one.question].wholes
        ]
        for (first, earlier), (second, later) in pairwise(begins):
            if first > second:
                self.verdict.add("out_of_order", f"{self.name}: {later} is answered before {earlier}")


def _count_shared_answers(history: History, verdict: Verdict) -> None:
    """Count the questions that were answered together with others, though each may have a turn of its own."""
    runs: dict[int, set[str]] = defaultdict(set)
    for shown in history.visible:
        for piece in pieces(shown.text):
            if piece.run >= 0:
                runs[piece.run].add(piece.question)
    if shared := sum(len(questions) for questions in runs.values() if len(questions) > 1):
        verdict.counts["answered_together"] = shared


def _judge_call(call: Call, verdict: Verdict) -> None:
    about = f"http {call.user}: {call.question} ({call.kind})"
    answered = False
    for attempt in call.attempts:
        if attempt.status != 200:
            verdict.counts["http_refused" if attempt.status else "http_cut"] += 1
        elif not attempt.complete:
            verdict.counts["http_cut"] += 1
        else:
            found = pieces(attempt.text)
            own = [piece for piece in found if piece.question == call.question]
            if whole_runs(own).total() == 1:
                answered = True
                verdict.counts["http_answered_together"] += len(own) < len(found)
            else:
                verdict.add("http_wrong", f"{about}: 200 with {attempt.text[:90]!r}")
    if answered:
        verdict.counts["http_answered"] += 1
        return
    told = bool(call.attempts) and call.attempts[-1].status not in (0, 200, 429, 503)
    verdict.add(
        "http_told" if told else "http_unanswered",
        f"{about}: {len(call.attempts)} attempts, the last {call.attempts[-1:]}",
    )
    if call.probe:
        verdict.add("provider_gone", f"{about}, called after all faults, is not answered")


def _judge_effects(history: History, verdict: Verdict) -> None:
    times = Counter((one.tool, one.question) for one in history.effects)
    for (tool, question), count in sorted(times.items()):
        verdict.counts[f"effects_{tool}"] += 1
        if count > 1:
            verdict.add(f"repeated_{tool}", f"{question}: {tool} ran {count} times")
