"""The inbound pipeline: filters, admission, approval buttons, abort words, chat commands; the rest enters the
turn queue.

Each inbound event is settled in the journal exactly once, here or by the turn that answers it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from claw import AcceptedEvent, Address, ClawError, Inbound, Outbound, QuotedMessage, Sender, t
from claw.runtime import (
    OPERATOR_ONLY,
    WAITS_FOR_REPLY,
    WORDS_CHARS,
    Admission,
    App,
    QueueSettings,
    Route,
    RunFacts,
    Runtime,
    account_setting,
    decide_admission,
    describe_exception,
    fence_of,
    group_scope,
    retry_until_written,
    route_message,
    run_filters,
)
from claw_channel_sdk import ChatApprover, Conversation, is_long_command, run_chat_command, withdraw_requests

from claw_gateway.abort_words import is_abort
from claw_gateway.attachments import fetch_attachments
from claw_gateway.channel_inbox import is_too_long
from claw_gateway.delivery import OutboxDelivery
from claw_gateway.journal import Journal, UnfinishedTurn, journal_of
from claw_gateway.pairing import Pairing
from claw_gateway.queue import QueuedMessage, TurnQueue
from claw_gateway.replies import public_failure_text, replaceable, split_reply
from claw_gateway.streaming import recover_streamed

_GREETING_SECONDS = 1.0  # until a person who was just paired is told so
_SILENT = frozenset({"heard", "seen", "bots"})
"""Reasons to settle an event without any reaction in the chat."""
MAX_CRASHES, MAX_KILLS = 3, 10
"""Limits for a turn while which the process ended by itself, and from outside."""
MAX_CHATS = 1000
"""Limit of groups and threads whose unaddressed messages are kept; the one that was silent longest is dropped
first.
"""
MAX_BOT_TURNS = 4
"""Limit of consecutive messages of other bots answered in one chat, until a person writes there (spec P8)."""


class ServedConversation(Conversation):
    """A conversation whose turns run in this process, for chat commands.

    :param send: sends a text to the chat at once.
    :ivar follow_up: a message that followed the command, to be queued as a turn.
    """

    def __init__(
        self, app: App, inbound: Inbound, route: Route, turn_queue: TurnQueue, send: Callable[[str], None]
    ) -> None:
        super().__init__(app, inbound, route)
        self._turn_queue, self._send, self.follow_up = turn_queue, send, ""

    async def stop(self) -> str:
        """Cancel the running turn, its open approval requests, and the messages that wait behind it."""
        key = self.session_key
        ran, waited = self._turn_queue.stop(key)
        withdraw_requests(self.runtime, key)
        if not ran and not waited:
            return await super().stop()
        return (
            t("stopped; {count:waiting message|waiting messages} discarded", count=waited)
            if waited
            else t("stopped")
        )

    async def reset(self) -> None:
        """Start a new conversation, once the running turn is stopped."""
        await self.stop()
        await self._turn_queue.wait_for_turn(self.session_key)
        await super().reset()

    async def submit(self, text: str) -> None:
        """Keep a message that follows the command."""
        self.follow_up = text

    async def reply(self, text: str) -> None:
        """Send a text before the answer."""
        self._send(text)


class InboundPipeline:
    """The receiver of channel messages.

    :param app: returns the app of the configuration in force.
    """

    def __init__(
        self, app: Callable[[], App], turn_queue: TurnQueue, delivery: OutboxDelivery, pairing: Pairing
    ) -> None:
        self._app, self._turn_queue, self._delivery, self._pairing = app, turn_queue, delivery, pairing
        self._group_history: dict[Address, deque[QuotedMessage]] = {}
        self._bot_turns: dict[Address, int] = {}

    @property
    def _runtime(self) -> Runtime:
        return self._app().runtime

    @property
    def _journal(self) -> Journal:
        return journal_of(self._runtime)

    async def receive(self, accepted: AcceptedEvent) -> None:
        """Filter and admit an inbound event, then handle it."""
        runtime = self._runtime
        inbound = await run_filters(accepted.inbound, "inbound", runtime.plugins)
        if inbound is None:
            return self._settle(accepted, "filtered")
        accepted = replace(accepted, inbound=inbound)
        address = inbound.address
        paired = self._pairing.paired(address.channel, address.account)
        verdict = decide_admission(inbound, runtime.config, paired)
        if verdict.kind == "unknown sender":  # perhaps no longer: an owner may just have approved them
            verdict = decide_admission(
                inbound, runtime.config, self._pairing.paired(address.channel, address.account)
            )
        if verdict.kind == "unknown sender":
            return self._settle(accepted, "stranger", self._pairing_code(inbound, verdict))
        if verdict.kind == "unaddressed":
            self._remember(inbound)
            return self._settle(accepted, "heard")
        if verdict.kind != "admitted":
            return self._settle(accepted, "refused")
        try:
            await self._dispatch(accepted, verdict)
        except Exception:  # an admitted sender gets an excuse instead of silence
            sorry = self._say(f"in{accepted.number}", inbound, public_failure_text(), stop_reason="error")
            await retry_until_written(partial(self._settle, accepted, "failed", sorry), runtime.log)
            raise

    async def _dispatch(self, accepted: AcceptedEvent, verdict: Admission) -> None:
        """Handle an event of an admitted sender: an answer to an approval request, a command, or a turn."""
        inbound = accepted.inbound
        if inbound.kind == "button" and (answer := self._answer_button(inbound, verdict)) is not None:
            said = self._say(f"ev-{inbound.event_id}"[:50], inbound, answer)
            return self._settle(accepted, "decided", said)
        if inbound.kind not in ("message", "button"):
            return self._settle(accepted, "seen")
        if is_too_long(inbound) and not self._has_own_limit(inbound):
            template = (
                "Your message is too long: I read {most} characters at most. Send it in parts, or as a file."
            )
            too_long = t(template, most=f"{WORDS_CHARS:,}")
            said = self._say(f"in{accepted.number}", inbound, too_long, stop_reason="request_too_large")
            return self._settle(accepted, "too long", said)
        if self._is_bot_loop(inbound):
            return self._settle(accepted, "bots")
        route = route_message(inbound, self._runtime.config)
        line = "/stop" if is_abort(inbound.text) else inbound.text.strip()
        if inbound.around.forwarded_from:  # a forwarded text is not a command of the person who forwards it
            line = ""
        if not (line.startswith("/") and await self._command(accepted, route, line)):
            self._enqueue(self._with_history(await self._with_media(accepted, route)), route)
        return None

    async def resume(self, cut: UnfinishedTurn, most_crashes: int = MAX_CRASHES) -> None:
        """Resume a turn that a crash cut off, or end it with a notice after too many attempts."""
        runtime, taken = self._runtime, []
        for one in cut.taken:
            said = await run_filters(one.inbound, "inbound", runtime.plugins)
            taken += [replace(one, inbound=said)] if said else []
        if not taken:
            self._journal.ended(cut.turn, "filtered")
            return
        newest = taken[-1].inbound
        paired = self._pairing.paired(newest.address.channel, newest.address.account)
        if decide_admission(newest, runtime.config, paired).kind != "admitted":
            self._journal.ended(cut.turn, "refused")
        elif text := _cause_to_give_up(cut, most_crashes):
            await self._give_up(cut, newest, text, text)
        else:
            try:
                route = replace(route_message(newest, runtime.config), session_key=cut.session_key)
                taken = [await self._with_media(one, route) for one in taken]
                queue, rights = self._queue(newest, cut.session_key), self._rights(newest, route)
                again = QueuedMessage(
                    taken[-1], route, queue, rights, cut.turn, tuple(taken), cut.crashes > 0
                )
                self._turn_queue.add(again)
            except Exception as why:
                await self._give_up(
                    cut, newest, public_failure_text(), runtime.redact(describe_exception(why))
                )
                raise

    async def _give_up(self, cut: UnfinishedTurn, newest: Inbound, text: str, why: str) -> None:
        """End a cut-off turn with a notice, which replaces the part of its answer already sent."""
        runtime = self._runtime
        if channel := runtime.registry.channel(newest.address.channel, newest.address.account):
            where = Outbound(cut.turn, newest.address, "", answers=newest.message_id)
            await recover_streamed(channel, where, cut.turn, self._journal, runtime.log)
        half = replaceable(self._journal, channel, cut.turn) if channel else ()
        replies = self._say(f"{cut.turn}:cut", newest, text, half, "error")
        self._journal.ended(cut.turn, "failed", replies, why=why)
        self._delivery.enqueue(replies)

    def settle_dropped(self, accepted: AcceptedEvent, why: str) -> None:
        """Settle a waiting message that gets no turn."""
        replies: tuple[Outbound, ...] = ()
        if why == "overflow":
            text = t(
                "Too many messages are waiting here, so this one will not be answered. "
                "Please send it again later."
            )
            replies = self._say(f"in{accepted.number}", accepted.inbound, text, stop_reason=why)
        self._settle(accepted, why, replies)

    def _settle(self, accepted: AcceptedEvent, why: str, replies: Sequence[Outbound] = ()) -> None:
        if accepted.number:
            self._journal.close_event(accepted.number, why, replies)
        self._delivery.enqueue(replies)
        if why not in _SILENT:
            self._delivery.clear_typing(accepted.inbound.address, accepted.inbound.message_id)

    def _say(
        self, key: str, inbound: Inbound, text: str, shown: Sequence[str] = (), stop_reason: str = "stop"
    ) -> tuple[Outbound, ...]:
        channel = self._runtime.registry.channel(inbound.address.channel, inbound.address.account)
        whole = Outbound(
            key, inbound.address, text, answers=inbound.message_id, plain=not shown, stop_reason=stop_reason
        )
        return split_reply(whole, channel, shown) if channel and text else ()

    def _pairing_code(self, inbound: Inbound, verdict: Admission) -> tuple[Outbound, ...]:
        """Return a message with a pairing code for an unknown sender; nothing when no more codes may be
        given.
        """
        address = inbound.address
        code = self._pairing.request_code(address.channel, address.account, inbound.sender, address)
        if code is None:
            return ()
        text = t(
            "I do not know you yet. Ask the owner to run: claw pairing approve {code} (valid for one hour)",
            code=code,
        )
        return self._say(f"pair-{code}", inbound, text)

    async def greet_paired(self) -> None:
        """Tell people who were paired that they may write now; the command that pairs them is another process."""
        while True:
            try:
                for code, address in self._pairing.to_greet():
                    text = t("You may write to me now. /help lists the commands.")
                    for one in self._say(f"paired-{code}", Inbound(address, "", Sender("")), text):
                        if self._journal.add_reply(f"paired-{code}", one):
                            self._delivery.enqueue([one])
                    self._pairing.greeted(code)
            except ClawError as why:  # usually a full disk: later
                self._runtime.log(str(why))
            await asyncio.sleep(_GREETING_SECONDS)

    def _answer_button(self, inbound: Inbound, verdict: Admission) -> str | None:
        """Hand a pressed button to the approver; return its line for the person, None when it is another button."""
        one = self._runtime.registry.approver
        if one is None or not isinstance(one.value, ChatApprover):
            return None
        return one.value.answer_button(inbound.text, inbound, verdict.owner)

    async def _command(self, accepted: AcceptedEvent, route: Route, line: str) -> bool:
        """Run a chat command; return False when it is none. A command that calls a model runs in the
        background.
        """
        if not await is_long_command(line, self._app()):
            return await self._run_command(accepted, route, line)
        work = self._run_beside(accepted, route, line)
        if not self._turn_queue.run_beside(route.session_key, accepted, work):
            text = t("this conversation is already being compacted; /stop cancels it")
            self._settle(accepted, "command", self._say(f"cmd-{accepted.number}", accepted.inbound, text))
        return True

    async def _run_beside(self, accepted: AcceptedEvent, route: Route, line: str) -> None:
        try:
            await self._run_command(accepted, route, line)
        except Exception as broken:  # noqa: BLE001 - nothing awaits this task: the error goes to the chat
            why = t("internal error in claw: {why}", why=describe_exception(broken))
            self._settle(accepted, "command", self._say(f"cmd-{accepted.number}", accepted.inbound, why))

    async def _run_command(self, accepted: AcceptedEvent, route: Route, line: str) -> bool:
        inbound, numbers = accepted.inbound, count()

        def send(text: str) -> None:
            self._reply(accepted, self._say(f"cmd-{accepted.number}-{next(numbers)}", inbound, text))

        conversation = ServedConversation(self._app(), inbound, route, self._turn_queue, send)
        said = await run_chat_command(line, conversation)
        if said is None:
            return False
        replies = self._say(f"cmd-{accepted.number}", inbound, said)
        if not conversation.follow_up:
            self._settle(accepted, "command", replies)
            return True
        self._reply(accepted, replies)
        self._enqueue(replace(accepted, inbound=replace(inbound, text=conversation.follow_up)), route)
        return True

    def _reply(self, accepted: AcceptedEvent, replies: Sequence[Outbound]) -> None:
        """Send replies to an event that is not settled by them."""
        for one in replies:
            self._journal.add_reply(f"in{accepted.number}", one)
        self._delivery.enqueue(replies)

    def _enqueue(self, accepted: AcceptedEvent, route: Route) -> None:
        queue = self._queue(accepted.inbound, route.session_key)
        self._turn_queue.add(QueuedMessage(accepted, route, queue, self._rights(accepted.inbound, route)))

    def _queue(self, inbound: Inbound, session_key: str) -> QueueSettings:
        """Return the queue settings of a message: the conversation's own mode, else the account's, the
        channel's, the default. Where the sender waits for the answer, each message has a turn of its own.
        """
        config = self._runtime.config
        queue = account_setting(inbound.address, config, "queue")
        channel = self._runtime.registry.channel(inbound.address.channel, inbound.address.account)
        if channel and WAITS_FOR_REPLY in channel.capabilities:
            queue = queue or QueueSettings.model_validate({})
            mode = queue.mode if "mode" in queue.model_fields_set else "followup"
            # it refuses before this many wait
            queue = queue.model_copy(update={"mode": mode, "cap": 2 * queue.cap, "drop": "new"})
        queue = queue or config.settings.messages.queue
        chosen = self._runtime.sessions.overrides.of(session_key).queue
        return queue.model_copy(update={"mode": chosen}) if chosen else queue

    def _rights(self, inbound: Inbound, route: Route) -> Hashable:
        """Return what decides on tools for this sender: the owner flag, and the file's rules for them in this
        group.
        """
        address, direct = inbound.address, inbound.chat_type in ("direct", "dm")
        run = RunFacts(
            route.agent_id, address.channel, address.account, None if direct else address.chat, inbound.sender
        )
        scope = group_scope(self._runtime.config, run)
        return route.owner, scope.key if scope else ""

    async def _with_media(self, accepted: AcceptedEvent, route: Route) -> AcceptedEvent:
        """Return the message with its files stored in the workspace of the agent that will read it."""
        inbound, runtime = accepted.inbound, self._runtime
        channel = runtime.registry.channel(inbound.address.channel, inbound.address.account)
        if channel is None or not inbound.attachments:
            return accepted
        fence = fence_of(route.agent_id, runtime)
        return replace(accepted, inbound=await fetch_attachments(inbound, channel, fence, runtime.log))

    def _has_own_limit(self, inbound: Inbound) -> bool:
        channel = self._runtime.registry.channel(inbound.address.channel, inbound.address.account)
        return channel is not None and OPERATOR_ONLY in channel.capabilities

    def _is_bot_loop(self, inbound: Inbound) -> bool:
        """Return true if only bots were answered here for a while: two of them would go on forever."""
        address = inbound.address
        if not inbound.sender.is_bot:
            self._bot_turns.pop(address, None)
            return False
        self._bot_turns[address] = turns = self._bot_turns.pop(address, 0) + 1
        if len(self._bot_turns) > MAX_CHATS:
            del self._bot_turns[next(iter(self._bot_turns))]
        return turns > MAX_BOT_TURNS

    def _remember(self, inbound: Inbound) -> None:
        """Keep an unaddressed group message: it is shown with the next request to us."""
        most = account_setting(inbound.address, self._runtime.config, "group_history")
        if most and inbound.kind == "message":
            history = self._group_history.pop(inbound.address, ())
            if len(self._group_history) >= MAX_CHATS:
                del self._group_history[next(iter(self._group_history))]
            history = self._group_history[inbound.address] = deque(history, maxlen=most)
            history.append(
                QuotedMessage(
                    inbound.text,
                    inbound.sender.name or inbound.sender.id,
                    inbound.message_id,
                    inbound.sent_at,
                )
            )

    def _with_history(self, accepted: AcceptedEvent) -> AcceptedEvent:
        history = self._group_history.pop(accepted.inbound.address, None)
        if not history:
            return accepted
        around = replace(accepted.inbound.around, history=tuple(history))
        return replace(accepted, inbound=replace(accepted.inbound, around=around))


def _cause_to_give_up(cut: UnfinishedTurn, most_crashes: int) -> str:
    """Return the notice for a turn that was cut off too often; empty when it is resumed."""
    if cut.crashes >= most_crashes:
        return t(
            "I could not answer your last message: claw crashed {count:time|times} while it worked on it, so it does "
            "not try again. Part of the work may be done. Please ask in another way; the operator finds the cause "
            "with: claw logs --level error",
            count=cut.crashes,
        )
    if cut.kills >= MAX_KILLS:
        return t(
            "I could not answer your last message: claw was ended from outside {count:time|times} while it worked on "
            "it, for example for lack of memory, so it does not try again. Part of the work may be done. Please send "
            "it again later.",
            count=cut.kills,
        )
    return ""
