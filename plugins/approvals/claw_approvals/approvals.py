"""Approvals: ask a person, wait for the answer, remember it once or always. Stored in ``state.db`` to survive a restart.

The process that can show a request sets ``Approvals.show_request``; who receives an answer calls ``decide``. If no
person can be asked, the answer is no. The first outcome wins: it is one row, updated only while it has no verdict.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from claw import ApprovalRequest, ClawError, Decision, Inbound, Outbound, Sender, t
from claw.runtime import SYSTEM_CLOCK, TERMINAL, Clock, Database, describe_exception, is_owner
from claw_channel_sdk import PendingApproval
from claw_config_sdk import DailyTask

from claw_approvals.grants import DAY_MS, LastingGrants
from claw_approvals.question import (
    MAX_SHOWN_CHARS,
    VERDICTS,
    as_message,
    as_text,
    asked_by,
    parse_button,
    presentable,
)
from claw_approvals.records import (
    PENDING_COLUMNS,
    TABLES,
    Grant,
    OpenMessages,
    new_id,
    pending_of,
    sealed_facts,
    stored_digest,
)
from claw_approvals.seals import TABLE, WRITE, Seals

if TYPE_CHECKING:
    from claw.runtime import Runtime

_KEPT_DAYS = 7
_POLL_SECONDS = 1.0
"""Seconds between two checks of a waiting request for an answer that another process received."""
_SHOWN_SECONDS = 2.0

Present = Callable[[PendingApproval], Awaitable[bool]]
"""Show a request to a person who may answer it; return false if it cannot be shown. May run until the answer is there."""


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """The result of an answer: if it counts, and a line for the person who gave it."""

    accepted: bool
    text: str
    question: PendingApproval | None = None


class Approvals:
    """Approval requests and their answers: the approver of this plugin.

    :param approvers: people who may answer, ``channel:id``; empty = the owners. The person at the terminal always may.
    :param timeout_seconds: a request without an answer expires after this time.
    :param is_over: return true if a turn has ended: its requests are over.
    """

    name = "approvals"

    def __init__(
        self,
        database: Database,
        clock: Clock = SYSTEM_CLOCK,
        *,
        approvers: Sequence[str] = (),
        owners: Sequence[str] = (),
        timeout_seconds: float = 600.0,
        is_over: Callable[[str], bool] = lambda turn: False,
    ) -> None:
        self.show_request: Present | None = None
        self.show_outcome: Callable[[PendingApproval, str], Awaitable[None]] | None = None
        self.timeout_seconds = timeout_seconds
        self._database, self._clock = database, clock
        self._people = tuple(approvers) or tuple(owners)
        self._owners, self._any_owner = tuple(owners), not approvers
        self._is_over = is_over
        self._waiting: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
        self._cancelled: set[str] = set()  # requests whose wait was cancelled in this process
        self._messages, self._closing = OpenMessages(database), set[asyncio.Task[None]]()
        self._daily = DailyTask(clock)
        self._seals = Seals(database)
        self._grants = LastingGrants(database, clock, self._seals)
        database.tables("approval", *TABLES, TABLE)

    def attach(self, runtime: "Runtime") -> None:
        """Take the turn log of this process: requests of a turn that ended are over."""
        self._is_over = getattr(runtime.turn_log, "is_over", self._is_over)

    async def ask(self, request: ApprovalRequest) -> Decision:
        """Show a request to a person and wait for the answer.

        A request that this turn made before a restart is found again and not shown twice; an answer given meanwhile
        counts, once.
        """
        self._delete_expired()
        request = presentable(request)
        if self._grants.use(request):
            return Decision("always")
        if why := self.refusal(request):
            return Decision("deny" if len(request.shown) > MAX_SHOWN_CHARS else "nobody", why)
        question = self._find_earlier(request) or self._insert(request)
        if self._verdict(question.id) is None:
            await self._wait_for_answer(question)
        return self._use_outcome(question)

    def refusal(self, request: ApprovalRequest) -> str:
        """Return the reason why no person can be asked this; empty when one can."""
        if len(request.shown) > MAX_SHOWN_CHARS:
            template = (
                "it is too long to show in full for approval ({count} characters, at most "
                "{most}): split it into parts"
            )
            return t(template, count=len(request.shown), most=MAX_SHOWN_CHARS)
        if self.show_request is None:
            return t("it needs approval, and no one can be asked here")
        if not (self._owners if request.for_owners else self._people) and request.address.channel != TERMINAL:
            return t("it needs approval, and the settings name neither approvers nor owners")
        if not self._is_reachable(request):
            return t("it needs approval, and no one in this chat may give it")
        return ""

    def decide(self, id: str, verdict: str, *, channel: str, sender: Sender, owner: bool) -> AnswerResult:
        """Accept an answer: from a person who may decide, to an open request, once.

        Callers pass only the action of an admitted person (a command, button or key), never quoted text. May be called
        from any thread.

        :param verdict: once, always or deny.
        :param owner: true if this person was admitted as an owner.
        """
        if verdict not in VERDICTS:
            return AnswerResult(False, t("{word} is not an answer: use once, always or deny", word=verdict))
        may = [self.may_decide(channel, sender, owner, for_owners) for for_owners in (False, True)]
        if not any(may):
            return AnswerResult(
                False, t("you may not decide that: approvals.approvers and owners list who may")
            )
        question = self._read(id.strip().lower())
        if question is None:
            return AnswerResult(False, t("there is no request {id}", id=id))
        if not may[question.request.for_owners]:
            who = t("only an owner may do this") if may[0] else t("approvals.approvers lists who may")
            return AnswerResult(False, t("you may not decide that: {who}", who=who), question)
        if verdict not in question.verdicts:
            template = (
                "{tool} can run any command here, so it cannot be allowed permanently: choose once or deny"
            )
            return AnswerResult(False, t(template, tool=question.request.tool), question)
        if not self._is_awaited(question) and self._settle(question.id, "withdrawn"):
            template = "request {id} is no longer waiting; nothing was run"
            return AnswerResult(False, t(template, id=question.id), question)
        by, now = f"{channel}:{sender.id}", self._clock.now_ms()
        # A request with a waiter in this process ends with that wait, even when the system clock jumps.
        since = 0 if question.id in self._waiting else now
        if not self._record(question, verdict, by, now, since):
            return AnswerResult(False, self._too_late(question), question)
        if verdict == "always":
            self._grants.add(question.request, by)
        self._wake(question.id)
        return AnswerResult(True, _CONFIRMATIONS[verdict](question.request.tool), question)

    def as_message(self, question: PendingApproval) -> Outbound:
        """Return the request as a message to the chat that its turn came from, with buttons."""
        return as_message(question, max(0.0, (question.expires_at_ms - self._clock.now_ms()) / 1000))

    def answer_button(self, value: str, inbound: Inbound, owner: bool) -> str | None:
        """Accept an answer that was given by a button; return a line for the person, None for another button."""
        answer = parse_button(value)
        if answer is None:
            return None
        channel, sender = inbound.address.channel, inbound.sender
        result = self.decide(*answer, channel=channel, sender=sender, owner=owner)
        if result.question and not result.accepted:  # its message still has buttons: an earlier edit failed
            self._messages.add(result.question.id)
        self._close_soon()
        return result.text

    async def close_messages(self) -> None:
        """Replace the messages of requests that are over by their outcome, without buttons, in their chats.

        Called by the process that serves the chats, at its start and when a turn ends. A request is over if it was
        answered anywhere, expired, or its turn ended.
        """
        if self.show_outcome:
            with suppress(ClawError):  # usually a full disk: the next call edits them
                await self._close_messages(self.show_outcome)

    async def _close_messages(self, show: Callable[[PendingApproval, str], Awaitable[None]]) -> None:
        now = self._clock.now_ms()
        for question in self._messages.requests():
            if self._verdict(question.id) is None:
                is_open = question.expires_at_ms > now and not self._is_over(question.request.turn)
                if is_open or question.id in self._waiting:
                    continue
                self._settle(question.id, "expired" if question.expires_at_ms <= now else "withdrawn")
            if self._messages.take(question.id):  # else another task edits it
                await show(question, as_text(question, 0, self._outcome(question)))

    def _close_soon(self) -> None:
        """Call :meth:`close_messages` in the background; without a running loop, the next call of it does the work."""
        with suppress(RuntimeError):
            closing = asyncio.get_running_loop().create_task(self.close_messages())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def ask_at_terminal(self, write: Callable[[str], None]) -> None:
        """Show requests to the person at this terminal from now on, if one is there.

        :param write: prints lines for the person.
        """
        from claw_approvals.terminal import TerminalApprover

        if TerminalApprover.available():
            self.show_request = TerminalApprover(self, write).show_request

    def withdraw(self, session_key: str) -> int:
        """Close the open requests of a session, as after ``/stop``; return their number."""
        now = self._clock.now_ms()
        rows = self._database.read(
            "SELECT id FROM approvals WHERE session_key = ? AND verdict IS NULL AND expires_at_ms > ?",
            session_key, now,
        )  # fmt: skip
        count = sum(self._settle(id, "withdrawn") for (id,) in rows)
        self._close_soon()
        return count

    def pending(self) -> tuple[PendingApproval, ...]:
        """Return the open requests that a turn waits for, oldest first."""
        rows = self._database.read(
            f"SELECT {PENDING_COLUMNS} FROM approvals WHERE verdict IS NULL AND expires_at_ms > ?"
            " ORDER BY asked_at_ms, id",
            self._clock.now_ms(),
        )
        return tuple(filter(self._is_awaited, map(pending_of, rows)))

    def grants(self) -> tuple[Grant, ...]:
        """Return the permanent grants, oldest first."""
        self._delete_expired()
        return self._grants.all()

    def revoke(self, id: str) -> bool:
        """Delete a permanent grant; return false when there is none of this id."""
        return self._grants.revoke(id)

    # asking

    def _is_reachable(self, request: ApprovalRequest) -> bool:
        """Return true if a person who may decide reads this chat; assumed in a group, whose readers are not known."""
        if request.chat_type != "direct" or request.sender is None:
            return True
        return self.may_decide(request.address.channel, request.sender, request.owner, request.for_owners)

    def _find_earlier(self, request: ApprovalRequest) -> PendingApproval | None:
        """Return the same request of this turn, made before a restart and not used yet.

        One with a waiter in this process belongs to another call. One that shows the same text but has another digest
        (a changed environment, for example) is closed: the new request replaces it.
        """
        rows = self._database.read(
            f"SELECT {PENDING_COLUMNS} FROM approvals WHERE session_key = ? AND turn = ? AND tool = ? AND shown = ?"
            " AND used_at_ms IS NULL AND (verdict IS NULL OR verdict IN ('once', 'always', 'deny'))"
            " AND expires_at_ms > ? ORDER BY asked_at_ms DESC, id",
            request.session_key, request.turn, request.tool, request.shown, self._clock.now_ms(),
        )  # fmt: skip
        asked = [pending_of(row) for row in rows if row[0] not in self._waiting]
        digest = stored_digest(request)
        for other in asked:
            if stored_digest(other.request) != digest and other.id not in self._cancelled:
                self._settle(other.id, "withdrawn")
        return next((one for one in asked if stored_digest(one.request) == digest), None)

    def _insert(self, request: ApprovalRequest) -> PendingApproval:
        now = self._clock.now_ms()
        id = new_id()
        question = PendingApproval(id, request, now, now + int(self.timeout_seconds * 1000))
        place = request.address
        self._database.write(
            f"INSERT INTO approvals ({PENDING_COLUMNS}) VALUES ({', '.join('?' * 16)})",
            id, request.session_key, request.agent, request.turn, request.tool, request.title, request.shown,
            stored_digest(request), asked_by(request), request.grant, place.channel, place.chat, place.account,
            place.thread, question.asked_at_ms, question.expires_at_ms,
        )  # fmt: skip
        return question

    async def _wait_for_answer(self, question: PendingApproval) -> None:
        """Show the request, unless it is shown already, and wait until it has an outcome."""
        answered = asyncio.Event()
        self._waiting[question.id] = asyncio.get_running_loop(), answered
        self._cancelled.discard(question.id)
        left = min(self.timeout_seconds, (question.expires_at_ms - self._clock.now_ms()) / 1000)
        showing = asyncio.ensure_future(self._show(question))
        try:
            async with asyncio.timeout(left):
                while self._verdict(question.id) is None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_POLL_SECONDS):
                            await answered.wait()
            await asyncio.wait({showing}, timeout=_SHOWN_SECONDS)  # let a message that is on its way arrive
        except TimeoutError:
            self._settle(question.id, "expired")
        except asyncio.CancelledError:
            self._cancelled.add(question.id)
            raise
        finally:
            del self._waiting[question.id]
            showing.cancel()
            await asyncio.wait({showing}, timeout=_SHOWN_SECONDS)
        self._close_soon()

    async def _show(self, question: PendingApproval) -> None:
        shown = self._database.read("SELECT shown_at_ms FROM approvals WHERE id = ?", question.id)
        if self.show_request is None or shown[0][0] is not None:
            return
        why = ""
        if self.show_outcome:
            self._messages.add(question.id)
        try:
            is_shown = await self.show_request(question)
        except Exception as failed:  # noqa: BLE001 - a channel is third-party code
            is_shown, why = False, describe_exception(failed)
        if is_shown:
            self._database.write(
                "UPDATE approvals SET shown_at_ms = ? WHERE id = ?", self._clock.now_ms(), question.id
            )
        else:
            self._messages.take(question.id)
            self._settle(question.id, "unshown", why)

    def _use_outcome(self, question: PendingApproval) -> Decision:
        """Use the outcome: it counts for one run."""
        taken = self._database.write(
            "UPDATE approvals SET used_at_ms = ? WHERE id = ? AND used_at_ms IS NULL",
            self._clock.now_ms(), question.id,
        )  # fmt: skip
        verdict, by = self._database.read(
            "SELECT verdict, decided_by FROM approvals WHERE id = ?", question.id
        )[0]
        if taken and verdict in ("once", "always"):
            if self._seals.is_sealed(question.id, *sealed_facts(question, verdict)):
                return Decision(verdict)
            return Decision("deny", t("the answer in state.db was not given to claw: nothing was run"))
        minutes = max(1, round(self.timeout_seconds / 60))
        why = {
            "deny": t("the user was asked and did not allow it"),
            "expired": t("the user was asked and did not answer within {minutes} min", minutes=minutes),
            "withdrawn": t("the user was asked, and the turn was stopped before the answer"),
            "unshown": t("it needs approval, and the request could not be shown: {why}", why=by),
        }
        return Decision("deny", why.get(verdict, t("the one-time approval was already used")))

    # answers

    def may_decide(self, channel: str, sender: Sender, owner: bool, for_owners: bool = False) -> bool:
        """Return true if this person may answer requests.

        :param for_owners: the request is one that only owners may answer, whoever the approvers are.
        """
        if channel == TERMINAL:
            return True
        if for_owners:
            return owner or is_owner(channel, sender, self._owners)
        return is_owner(channel, sender, self._people) or (self._any_owner and owner)

    def _read(self, id: str) -> PendingApproval | None:
        rows = self._database.read(f"SELECT {PENDING_COLUMNS} FROM approvals WHERE id = ?", id)
        return pending_of(rows[0]) if rows else None

    def _is_awaited(self, question: PendingApproval) -> bool:
        """Return true if an answer has an effect: a call waits here or in another process, or its turn can be resumed."""
        is_over = question.id in self._cancelled or self._is_over(question.request.turn)
        return question.id in self._waiting or not is_over

    def _verdict(self, id: str) -> str | None:
        rows = self._database.read("SELECT verdict FROM approvals WHERE id = ?", id)
        verdict: str | None = rows[0][0] if rows else "expired"
        return verdict

    def _outcome(self, question: PendingApproval) -> str:
        """Return the line that takes the place of the buttons."""
        ends = {
            "expired": t("request {id} expired without an answer", id=question.id),
            "withdrawn": t("request {id} was stopped before an answer", id=question.id),
        }
        return ends.get(self._verdict(question.id) or "") or self._too_late(question)

    def _too_late(self, question: PendingApproval) -> str:
        verdict = self._verdict(question.id)
        if verdict in VERDICTS:
            return t("request {id} was already answered: {verdict}", id=question.id, verdict=verdict)
        return t("request {id} has expired or was stopped", id=question.id)

    def _settle(self, id: str, outcome: str, by: str = "") -> int:
        """Close a request without an answer, unless it has an outcome."""
        now = self._clock.now_ms()
        changed = self._database.write(
            "UPDATE approvals SET verdict = ?, decided_by = ?, decided_at_ms = ? WHERE id = ? AND verdict IS NULL",
            outcome, by, now, id,
        )  # fmt: skip
        self._wake(id)
        return changed

    def _wake(self, id: str) -> None:
        if waiting := self._waiting.get(id):
            with suppress(RuntimeError):  # its loop has ended
                waiting[0].call_soon_threadsafe(waiting[1].set)

    def _record(self, question: PendingApproval, verdict: str, by: str, now: int, since: int) -> bool:
        """Record an answer with its seal, at once; return false if the request has an outcome."""
        seal = self._seals.make(*sealed_facts(question, verdict))
        with self._database.transaction() as run:
            where = "WHERE id = ? AND verdict IS NULL AND expires_at_ms > ?"
            if not run(f"SELECT 1 FROM approvals {where}", (question.id, since)):
                return False
            run(
                "UPDATE approvals SET verdict = ?, decided_by = ?, decided_at_ms = ? WHERE id = ?",
                (verdict, by, now, question.id),
            )
            run(WRITE, (question.id, seal))
        return True

    def _delete_expired(self) -> None:
        """Delete, once a day, old requests and unused permanent grants."""
        if not self._daily.due():
            return
        before = self._clock.now_ms() - _KEPT_DAYS * DAY_MS
        self._database.write("DELETE FROM approvals WHERE asked_at_ms < ?", before)
        self._grants.delete_unused()
        kept = "SELECT id FROM approvals UNION SELECT id FROM grants"
        self._database.write(f"DELETE FROM approval_seals WHERE id NOT IN ({kept})")


_CONFIRMATIONS: dict[str, Callable[[str], str]] = {
    "once": lambda tool: t("{tool}: allowed once", tool=tool),
    "always": lambda tool: t("{tool}: always allowed, for exactly this call", tool=tool),
    "deny": lambda tool: t("{tool}: not allowed", tool=tool),
}
