"""Channel serving: run every channel until stop; inbox, turns and outbox of their messages.

A channel that cannot start or keeps failing is quarantined after a few spaced retries; the others go on. A
message is on disk before its channel may acknowledge it, and the work a crash left is resumed at start.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from claw import (
    AcceptedEvent,
    Address,
    Channel,
    ChannelState,
    ClawError,
    ConfigError,
    Inbound,
    Outbound,
    Receipt,
    TurnEnded,
    UsageError,
    t,
)
from claw.runtime import (
    SYSTEM_CLOCK,
    TERMINAL,
    TOOL_CHOICES,
    WAITS_FOR_REPLY,
    App,
    Contribution,
    Setup,
    TurnContext,
    account_of,
    account_setting,
    channel_key,
    check_tool_choice,
    describe_exception,
    is_own_exit,
    retry_until_written,
    run_turn,
)
from claw_channel_sdk import ChatApprover, MessageFate

from claw_gateway.approval_messages import ApprovalMessages
from claw_gateway.channel_inbox import ChannelInbox
from claw_gateway.channel_states import (
    accounts_not_served,
    channels_without_listener,
    newly_wrong,
    report_failure,
    state_from,
    take_over,
)
from claw_gateway.channel_turn import ChannelTurn
from claw_gateway.delivery import OutboxDelivery
from claw_gateway.directives import visible_part
from claw_gateway.failed_replies import send_retries
from claw_gateway.inbound import MAX_CRASHES, InboundPipeline
from claw_gateway.journal import UnfinishedTurn, count_end, journal_of
from claw_gateway.kept_channels import kept_channels
from claw_gateway.left_typing import remove_left_typing
from claw_gateway.pairing import Pairing
from claw_gateway.process.failpoint import failpoint
from claw_gateway.process.report import LOG_CONTEXT, ChannelReport, HealthReport, log_context_of
from claw_gateway.queue import TurnQueue, cancel_tasks
from claw_gateway.replies import quoted_message_id, replies_of_turn, silent_tokens_of, split_reply
from claw_gateway.streaming import RelayedStream, RelayOptions, count_then_emit, recover_streamed
from claw_gateway.turn_limits import TurnLimits, widths_of

MAX_WAITING = 10_000
"""Limit of accepted messages whose turn has not begun; beyond it channels wait in ``submit``."""
_INTAKE_SECONDS = 0.1  # after this wait of a new message, turns that could begin yield to the inbox
_RECOVERED_SECONDS = 60.0  # a channel that listened so long has recovered from earlier failures
_MAX_PAUSE = 60.0


class ChannelServer:
    """All channels of an app except the terminal, until ``stop``. The limits of time are those of the app.

    :param last_end: the cause of the end of the process before; empty = from outside; None = it was stopped.
    :param safe: claw runs without the plugins of others, after crashes: each turn that these cut off is tried once more.
    """

    def __init__(self, app: App, last_end: str | None = None, safe: bool = False) -> None:
        self.app, self._timeouts, self._open, self._was_killed = app, app.timeouts, True, last_end is not None
        self._unserved, self._unheard = accounts_not_served(app), channels_without_listener(app)
        self._reported, self._pausing, self._last_submit = set[str](), dict[str, str](), dict[str, float]()
        self._journal = journal_of(app.runtime)
        count_end(self._journal, last_end)
        self._most_crashes = MAX_CRASHES + safe
        self._delivery = OutboxDelivery(self._journal, self._channel_of, app.log, app.timeouts)
        self._intake_since: dict[object, float] = {}
        self._turn_queue = TurnQueue(
            app.runtime.session_queues, TurnLimits(widths_of(app.config)), self._answer,
            lambda one, why: self._pipeline.settle_dropped(one, why),  # noqa: PLW0108 - made below
            ended=self._journal.ended, pressed=self._is_waiting,
        )  # fmt: skip
        pairing = Pairing(app.database, app.clock)
        self._pipeline = InboundPipeline(lambda: self.app, self._turn_queue, self._delivery, pairing)
        self._arrived: dict[Address, deque[AcceptedEvent | UnfinishedTurn]] = {}
        self._intake: set[asyncio.Task[None]] = set()
        self._approvers: list[ChatApprover] = []
        self._approval_messages = ApprovalMessages(lambda: self.app, self._delivery, self._journal)
        self._listening: dict[str, asyncio.Task[str]] = {}
        app.outlet, app.keep_channels = self._say, kept_channels
        self._connect_approver(app)

    @property
    def channels(self) -> Mapping[str, Contribution[Channel]]:
        """The channels that are served."""
        return {key: one for key, one in self.app.registry.channels.items() if key != TERMINAL}

    async def run(self, stop: asyncio.Event) -> None:
        """Run every channel until ``stop`` is set; turns that run then may end within a limit, or are parked."""
        asyncio.get_running_loop().set_exception_handler(self.app.on_loop_error)
        self._recover()
        retries = send_retries(self._journal, self._delivery.enqueue, self.app.log)
        tasks = [self._pipeline.greet_paired(), retries]
        if self._was_killed:
            tasks.append(remove_left_typing(self._journal, self._channel_of, self.app.log, self._timeouts))
        self._intake.update(map(asyncio.ensure_future, tasks))
        for key, one in self.channels.items():
            self._listening[key] = asyncio.ensure_future(self._listen(one))
        try:
            await stop.wait()
        finally:
            self._open = False
            grace, connected = self._timeouts.grace_seconds, self._connected()
            await cancel_tasks(set(self._listening.values()) - connected, grace)
            await self._turn_queue.shut_down(self._timeouts.stop_seconds / 2, grace)
            await cancel_tasks(self._intake, grace)
            await self._delivery.stop(self._timeouts.stop_seconds / 4)
            await cancel_tasks(connected, grace)  # last: its callers wait for the answers
            self.app.outlet = None
            for approver in self._approvers:
                approver.show_request = None

    def _connected(self) -> set[asyncio.Task[str]]:
        """Return the tasks of the channels whose senders wait on a connection."""
        waits = {key for key, one in self.channels.items() if WAITS_FOR_REPLY in one.value.capabilities}
        return {task for key, task in self._listening.items() if key in waits}

    async def reload(self, setup: Setup) -> None:
        """Switch to another configuration: all of it, or none.

        Running turns keep theirs to the end; a channel whose settings did not change is not restarted.

        :raises ClawError: a plugin that works now would be missing; nothing has changed.
        """
        old = self.app
        new = App(setup, before=old)
        if wrong := newly_wrong(old, new):
            await new.retire(old)
            raise ClawError("{why}", why=wrong)
        self._connect_approver(new)
        self._unserved, self._unheard = accounts_not_served(new), channels_without_listener(new)
        self.app = new
        self._turn_queue.limits.change(widths_of(new.config))
        before, after = old.registry.channels, new.registry.channels
        ended = {
            key: task
            for key, task in self._listening.items()
            if before.get(key) is not after.get(key) or task.done()  # a quarantined one is tried again
        }
        for key, task in ended.items():
            del self._listening[key]
            if self._open and not task.done() and take_over(before.get(key), after.get(key), new.log):
                self._listening[key] = asyncio.ensure_future(self._listen(after[key]))
        for task in ended.values():
            await cancel_tasks({task}, self._timeouts.grace_seconds)
        for key, one in self.channels.items():
            if self._open and key not in self._listening:  # stop may have been set meanwhile
                self._listening[key] = asyncio.ensure_future(self._listen(one))
        for held in self._turn_queue.release(lambda address: self._channel_of(address) is not None):
            self._arrive(held.inbound.address, held)
        retiring = asyncio.ensure_future(self._retire(old, new))
        self._intake.add(retiring)
        retiring.add_done_callback(self._intake.discard)

    async def _retire(self, old: App, new: App) -> None:
        """Close what only the old configuration had, once no turn runs with it."""
        await self._turn_queue.wait_until_idle()
        await old.retire(new)

    def report(self) -> HealthReport:
        """Return the state of the channels and the number of open tasks."""
        channels = (
            tuple(
                ChannelReport(one.value.name, account_of(one.value), one.plugin, self._state_of(key))
                for key, one in self.channels.items()
            )
            + self._unserved
        )
        _, pending = self._journal.counts()
        waiting = self._turn_queue.waiting + sum(map(len, self._arrived.values()))
        return HealthReport(channels, self._turn_queue.running, waiting, pending)

    def _state_of(self, key: str) -> ChannelState:
        pausing, submitted = self._pausing.get(key, ""), self._last_submit.get(key)
        state, task = state_from(self.channels[key].value, pausing, submitted), self._listening.get(key)
        if state.state != "failed" and (why := self._unheard.get(key)):
            return replace(state, state="failed", detail=why, last_error=why)
        if state.state == "failed" or task is None or not task.done() or task.cancelled():
            is_listening = task is not None and not task.done()
            report_failure(self._reported, key, state, self.app.log if is_listening else None)
            return state
        return replace(state, state="failed", detail=task.result(), last_error=task.result())

    async def check_tool_choice(self, inbound: Inbound) -> None:
        """Check a tool that a caller names against the tools of its turn, before the message is accepted.

        :raises UsageError: the turn would not have it.
        """
        if not inbound.tool_choice or inbound.tool_choice in TOOL_CHOICES:
            return
        try:
            context = await self.app.resolve_turn(inbound)
        except ClawError:  # the turn reports it
            return
        check_tool_choice(inbound.tool_choice, context)

    def fate(self, channel: str, account: str, event_pattern: str) -> MessageFate | None:
        """Return the fate of an accepted message; None when the turn log does not know it."""
        fate = getattr(self._journal, "fate", None)  # a turn log of another plugin may lack it
        return fate(channel, account, event_pattern) if fate else None

    async def accept(self, inbound: Inbound) -> bool:
        """Journal a message, then handle it. False: it is not on disk; the channel must not acknowledge it."""
        while self._open and self._turn_queue.waiting >= MAX_WAITING:  # noqa: ASYNC110 - several events can end the wait
            await asyncio.sleep(0.05)
        if not self._open:
            return False
        self._last_submit[channel_key(inbound.address.channel, inbound.address.account)] = SYSTEM_CLOCK.now()
        ticket = object()
        self._intake_since[ticket] = SYSTEM_CLOCK.monotonic()
        try:
            return await self._journal_first(inbound)
        finally:
            del self._intake_since[ticket]

    def _is_waiting(self) -> bool:
        """Return true if a new message has waited for long: the oldest comes first."""
        since = next(iter(self._intake_since.values()), None)
        return since is not None and SYSTEM_CLOCK.monotonic() - since > _INTAKE_SECONDS

    async def _journal_first(self, inbound: Inbound) -> bool:
        accepted, is_durable = None, True
        try:
            accepted = self._journal.accept(inbound)
            failpoint("inbox-written")
            channel = self._channel_of(inbound.address)
            if channel is None or WAITS_FOR_REPLY not in channel.capabilities:
                await self._journal.durable()  # includes earlier commits: their sync may still be pending
            failpoint("inbox-synced")
        except ClawError as refused:  # usually a full disk: the service keeps the message
            self.app.log(str(refused))
            is_durable = False
        finally:  # even if not acknowledged, or its channel ends meanwhile: a redelivery is recognised
            if accepted:
                self._arrive(inbound.address, accepted)
        return is_durable

    # --- in

    def _recover(self) -> None:
        """Resume what a crash left, before anything new: replies, turns, and accepted messages."""
        self._delivery.recover()
        for cut in self._journal.unfinished():
            if cut.taken:
                self._arrive(cut.taken[-1].inbound.address, cut)
        for accepted in self._journal.waiting_events():
            self._arrive(accepted.inbound.address, accepted)

    def _arrive(self, address: Address, arrived: AcceptedEvent | UnfinishedTurn) -> None:
        """Handle chats concurrently, the messages of one chat in order."""
        chat = replace(address, thread=None)
        waiting = self._arrived.get(chat)
        if waiting is not None:
            waiting.append(arrived)
            return
        self._arrived[chat] = deque([arrived])
        task = asyncio.ensure_future(self._receive_all(chat))
        self._intake.add(task)
        task.add_done_callback(self._intake.discard)

    async def _receive_all(self, chat: Address) -> None:
        waiting = self._arrived[chat]
        LOG_CONTEXT.set(log_context_of(chat))
        try:
            while waiting:
                arrived = waiting.popleft()
                try:
                    if isinstance(arrived, UnfinishedTurn):
                        await self._pipeline.resume(arrived, self._most_crashes)
                    else:
                        await self._pipeline.receive(arrived)
                except Exception as broken:  # noqa: BLE001 - one message must not stop the others
                    why = str(broken) if isinstance(broken, ClawError) else describe_exception(broken)
                    self.app.log(
                        t("a message in channel {name} was not accepted: {why}", name=chat.channel, why=why)
                    )
                    if isinstance(arrived, AcceptedEvent):
                        failed = partial(self._journal.close_event, arrived.number, "failed")
                        await retry_until_written(failed, self.app.log)
        finally:
            del self._arrived[chat]

    async def _listen(self, one: Contribution[Channel]) -> str:
        """Keep one channel running; after a few failures in a row quarantine it and return the reason."""
        name = channel_key(one.value.name, account_of(one.value))
        LOG_CONTEXT.set(log_context_of(Address(one.value.name, "", account=account_of(one.value))))
        pause, tries = self._timeouts.pause_seconds, 0
        while True:
            began, fix, needs_person = SYSTEM_CLOCK.monotonic(), "", False
            self._pausing.pop(name, None)
            try:
                await one.value.run(ChannelInbox(self, one.value))
                why = t("it stopped listening")
            except BaseException as failed:
                if is_own_exit(failed):
                    raise
                why = describe_exception(failed)
                if isinstance(failed, ClawError):
                    why, fix = ": ".join(filter(None, (failed.where, failed.problem))), failed.fix
                needs_person = isinstance(failed, ConfigError)
            if SYSTEM_CLOCK.monotonic() - began > _RECOVERED_SECONDS:
                tries, pause = 0, self._timeouts.pause_seconds
            tries += 1
            if needs_person or tries >= self._timeouts.tries:
                break
            if tries == 1:  # further failures are reported together, if all tries fail
                again = t("channel {name}: {why}. Retrying", name=name, why=why)
                self.app.log(t("{problem}. {fix}", problem=again, fix=fix) if fix else again)
                self._reported.add(name)
            self._pausing[name] = t("{problem}. {fix}", problem=why, fix=fix) if fix else why
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
        problem = t("channel {name} failed {count:time|times}: {why}", name=name, count=tries, why=why)
        if needs_person:
            problem = t("channel {name} cannot start: {why}", name=name, why=why)
        whole = t("{problem}. {fix}", problem=problem, fix=fix) if fix else problem
        if self._serves_others(one):
            self.app.log(whole)
        else:
            self.app.host.quarantine(one.plugin, "run", problem, fix)
        return whole

    def _serves_others(self, one: Contribution[Channel]) -> bool:
        """Return true if the channel's plugin serves another account that has not failed."""
        of_plugin = {key: other for key, other in self.channels.items() if other.plugin == one.plugin}
        return any(
            other is not one and self._state_of(key).state != "failed" for key, other in of_plugin.items()
        )

    # --- turns

    async def _answer(self, turn: ChannelTurn) -> None:
        """Run one turn with progress in its chat, and deliver its answer."""
        runtime, address = self.app.runtime, turn.message.address
        LOG_CONTEXT.set(log_context_of(address, turn.route.session_key))
        channel = self._channel_of(address)
        if channel is None:  # the running configuration does not serve it; a later one may
            if turn.resumed:
                self._journal.ended(turn.id, "refused")
            else:
                self._turn_queue.hold(turn)
            return
        where = Outbound(turn.id, address, "", quoted_message_id(turn), answers=turn.message.message_id)
        streams = account_setting(address, runtime.config, "streaming")
        in_blocks = account_setting(address, runtime.config, "block_streaming")
        if turn.resumed:
            await recover_streamed(channel, where, turn.id, self._journal, runtime.log)
        stream = RelayedStream(
            channel, where, turn.id, self._journal, partial(visible_part, tokens=silent_tokens_of(runtime)), runtime.log,
            RelayOptions(
                streams is not False, self._delivery.enqueue, bool(in_blocks),
                lambda: not self._delivery.busy(address), turn.resumed,
            ),
        )  # fmt: skip
        replies: tuple[Outbound, ...] = ()
        try:
            emit = partial(count_then_emit, turn, stream.on_event)
            ended = await run_turn(turn, runtime, emit, partial(self._replies, stream, channel))
            replies = ended.replies
            if ended.failed:
                runtime.log(ended.event.text)
        finally:
            texts = [one for one in replies if one.text]
            for approver in self._approvers:
                self._approval_messages.close(approver)
            await stream.close(finished=bool(texts), parked=turn.parked)
        self._deliver(stream, channel, replies, turn.answer)

    async def _replies(
        self,
        stream: RelayedStream,
        channel: Channel,
        turn: ChannelTurn,
        ending: TurnEnded,
        context: TurnContext | None,
    ) -> tuple[Outbound, ...]:
        if ending.outcome in ("delivered", "silent"):
            failpoint("answer-recorded")
        await stream.stop_updates()
        stream.record_messages()
        return await replies_of_turn(self.app.runtime, channel, turn, ending, context)

    def _deliver(
        self, stream: RelayedStream, channel: Channel, replies: tuple[Outbound, ...], text: str
    ) -> None:
        texts = tuple(one for one in replies if one.text)
        if stream.writer and texts:
            self._delivery.finish_reply(
                stream.writer, replace(texts[0], replaces=(), text=text), texts, channel
            )
            self._delivery.enqueue([one for one in replies if not one.text])
        else:
            self._delivery.enqueue(replies)

    # --- out

    def _channel_of(self, address: Address) -> Channel | None:
        return self.app.registry.channel(address.channel, address.account)

    async def _say(self, outbound: Outbound) -> Receipt:
        """Send what a tool says during its turn: through the outbox, in pieces that fit."""
        channel = self._channel_of(outbound.address)
        if channel is None:
            raise UsageError("there is no channel {name}", name=outbound.address.channel)
        turn = outbound.key.partition(":")[0]
        ids: list[str] = []
        for one in split_reply(outbound, channel):
            ids += (await self._delivery.send_and_wait(turn, one)).message_ids
        return Receipt(tuple(ids))

    def _connect_approver(self, app: App) -> None:
        """Send the requests of an app's approver to the chats; turns of the app before it may still run."""
        if (one := app.runtime.registry.approver) and isinstance(one.value, ChatApprover):
            self._approval_messages.connect(one.value)
            self._approvers = [*self._approvers[-1:], one.value]
